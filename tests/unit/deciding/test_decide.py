"""What is decided for a binding, as a pure function and under failover."""

import msgspec
import pytest
from builders import cluster
from decisions import AGGREGATED, DYNAMIC, asked
from fake_clock import FakeClock
from tables import cases

from berthmaster.controllers.binding_scheduler.cluster_cache import ClusterCache
from berthmaster.deciding.decide import BindingDecision, ClusterState, decide
from berthmaster.deciding.failover import FailoverOptions
from berthmaster.deciding.writes import Version, status_write
from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.placement_limits import DEFAULT_LIMITS
from berthmaster.model.unsupported_placement import checked_placement
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.scheduling.scheduler import Scheduler

TOLERATION_S = 300.0
KEY = "default", "web"


@pytest.fixture
def clusters(clock: FakeClock) -> ClusterCache:
    return ClusterCache(karmada_profile(), clock, FailoverOptions(TOLERATION_S))


def set_ready(clusters: ClusterCache, **ready: bool) -> None:
    for name, state in ready.items():
        clusters.update_cluster(cluster(name, cpu=10, ready=state))


def wanting(**fields: object) -> Binding:
    return asked(name="web", requests={"cpu": 1}, **fields)


def written(decision: BindingDecision) -> Binding:
    return decision.write.applied(decision.binding, Version("2", 2))


def test_an_assignment_to_a_cluster_that_is_not_ready_is_requeued_for_its_loss(
    clusters: ClusterCache, clock: FakeClock
):
    set_ready(clusters, a=False)
    clock.pass_by(100)
    decision = clusters.decide_and_assume(KEY, wanting(replicas=2, scheduling=AGGREGATED))
    assert (decision.clusters, decision.requeue_after_s) == ({"a": 2}, TOLERATION_S - 100)


def test_an_assignment_to_a_lost_cluster_is_requeued_at_once(clusters: ClusterCache, clock: FakeClock):
    set_ready(clusters, a=False)
    clock.pass_by(TOLERATION_S + 1)
    assert clusters.decide_and_assume(KEY, wanting(replicas=2, scheduling=AGGREGATED)).requeue_after_s == 0


def test_after_one_cluster_is_replaced_the_binding_is_requeued_for_the_next(clusters: ClusterCache, clock: FakeClock):
    set_ready(clusters, a=True, b=True, c=True)
    binding = written(clusters.decide_and_assume(KEY, wanting(replicas=6, scheduling=DYNAMIC)))
    set_ready(clusters, a=False)
    clock.pass_by(100)
    set_ready(clusters, b=False)
    clock.pass_by(TOLERATION_S - 100)
    decision = clusters.decide_and_assume(KEY, binding)
    assert decision.trigger is Trigger.FAILOVER
    assert (decision.clusters, decision.requeue_after_s) == ({"b": 2, "c": 4}, 100)


def test_a_cluster_without_replacement_is_not_requeued(clusters: ClusterCache, clock: FakeClock):
    set_ready(clusters, a=False)
    binding = written(clusters.decide_and_assume(KEY, wanting(replicas=2, scheduling=AGGREGATED)))
    clock.pass_by(TOLERATION_S)
    decision = clusters.decide_and_assume(
        KEY, msgspec.structs.replace(binding, spec=msgspec.structs.replace(binding.spec, replicas=4))
    )
    assert (decision.clusters, decision.requeue_after_s) == ({"a": 4}, None)
    assert decision.warning


def test_a_requested_rescheduling_follows_the_failover(clusters: ClusterCache, clock: FakeClock):
    set_ready(clusters, a=True, b=True, c=False)
    clock.pass_by(TOLERATION_S)
    requested = wanting(replicas=4, scheduling=DYNAMIC, fresh=True, clusters={"a": 2, "c": 2})
    decision = clusters.decide_and_assume(KEY, requested)
    assert (decision.trigger, decision.requeue_after_s) == (Trigger.FAILOVER, 0)
    status = status_write(written(decision), decision.result, clock.now(), refresh=decision.refresh)
    assert status.last_scheduled_time is None
    assert decision.attempted, "the events report it"
    assert clusters.decide_and_assume(KEY, written(decision)).trigger is Trigger.RESCHEDULED


def state(*members: Cluster, **unready_since_s: float) -> ClusterState:
    return ClusterState(Scheduler(Fleet(members), karmada_profile()), unready_since_s, FailoverOptions(TOLERATION_S))


FIRST = wanting(replicas=4, scheduling=DYNAMIC)


@pytest.mark.parametrize(
    ("binding", "now_s", "bounds", "trigger", "reason", "clusters", "requeue_after_s"),
    [
        pytest.param(FIRST, 0.0, None, Trigger.FIRST, "Success", {"a": 2, "b": 2}, None, id="a new binding"),
        pytest.param(FIRST, 0.0, {"a": 0}, Trigger.FIRST, "Success", {"b": 4}, None, id="an estimator bounds one"),
        pytest.param(
            wanting(replicas=40, scheduling=DYNAMIC), 0.0, None, Trigger.FIRST, "Unschedulable", None, None,
            id="too few replicas are available",
        ),
        pytest.param(
            wanting(replicas=4, scheduling=DYNAMIC, clusterAffinity={"clusterNames": ["x"]}), 0.0, None,
            Trigger.FIRST, "NoClusterFit", {}, None, id="no cluster passes the filters",
        ),
        pytest.param(
            wanting(replicas=4, scheduling=DYNAMIC, clusters={"c": 4}), 350.0, None, Trigger.FIRST, "Success",
            {"c": 4}, 50.0, id="an assigned cluster is not ready, but not lost yet",
        ),
        pytest.param(
            wanting(replicas=4, scheduling=DYNAMIC, clusters={"c": 4}), 400.0, None, Trigger.FAILOVER, "Success",
            {"a": 2, "b": 2}, None, id="an assigned cluster is lost",
        ),
    ],
)  # fmt: skip
def test_decide_depends_on_its_arguments_only(binding, now_s, bounds, trigger, reason, clusters, requeue_after_s):
    members = [cluster("a", cpu=10), cluster("b", cpu=10), cluster("c", cpu=10, ready=False, taints=["x:NoSchedule"])]
    now = state(*members, c=100.0)
    decisions = [decide(now, binding, now_s, bounds) for _ in range(2)]
    assert decisions[0] == decisions[1], "a decision changes nothing that it reads"
    found = decisions[0]
    assert (found.trigger, found.result.reason, found.clusters) == (trigger, reason, clusters)
    assert found.requeue_after_s == requeue_after_s


def test_a_decision_explains_each_group_on_request():
    binding = wanting(
        replicas=4, scheduling=DYNAMIC,
        groups=[{"affinityName": "one", "clusterNames": ["b"]}, {"affinityName": "two", "clusterNames": ["a"]}],
    )  # fmt: skip
    now = state(cluster("a", cpu=10), cluster("b", cpu=10, taints=["x:NoSchedule"]))
    assert not decide(now, binding, 0.0).attempts
    first, second = decide(now, binding, 0.0, explain=True).attempts
    assert (first["group"], first["clusters"], first["fit"]) == ("one", 2, 0)
    assert first["rejected"] == {"ClusterAffinity": 1, "TaintToleration": 1}
    assert first["failure"] == "none of 2 clusters fits"
    assert (second["group"], second["selected"], second["assigned"]) == ("two", ["a"], "a:4")


@cases(
    ("limits", "message"),
    {
        "a limit": ({"groups": 1}, "spec.placement.clusterAffinities: 2 groups; at most 1 are scheduled"),
        "the steps of a decision": ({"steps": 10}, "the decision takes more than 10 steps"),
    },
)
def test_a_binding_that_is_too_large_keeps_its_clusters_and_is_not_retried(limits, message):
    profile = karmada_profile(limits=DEFAULT_LIMITS._replace(**limits))
    clusters = ClusterState(Scheduler(Fleet([cluster("a", cpu=10)]), profile), {}, FailoverOptions())
    binding = wanting(replicas=2, groups=[{"affinityName": "x"}, {"affinityName": "y"}], clusters={"a": 1})
    decision = decide(clusters, binding, 0.0)
    assert decision.result.reason == "PlacementTooLarge"
    assert decision.result.message.startswith(message)
    assert (decision.write, decision.clusters, decision.requeue_after_s) == (None, None, None)
    assert decision.attempted
    assert not decision.waits_for_capacity


def test_a_placement_that_is_too_large_is_reported_by_failover_and_estimators_and_hosts_nothing(clock: FakeClock):
    profile = karmada_profile(limits=DEFAULT_LIMITS._replace(groups=1))
    asked_for: list[object] = []
    clusters = ClusterCache(profile, clock, FailoverOptions(TOLERATION_S), lambda query: asked_for.append(query) or {})
    set_ready(clusters, a=False, b=True)
    clock.pass_by(TOLERATION_S + 1)
    groups = [{"affinityName": "x"}, {"affinityName": "y"}]
    binding = wanting(replicas=2, groups=groups, clusters={"a": 2}, scheduling=AGGREGATED)
    decision = clusters.decide_and_assume(KEY, binding)
    assert decision.result.reason == "PlacementTooLarge"
    assert "2 groups; at most 1 are scheduled" in decision.warning
    assert asked_for == []
    assert not clusters.could_host(binding.spec.placement, ["b"])


def test_failover_counts_the_steps_of_all_groups_together(clock: FakeClock):
    def warning(steps: int) -> str:
        clusters = ClusterCache(
            karmada_profile(limits=DEFAULT_LIMITS._replace(steps=steps)), clock, FailoverOptions(TOLERATION_S)
        )
        set_ready(clusters, a=False, b=True)
        clock.pass_by(TOLERATION_S + 1)
        groups = [{"affinityName": f"g{index}", "clusterNames": ["a"]} for index in range(30)]
        binding = wanting(replicas=2, groups=groups, clusters={"a": 2}, scheduling=AGGREGATED)
        return clusters.decide_and_assume(KEY, binding).warning

    assert "takes more than 20,000 steps" in warning(20_000)
    assert "steps" not in warning(10_000_000)


def test_an_unsupported_placement_stays_even_if_its_cluster_is_lost(clock: FakeClock):
    asked_for: list[object] = []
    clusters = ClusterCache(
        karmada_profile(), clock, FailoverOptions(TOLERATION_S), lambda query: asked_for.append(query) or {}
    )
    set_ready(clusters, a=False, b=True)
    clock.pass_by(TOLERATION_S + 1)
    binding = wanting(replicas=2, clusters={"a": 2}, scheduling=AGGREGATED)
    held = checked_placement(binding.spec.placement, {"racks": 1})
    binding = msgspec.structs.replace(binding, spec=msgspec.structs.replace(binding.spec, placement=held))
    decision = clusters.decide_and_assume(KEY, binding)
    assert decision.result.reason == "UnsupportedPlacement"
    assert decision.is_news  # a ledger restores the unknown parts, and repeats the decision
    assert (decision.write, decision.clusters, decision.requeue_after_s) == (None, None, None)
    assert not decision.waits_for_capacity
    assert asked_for == []
