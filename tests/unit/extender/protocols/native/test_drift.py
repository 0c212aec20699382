"""``GET /v1/drift``: the data of the command, for the namespaces that a reader may see, and the metrics of it."""

import pytest
from extender_services import asked, services_of, world_with
from karmada_plane import binding, cluster, deployment, policy, selector
from tables import cases

from berthmaster.native_api.drift import DriftView
from berthmaster.native_api.why import BindingOverview
from extender.protocols import native
from extender.protocols.native.background import Background

HELD = policy("web", selector(), placement={"clusterAffinity": {"clusterNames": ["a"]}})
FALLEN, LOST, WEB = "shop/Deployment/fallen", "shop/Deployment/lost", "shop/Deployment/web"


class Extender:
    """An extender with two workloads that drift and one that does not."""

    def __init__(self):
        self.drifts = native.Drifts()
        self.routes = {each.path: each for each in native.routes(drifts=self.drifts) if each.method == "GET"}
        templates = [deployment("web", 4, by=HELD), deployment("fallen", 2, by=HELD), deployment("lost", 1, by=HELD)]
        placed = {"a": 4}, {"b": 2}, {"c": 1}
        assigned = [binding(each, HELD, **where) for each, where in zip(templates, placed, strict=True)]
        self.services = services_of(world_with(cluster("a"), cluster("b"), HELD, *templates, *assigned))
        self.clock, self.metrics = self.services.clock, self.services.metrics
        self.change("1")

    def change(self, version):
        self.services.state.fingerprint.set(version.encode())

    def ask(self, path="/v1/drift", answer=DriftView, values=None, **query):
        return asked(self.services, self.routes[path], answer, within_s=30.0, values=values, **query)


@pytest.fixture
def extender():
    return Extender()


@cases(
    ("query", "workloads", "drifted", "matched", "shown"),
    {
        "everything": ({}, 3, 2, 2, [FALLEN, LOST]),
        "a reader": ({"namespaces": "shop", "tolerance": "0"}, 3, 2, 2, [FALLEN, LOST]),
        "a reader of another namespace": ({"namespaces": "default"}, 0, 0, 0, []),
        "by a part of the name": ({"q": "SHOP/deployment/lo"}, 3, 2, 1, [LOST]),
        "by a kind of drift": ({"kind": "NotMatching"}, 3, 2, 2, [FALLEN, LOST]),
        "by a kind that no workload has": ({"kind": "Weights"}, 3, 2, 0, []),
        "by policy": ({"policy": "shop/WEB"}, 3, 2, 2, [FALLEN, LOST]),
        "by another policy": ({"policy": "other"}, 3, 2, 0, []),
        "by a cluster before the repair": ({"cluster": "c"}, 3, 2, 1, [LOST]),
        "by a cluster after the repair": ({"cluster": "a"}, 3, 2, 2, [FALLEN, LOST]),
        "the fewest moves first": ({"sort": "moves"}, 3, 2, 2, [LOST, FALLEN]),
        "by name, reversed": ({"sort": "-name"}, 3, 2, 2, [LOST, FALLEN]),
        "a later page": ({"limit": "1", "offset": "1"}, 3, 2, 2, [LOST]),
        "the figures alone": ({"limit": "0"}, 3, 2, 2, []),
    },
)
def test_the_answer_is_about_what_the_reader_may_see(extender, query, workloads, drifted, matched, shown):
    found = extender.ask(**query)
    counts = (found.total.workloads, found.total.drifted, found.matched)
    assert (counts, [each.resource for each in found.workloads]) == ((workloads, drifted, matched), shown)
    assert bool(found.policies) is (drifted > 0 and query.get("limit") != "0")
    assert found.version


def test_the_drift_says_what_a_repair_would_do(extender):
    fallen = extender.ask().workloads[0]
    assert (fallen.kinds, fallen.clusters, fallen.minimal, fallen.moves) == (
        {"NotMatching": 2, "MissingCopies": 2}, {"b": 2}, {"a": 2}, 2,
    )  # fmt: skip


def test_a_reader_of_old_figures_does_not_wait(extender):
    first = extender.ask(stale="true")
    extender.clock.pass_by(3600.0)
    extender.change("2")
    again = extender.ask(stale="true")
    assert (again.version, again.computed_at, again.total) == (first.version, first.computed_at, first.total)
    assert extender.ask().version != first.version


def test_the_metrics_are_about_all_workloads_with_the_default_tolerance(extender):
    extender.drifts.refresh(extender.services)
    found = extender.ask()
    extender.ask(tolerance="50")
    ((summary, computed_at),) = extender.metrics.calls_of("drifted")
    assert (summary.total, summary.kinds, computed_at) == (found.total, found.kinds, found.computed_at)


@cases(
    ("passed_s", "version", "watched", "computes"),
    {
        "a change, long ago": (301.0, "2", None, True),
        "a change, a short time ago": (299.0, "2", None, False),
        "no change": (301.0, "1", None, False),
        "bindings are watched": (301.0, "2", ("clusters", "bindings"), True),
        "bindings are not watched": (301.0, "2", ("clusters",), False),
    },
)
def test_the_metrics_are_computed_again_after_some_minutes_with_changes(
    extender, monkeypatch, passed_s, version, watched, computes
):
    extender.ask()
    started = []
    monkeypatch.setattr(Background, "_want", lambda *question: started.append(question))
    extender.clock.pass_by(passed_s)
    extender.change(version)
    extender.services.state.watched = watched
    extender.drifts.refresh(extender.services)
    assert bool(started) is computes


def test_the_overview_of_a_workload_has_its_drift(extender):
    path = "/v1/bindings/{namespace}/{name}/overview"
    drifts = [
        extender.ask(path, BindingOverview, {"namespace": "shop", "name": f"{name}-deployment"}).drift
        for name in ("web", "fallen")
    ]
    assert [(each.resource, each.moves) for each in drifts] == [(WEB, 0), (FALLEN, 2)]
