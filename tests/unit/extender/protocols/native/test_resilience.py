"""``GET /v1/resilience``: computed in a thread, kept for a version of the state, and never an empty success."""

import contextlib
import multiprocessing
import threading

import pytest
from extender_services import asked, refusing, route_of, serve, services_of, world_with
from karmada_plane import binding, cluster, deployment, policy, selector
from msgspec.structs import replace
from switched_on import ALL_ON
from tables import cases

from berthmaster.native_api.why import MAX_NAMES, ResilienceView
from berthmaster.native_api.wire import Progress
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.simulation.failures import FailureDomain, Failures, Impact, losses
from berthmaster.simulation.plan_answer import Switch
from extender.protocols.native import background, resilience
from extender.protocols.native.resilience import impact_view
from extender.protocols.problem import Refusal
from extender.protocols.services import Call

HELD = policy("web", selector(), placement={"clusterAffinity": {"clusterNames": ["a"]}})
WITHIN_S = 30.0


def world(*more):
    template = deployment("web", 4, by=HELD)
    clusters = [cluster("a"), cluster("b")]
    clusters[0]["spec"]["region"] = "north"
    return world_with(*clusters, template, binding(template, HELD, a=4), HELD, *more)


class Service:
    def __init__(self):
        self.services = services_of()
        self.clock, self.state = self.services.clock, self.services.state
        self.route = route_of("/v1/resilience")
        self.version = 0
        self.load(world())

    def load(self, content):
        self.version += 1
        serve(self.services, content)
        self.state.fingerprint.set(str(self.version).encode())

    def ask(self, *, within_s=WITHIN_S, **query):
        return asked(self.services, self.route, ResilienceView, within_s=within_s, **query)


@pytest.fixture
def service():
    return Service()


def test_the_answer_is_that_of_the_simulation(service):
    found = service.ask(by="cluster,region", failover="on")
    domains = [FailureDomain.CLUSTER, FailureDomain.REGION]
    now, content = service.clock.now(), replace(service.state.world(), assumptions=ALL_ON)
    expected = Failures(content, karmada_profile(), now).impacts(losses(content.clusters, domains))
    assert [(each.domain, each.name, each.nowhere) for each in found.impacts] == [
        (each.domain, each.name, each.nowhere) for each in expected
    ]
    assert (found.impacts[0].name, found.impacts[0].counts) == ("a", (1, 1, 0, 0))
    assert (found.assumptions.failover, found.assumptions.taints_lost) == (Switch.ON, True)
    assert (found.failures, found.harmless, found.workloads, found.clusters) == (3, 1, 1, ["a", "b"])
    assert found.version == service.state.version


def test_a_limit_keeps_the_worst_and_the_totals(service):
    found = service.ask(limit="1")
    assert ([each.name for each in found.impacts], found.failures, found.harmless) == (["a"], 2, 1)


def test_names_are_limited_and_counts_are_not():
    names = [f"shop/Deployment/web-{number}" for number in range(MAX_NAMES + 1)]
    view = impact_view(Impact(FailureDomain.ZONE, "z", ("a",), names, [], [], 0, 0, {}, {}))
    assert (len(view.nowhere), view.counts, view.harmless) == (MAX_NAMES, (0, MAX_NAMES + 1, 0, 0), False)


class Gate:
    """Holds computations until it is opened."""

    def __init__(self, monkeypatch):
        self.open, self.begun, self.computed = threading.Event(), threading.Event(), 0
        found = resilience.losses

        def gated(*question):
            self.computed += 1
            self.begun.set()
            assert self.open.wait(WITHIN_S)
            return found(*question)

        monkeypatch.setattr(resilience, "losses", gated)


@pytest.fixture
def gate(monkeypatch):
    made = Gate(monkeypatch)
    yield made
    made.open.set()


def test_a_result_is_kept_while_nothing_changes(service, gate):
    gate.open.set()
    first = service.ask()
    assert service.ask() == first
    assert gate.computed == 1


@pytest.mark.parametrize("limit", [{"within_s": 0.6}, {"stale": "true"}], ids=str)
def test_without_a_result_in_time_the_request_is_refused_and_a_later_one_gets_it(service, gate, limit):
    with pytest.raises(Refusal, match="being simulated; retry") as refused:
        service.ask(**limit)
    assert refused.value.status == 503
    assert refused.value.progress == Progress("the loss of each cluster", service.clock.now(), 0, 0)
    gate.open.set()
    assert service.ask().failures == 2
    assert gate.computed == 1


def test_another_question_waits_for_its_turn(service, gate):
    for by, first in (("cluster", False), ("region", True)):
        with pytest.raises(Refusal) as refused:
            service.ask(by=by, within_s=0.6)
        assert (refused.value.progress.about, refused.value.progress.first) == ("the loss of each cluster", first)
    gate.open.set()
    assert (service.ask(by="region").failures, gate.computed) == (1, 2)
    assert (service.ask(by="cluster").failures, gate.computed) == (2, 2), "the first one ran to its end"


def test_the_progress_counts_failures(service, monkeypatch):
    simulated, held, release = Failures.impact, multiprocessing.Event(), multiprocessing.Event()

    def slow(failures, failure):
        if failure.name == "b":
            held.set()
            assert release.wait(WITHIN_S)
        return simulated(failures, failure)

    monkeypatch.setattr(Failures, "impact", slow)
    with pytest.raises(Refusal):
        service.ask(within_s=0.6)
    assert held.wait(WITHIN_S)
    with pytest.raises(Refusal) as refused:
        service.ask(within_s=0.6)
    assert (refused.value.progress.done, refused.value.progress.total) == (1, 2)
    release.set()
    assert service.ask().failures == 2


@cases(
    ("passed_s", "blocks", "ends"),
    {
        "no client asks, and another question waits": (background.PATIENCE_S + 1, True, background.Abandoned),
        "no client asks, and no question waits": (background.PATIENCE_S + 1, False, None),
        "it was asked for a moment ago": (background.PATIENCE_S - 1, True, None),
        "it takes too long": (background.LIMIT_S, False, background.TooLong),
    },
)
def test_a_computation_ends_if_nobody_wants_it_any_more(service, passed_s, blocks, ends):
    run = background.Run(service.services, "question")
    run.blocks = blocks
    service.clock.pass_by(passed_s)
    with pytest.raises(ends) if ends else contextlib.nullcontext():
        run()


def test_an_abandoned_computation_makes_room_for_the_question_that_waits(service):
    release, asked = threading.Event(), []

    def compute(_services, question, _now, _run):
        asked.append(question)
        if question == "left":
            assert release.wait(WITHIN_S)
            raise background.Abandoned
        return "an answer"

    texts = background.BackgroundTexts("about", "waits", "fails", "too long")
    made = background.Background("test", lambda _: texts, compute)
    with pytest.raises(Refusal, match="waits"):
        made.answer(service.services, Call("1", service.clock.passed_s + 0.6), "left")
    release.set()
    _, content = made.answer(service.services, Call("2", service.clock.passed_s + WITHIN_S), "wanted")
    assert (content, asked) == ("an answer", ["left", "wanted"])


def test_questions_of_two_kinds_are_computed_one_after_the_other(service):
    release, computed = threading.Event(), []
    texts = background.BackgroundTexts("about", "waits", "fails", "too long")

    def compute(_services, question, _now, _run):
        computed.append(question)
        return release.wait(WITHIN_S)

    kinds = [background.Background(name, lambda _: texts, compute) for name in ("first", "second")]
    for each, name in zip(kinds, ("first", "second"), strict=True):
        with pytest.raises(Refusal, match="waits"):
            each.answer(service.services, Call("1", service.clock.passed_s + 0.6), name)
    assert computed == ["first"]
    release.set()
    _, content = kinds[1].answer(service.services, Call("2", service.clock.passed_s + WITHIN_S), "second")
    assert (content, computed) == (True, ["first", "second"])


def test_a_reader_of_old_figures_does_not_wait_for_a_computation_that_takes_long(service, monkeypatch):
    release, texts = threading.Event(), background.BackgroundTexts("about", "waits", "fails", "too long")
    made = background.Background("test", lambda _: texts, lambda *_: release.wait(WITHIN_S))
    with pytest.raises(Refusal, match="waits"):
        made.answer(service.services, Call("1", service.clock.passed_s + 0.6), "question", wait=False)
    service.clock.pass_by(background.WAIT_S)
    monkeypatch.setattr(threading.Condition, "wait", lambda *_: pytest.fail("it waits"))
    with pytest.raises(Refusal, match="waits"):
        made.answer(service.services, Call("2", service.clock.passed_s + WITHIN_S), "question", wait=False)
    monkeypatch.undo()
    release.set()


def test_an_earlier_result_is_better_than_none_and_says_its_version(service, gate, monkeypatch):
    monkeypatch.setattr(background, "WAIT_S", 0.1)
    gate.open.set()
    first = service.ask()
    gate.open.clear()
    service.load(world(cluster("c")))
    assert service.ask() == first, "the new state is being computed"
    assert first.version != service.state.version
    gate.open.set()
    monkeypatch.setattr(background, "WAIT_S", WITHIN_S)
    assert service.ask().clusters == ["a", "b", "c"]


def test_a_domain_that_no_cluster_has_is_a_gap(service):
    found = service.ask(by="zone")
    assert (found.impacts, found.gaps) == ([], ["no cluster has a zone"])


def test_a_computation_that_takes_too_long_is_an_error_and_not_an_empty_answer(service):
    service.clock.tick_s = 1000.0
    with refusing(503, "takes longer than 900 s; ask for larger parts"):
        service.ask(within_s=100_000.0)


def test_a_crash_is_an_error_and_the_next_version_is_computed(service, monkeypatch):
    monkeypatch.setattr(resilience, "losses", lambda *_: 1 / 0)
    with pytest.raises(Refusal, match="could not be simulated"):
        service.ask()
    monkeypatch.undo()
    service.load(world())
    assert service.ask().failures == 2


def test_unknown_bindings_are_refused(service):
    service.state.watched = ["clusters"]
    with pytest.raises(Refusal, match="--watch clusters,bindings"):
        service.ask()
