"""What is not watched is refused with what to watch, and never answered with an empty success."""

import logging

import pytest
from builders import binding, cluster, policy
from fake_clock import FakeClock

from berthmaster.model.binding import WorkloadAffinityGroups
from berthmaster.model.placement import Placement
from berthmaster.native_api.what_if import DownChange, PolicyChange, SimulateRequest
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.simulation.workload import SimulatedWorkload
from berthmaster.simulation.world import World
from extender.protocols.native import routes
from extender.protocols.native.bindings import described, explained
from extender.protocols.native.simulate import Simulator
from extender.protocols.problem import Refusal
from extender.protocols.services import Call, Services
from extender.state.state import NO_SOURCE, State


@pytest.fixture
def services():
    clock, state, placed = FakeClock(), State(karmada_profile()), binding()
    with state.updating(clock.now()) as cache:
        cache.replace(World({"a": cluster("a")}, [SimulatedWorkload(placed.spec.resource, (), placed)]))
    return Services(state, metrics=None, log=logging.getLogger("test"), clock=clock)


def decision(services):
    return explained(services, "default", "web-deployment")


def known(services):
    return described(services, "default", "web-deployment")


def simulated(change):
    def ask(services):
        call = Call("1", deadline_s=services.clock.passed_s + 60)
        return Simulator().simulate(services, call, SimulateRequest((change,)))

    return ask


POLICY = simulated(PolicyChange(policy()))


@pytest.mark.parametrize(
    ("watched", "ask", "advice"),
    [
        pytest.param(["clusters"], decision, "start it with --watch clusters,bindings", id="a decision"),
        pytest.param(["clusters"], known, "start it with --watch clusters,bindings", id="a binding"),
        pytest.param(["clusters", "policies"], simulated(DownChange("a")), "--watch clusters,bindings", id="a change"),
        pytest.param(
            ["clusters", "bindings"], POLICY, "--watch clusters,policies,bindings,workloads", id="a change of a policy"
        ),
        pytest.param(
            ["nodes"], decision, "--watch clusters,bindings on Karmada's API server instead of nodes", id="nodes"
        ),
    ],
)
def test_what_is_not_watched_is_refused(services, watched, ask, advice):
    services.state.watched = watched
    with pytest.raises(Refusal) as refused:
        ask(services)
    assert refused.value.status == 409
    assert advice in refused.value.detail
    assert f"the service watches {', '.join(watched)}" in refused.value.detail


@pytest.mark.parametrize(
    "route",
    [each for each in routes() if each.method == "GET" and each.path.startswith("/v1/")],
    ids=lambda each: each.path,
)
def test_without_a_source_every_answer_says_so(services, route):
    services = Services(State(karmada_profile()), metrics=None, log=services.log, clock=services.clock)
    services.state.has_source = False
    values = {"namespace": "default", "name": "web-deployment", "record": "1"}
    with pytest.raises(Refusal) as refused:
        route.handler(services, Call("1", services.clock.passed_s + 60, query={"cluster": "a"}, path_values=values))
    assert refused.value.status == 409
    no_ledger = "the extender has no ledger; start it with --ledger (chart: ledger.secretName)"
    assert refused.value.detail in {NO_SOURCE, no_ledger}


@pytest.mark.parametrize("ask", [simulated(DownChange("a")), POLICY], ids=["a cluster", "a policy"])
def test_manifests_answer_everything(services, ask):
    assert ask(services).workloads == 1


def test_an_explanation_does_not_change_where_peers_are(services):
    groups = WorkloadAffinityGroups(affinity_group="app=shop")
    placed = binding("shop", replicas=1, placement=Placement(), clusters={}, workload_affinity_groups=groups)
    with services.state.updating(services.clock.now()) as cache:
        cache.replace(World({"a": cluster("a")}, [SimulatedWorkload(placed.spec.resource, (), placed)]))
    answer = explained(services, "default", "shop-deployment")
    assert answer.clusters, "the scheduler would place it"
    with services.state.reading() as cache:
        assert not cache.scheduler.peers.of("affinity", "default", "app=shop", except_for="")
