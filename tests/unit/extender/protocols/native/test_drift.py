"""``GET /v1/drift``: the data of the command, for the namespaces that a reader may see."""

import logging

import msgspec
import pytest
from fake_clock import FakeClock
from fake_metrics import FakeMetrics
from karmada_plane import binding, cluster, deployment, policy, selector

from berthmaster.manifests import Document, manifests_of
from berthmaster.native_api.why import DriftView
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.simulation.world import world_of
from extender.protocols import native
from extender.protocols.problem import Refusal
from extender.protocols.services import Call, Services
from extender.state.state import State

HELD = policy("web", selector(), placement={"clusterAffinity": {"clusterNames": ["a"]}})


@pytest.fixture
def ask():
    clock, state = FakeClock(), State(karmada_profile())
    services = Services(state, FakeMetrics(), logging.getLogger("test"), clock)
    templates = [deployment("web", 4, by=HELD), deployment("fallen", 2, by=HELD)]
    assigned = [binding(templates[0], HELD, a=4), binding(templates[1], HELD, b=2)]
    objects = [cluster("a"), cluster("b"), HELD, *templates, *assigned]
    with state.updating(clock.now()) as cache:
        cache.replace(world_of(manifests_of([Document("test", 0, "", each) for each in objects], "test")))
        state.fingerprint.set(b"1")
    route = next(each for each in native.routes() if each.path == "/v1/drift")

    def answer(**query):
        reply = route.handler(services, Call("1", clock.passed_s + 30.0, query=query))
        return msgspec.json.decode(reply.body, type=DriftView)

    return answer


@pytest.mark.parametrize(
    ("query", "workloads", "drifted", "shown"),
    [
        pytest.param({}, 2, 1, ["shop/Deployment/fallen"], id="everything"),
        pytest.param({"namespaces": "shop", "tolerance": "0"}, 2, 1, ["shop/Deployment/fallen"], id="a reader"),
        pytest.param({"namespaces": "default"}, 0, 0, [], id="a reader of another namespace"),
    ],
)
def test_the_answer_is_about_what_the_reader_may_see(ask, query, workloads, drifted, shown):
    found = ask(**query)
    assert (found.total.workloads, found.total.drifted, [each.resource for each in found.workloads]) == (
        workloads, drifted, shown,
    )  # fmt: skip
    assert found.version


def test_the_drift_says_what_a_repair_would_do(ask):
    (fallen,) = ask(limit="1").workloads
    assert (fallen.kinds, fallen.clusters, fallen.minimal, fallen.moves) == (
        {"NotMatching": 2, "MissingCopies": 2}, {"b": 2}, {"a": 2}, 2,
    )  # fmt: skip


@pytest.mark.parametrize("query", [{"tolerance": "-1"}, {"tolerance": "101"}, {"limit": "0"}])
def test_numbers_out_of_range_are_refused(ask, query):
    with pytest.raises(Refusal, match="accepted is a number from"):
        ask(**query)
