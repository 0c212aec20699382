"""The caches of bindings and of clusters."""

import json
from typing import Any

import msgspec
import pytest
from builders import cluster
from decisions import AGGREGATED, DUPLICATED, asked
from fake_clock import FakeClock
from kube_in_memory import KubeInMemory
from tables import cases

from berthmaster.controllers.binding_scheduler.binding_cache import BindingCache
from berthmaster.controllers.binding_scheduler.cluster_cache import ClusterCache
from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.deciding.decide import BindingDecision
from berthmaster.deciding.failover import FailoverOptions
from berthmaster.deciding.writes import Version, status_write
from berthmaster.kube.informer import Informer
from berthmaster.kube.requests import RESOURCE_BINDINGS
from berthmaster.model.binding import AggregatedStatusItem, Binding, WorkloadAffinityGroups
from berthmaster.model.meta import Key, with_status
from berthmaster.model.unsupported_placement import unsupported_parts
from berthmaster.scheduling.karmada.profile import built_in, karmada_profile
from berthmaster.scheduling.pending_replicas import LIFETIME_S

KEY = "ns", "web"
CAPACITY = 10
NO_PODS_YET = {
    "the work is not applied": AggregatedStatusItem("m"),
    "its operator has not seen it": AggregatedStatusItem("m", applied=True, health="Unhealthy"),
    "its state is empty": AggregatedStatusItem("m", {}, applied=True, health="Unhealthy"),
}


@pytest.fixture
def clusters(clock: FakeClock) -> ClusterCache:
    made = ClusterCache(karmada_profile(built_in(workload_affinity=True)), clock, FailoverOptions())
    made.update_cluster(cluster("m", cpu=CAPACITY))
    return made


def wanting(name: str, replicas: int, *, has: int = 0, uid: str = "", **fields: object) -> Binding:
    """A binding that wants replicas of one core, and has some of them already."""
    assigned = {"m": has} if has else {}
    made = asked(
        **{"name": name, "scheduling": AGGREGATED, "requests": {"cpu": 1}, "replicas": replicas, **fields},
        clusters=assigned,
    )
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, uid=uid))


def key(binding: Binding) -> Key:
    return binding.metadata.key


def decide(clusters: ClusterCache, binding: Binding) -> BindingDecision:
    return clusters.decide_and_assume(key(binding), binding)


def available(clusters: ClusterCache) -> int:
    """How many replicas of one core a new binding can still get."""
    for replicas in range(CAPACITY, 0, -1):
        probe = wanting("probe", replicas)
        decision = decide(clusters, probe)
        clusters.remove_binding(key(probe), probe)
        if decision.result.ok:
            return replicas
    return 0


def reported(binding: Binding, health: str = "Healthy") -> Binding:
    items = (AggregatedStatusItem("m", applied=True, health=health),)
    return msgspec.structs.replace(binding, status=msgspec.structs.replace(binding.status, aggregated_status=items))


def test_a_write_whose_response_was_lost_stays_assumed(clusters: ClusterCache):
    binding = wanting("web", 4)
    clusters.mark_unconfirmed(key(binding), decide(clusters, binding))
    assert available(clusters) == 6, "the result is unknown"
    clusters.observe(key(binding), wanting("web", 4, has=4))
    assert available(clusters) == 6
    clusters.observe(key(binding), wanting("web", 4, has=2))
    assert available(clusters) == 8, "the lost response is settled: what another client writes counts"


@cases(
    "now",
    {
        "it is as it was": wanting("web", 4),
        "it is gone": None,
        "it was created again": wanting("web", 4, has=4, uid="another"),
    },
)
def test_what_was_not_written_counts_no_more_once_that_is_seen(clusters: ClusterCache, now: Binding | None):
    binding = wanting("web", 4)
    decision = decide(clusters, binding)
    clusters.take_freed()
    clusters.mark_unconfirmed(key(binding), decision)
    clusters.observe(key(binding), now)
    assert available(clusters) == CAPACITY


def test_a_retry_counts_once(clusters: ClusterCache):
    binding = wanting("web", 4)
    for _ in range(3):
        clusters.observe(key(binding), binding)
        clusters.mark_unconfirmed(key(binding), decide(clusters, binding))
    assert available(clusters) == 6
    clusters.observe(key(binding), binding)
    assert available(clusters) == CAPACITY


def test_replicas_that_became_healthy_meanwhile_are_not_assumed_again(clusters: ClusterCache):
    first = wanting("web", 2)
    decision = decide(clusters, first)
    assert decision.write is not None
    grown = wanting("web", 5, has=2)
    clusters.mark_unconfirmed(key(first), decide(clusters, grown))
    clusters.forget(key(first), ["m"])
    clusters.observe(key(first), grown)
    assert clusters.assumed_count() == 0


def test_a_deleted_binding_leaves_nothing_assumed(clusters: ClusterCache):
    binding = wanting("web", 4)
    clusters.mark_unconfirmed(key(binding), decide(clusters, binding))
    clusters.remove_binding(key(binding), binding)
    clusters.observe(key(binding), wanting("web", 4))
    assert (clusters.assumed_count(), available(clusters)) == (0, CAPACITY)


def test_a_failed_write_does_not_move_peers(clusters: ClusterCache):
    clusters.update_cluster(cluster("n", cpu=CAPACITY))
    groups = {"workload_affinity_groups": WorkloadAffinityGroups(anti_affinity_group="app=web")}
    first = wanting("first", 2, scheduling=AGGREGATED, **groups)
    other = wanting("other", 2, scheduling=DUPLICATED, **groups)
    decision = decide(clusters, first)
    assert decision.clusters is not None
    [taken] = decision.clusters
    assert taken not in (decide(clusters, other).clusters or {})
    clusters.mark_unconfirmed(key(first), decision)
    clusters.observe(key(first), first)
    clusters.update_peers(other)
    assert set(decide(clusters, wanting("third", 2, scheduling=DUPLICATED, **groups)).clusters or {}) == {"m", "n"}


def test_assignments_of_another_leader_are_assumed_until_reported(clusters: ClusterCache, clock: FakeClock):
    clock.skew_s = -600.0  # the clock of the other leader does not matter
    scheduled = wanting("web", 4, has=4)
    clusters.adopt(key(scheduled), None, scheduled)
    assert available(clusters) == 6
    clusters.forget(key(scheduled), ["m"])
    assert available(clusters) == CAPACITY


def test_running_replicas_are_not_assumed_after_a_takeover(clusters: ClusterCache):
    status = {"replicas": 4, "unavailableReplicas": 4}
    unhealthy = AggregatedStatusItem("m", status, applied=True, health="Unhealthy")
    running = with_status(wanting("web", 4, has=4), aggregated_status=(unhealthy,))
    clusters.adopt(key(running), None, running)
    assert clusters.assumed_count() == 0


@cases("report", NO_PODS_YET)
def test_replicas_without_pods_are_assumed_after_a_takeover(clusters: ClusterCache, report: AggregatedStatusItem):
    sent = with_status(wanting("web", 4, has=4), aggregated_status=(report,))
    clusters.adopt(key(sent), None, sent)
    assert available(clusters) == CAPACITY - 4


def test_replicas_that_another_process_added_are_assumed(clusters: ClusterCache):
    before, after = reported(wanting("web", 4, has=1)), reported(wanting("web", 4, has=4))
    clusters.adopt(key(after), before, after)
    assert available(clusters) == CAPACITY - 3


def test_replicas_that_grow_again_are_assumed_from_then_on(clusters: ClusterCache, clock: FakeClock):
    decide(clusters, wanting("web", 2))
    clock.pass_by(LIFETIME_S / 2)
    decide(clusters, wanting("web", 4, has=2))
    clock.pass_by(LIFETIME_S / 2)
    clusters.expire()
    assert available(clusters) == CAPACITY - 4


def test_observing_an_own_assignment_changes_nothing(clusters: ClusterCache):
    binding = wanting("web", 4)
    decision = decide(clusters, binding)
    clusters.adopt(key(binding), binding, decision.write.applied(binding, Version("2", 2)))
    assert available(clusters) == 6


@cases("elsewhere", {"evicted": {}, "moved": {"n": 4}})
def test_capacity_is_freed_where_another_client_removed_the_binding(clusters: ClusterCache, elsewhere: dict[str, int]):
    decision = decide(clusters, wanting("web", 4))
    before = decision.write.applied(decision.binding, Version("2", 2))
    after = asked(name="web", scheduling=AGGREGATED, requests={"cpu": 1}, replicas=4, clusters=elsewhere)
    clusters.observe_assignment(key(before), before, after)
    assert clusters.take_freed() == {"m"}
    assert available(clusters) == CAPACITY


@cases(
    ("has", "left"),
    {
        "no replicas left": (0, CAPACITY),
        "fewer replicas": (3, CAPACITY - 3),
        "the same replicas": (4, CAPACITY - 4),
        "more replicas, some of which run already": (6, CAPACITY - 4),
    },
)
def test_assumed_replicas_are_limited_to_the_observed_assignment(clusters: ClusterCache, has: int, left: int):
    binding = wanting("web", 4)
    decide(clusters, binding)
    clusters.observe(key(binding), wanting("web", 4, has=has))
    assert available(clusters) == left


def scheduled(clusters: ClusterCache, binding: Binding) -> Binding:
    """The binding after it was scheduled, with its status."""
    decision = decide(clusters, binding)
    written = decision.binding if decision.write is None else decision.write.applied(decision.binding, Version("2", 2))
    status = status_write(written, decision.result, FakeClock().now(), refresh=decision.refresh)
    return status.applied(written, Version("3", 2))


def test_a_binding_without_replicas_that_fits_no_cluster_is_not_scheduled(clusters: ClusterCache):
    clusters.update_cluster(cluster("m", cpu=CAPACITY, taints=["broken:NoSchedule"]))
    binding = scheduled(clusters, wanting("web", 0))
    decision = decide(clusters, binding)
    assert (decision.result.reason, decision.waits_for_capacity) == ("NoClusterFit", True)
    clusters.update_cluster(cluster("m", cpu=CAPACITY))
    assert decide(clusters, binding).result.ok


@cases(
    ("others", "expected"),
    {
        "the replicas move to other clusters": (("n",), {"n": 4}),
        "without other clusters they stay: that is more likely a fault": ((), None),
    },
)
def test_a_cluster_that_no_longer_exists_is_left(
    clusters: ClusterCache, others: tuple[str, ...], expected: dict[str, int] | None
):
    binding = scheduled(clusters, wanting("web", 4))
    assert decide(clusters, binding).clusters is None
    for name in others:
        clusters.update_cluster(cluster(name, cpu=CAPACITY))
    clusters.remove_cluster("m")
    assert decide(clusters, binding).clusters == expected


@cases(
    "free_up",
    {
        "the binding is deleted": lambda clusters, binding, _: clusters.remove_binding(key(binding), binding),
        "the workload is healthy": lambda clusters, binding, _: clusters.forget(key(binding), ["m"]),
        "the assumption expires": lambda clusters, _, clock: (clock.pass_by(LIFETIME_S), clusters.expire()),
        "the workload shrinks": lambda clusters, binding, _: clusters.decide_and_assume(
            key(binding), wanting("web", 1, has=4)
        ),
    },
)
def test_freed_clusters_are_returned_once(clusters: ClusterCache, clock: FakeClock, free_up):
    binding = wanting("web", 4)
    decide(clusters, binding)
    assert clusters.take_freed() == set()
    free_up(clusters, binding, clock)
    assert clusters.take_freed() == {"m"}
    assert clusters.take_freed() == set()


@pytest.fixture
def context() -> ControllerContext:
    return ControllerContext(KubeInMemory(), FakeClock(), None)  # type: ignore[arg-type] # no events


@pytest.fixture
def bindings(context: ControllerContext) -> BindingCache:
    return BindingCache(context)


@pytest.fixture
def informer(context: ControllerContext, bindings: BindingCache) -> Informer[Binding]:
    bindings.subscribe(lambda _key, _before, _after: None)
    return context.informers[RESOURCE_BINDINGS]


def raw(version: str, **spec: Any) -> msgspec.Raw:
    resource = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "ns"}
    metadata = {"name": "web", "namespace": "ns", "resourceVersion": version}
    return msgspec.Raw(json.dumps({"metadata": metadata, "spec": {"resource": resource, **spec}}).encode())


def at(binding: Binding, version: str) -> Binding:
    return msgspec.structs.replace(
        binding, metadata=msgspec.structs.replace(binding.metadata, resource_version=version)
    )


def version(bindings: BindingCache) -> str:
    found = bindings.get(KEY)
    return "" if found is None else found.metadata.resource_version


def observe(informer: Informer[Binding], number: str) -> Binding:
    informer.put(KEY, raw(number))
    found = informer.get(KEY)
    assert found is not None
    return found


def test_a_written_binding_is_the_latest_until_it_is_observed(bindings: BindingCache, informer: Informer[Binding]):
    before = observe(informer, "1")
    bindings.add_written(KEY, before, at(before, "2"))
    bindings.add_written(KEY, at(before, "2"), at(before, "3"))
    assert version(bindings) == "3"
    observe(informer, "2")
    assert version(bindings) == "3", "the first of two writes"
    observe(informer, "4")
    assert version(bindings) == "4"


@cases(
    "overtake",
    {
        "the write was observed before its response": lambda informer: informer.put(KEY, raw("2")),
        "the binding was deleted before the response": lambda informer: informer.delete(KEY),
        "the binding was created again before the response": lambda informer: (
            informer.delete(KEY),
            informer.put(KEY, raw("9")),
        ),
    },
)
def test_a_write_that_is_outdated_at_its_response_is_not_kept(
    bindings: BindingCache, informer: Informer[Binding], overtake
):
    before = observe(informer, "1")
    overtake(informer)
    bindings.add_written(KEY, before, at(before, "2"))
    assert version(bindings) in {"", "2", "9"}
    assert bindings.get(KEY) is informer.get(KEY)


def test_own_writes_are_distinguished_from_others(bindings: BindingCache, informer: Informer[Binding]):
    before = observe(informer, "1")
    bindings.add_written(KEY, before, at(before, "2"))
    assert bindings.is_own(KEY, at(before, "2"))
    assert not bindings.is_own(KEY, at(before, "3"))
    observe(informer, "3")
    assert not bindings.is_own(KEY, at(before, "2")), "it is outdated"


def test_nothing_is_kept_of_a_deleted_binding(bindings: BindingCache, informer: Informer[Binding]):
    before = observe(informer, "1")
    bindings.add_written(KEY, before, at(before, "2"))
    informer.delete(KEY)
    assert bindings.get(KEY) is None


def test_bindings_of_one_policy_share_its_placement(bindings: BindingCache, informer: Informer[Binding]):
    placement = {"clusterAffinity": {"clusterNames": ["m"]}}
    for name in ("web", "db"):
        informer.put(("ns", name), raw("1", placement=placement))
    first, second = (bindings.get(("ns", name)) for name in ("web", "db"))
    assert first.spec.placement is second.spec.placement is not None


MIRRORED = {"replicaScheduling": {"replicaSchedulingType": "Mirrored"}}


@cases(
    ("hold", "placement", "problem"),
    {
        "an unknown field is held": (True, {"racks": 1}, "racks"),
        "an unknown field is ignored on request": (False, {"racks": 1}, ""),
        "an unknown value is held": (True, MIRRORED, "'Mirrored' is not accepted"),
        "an unknown value is never ignored": (False, MIRRORED, "'Mirrored' is not accepted"),
    },
)
def test_a_placement_with_an_unknown_part_is_unsupported(context: ControllerContext, hold, placement, problem):
    bindings = BindingCache(context, hold_unknown=hold)
    context.informers[RESOURCE_BINDINGS].put(KEY, raw("1", placement=placement))
    parts = unsupported_parts(bindings.get(KEY).spec.placement)
    assert problem in parts[0] if problem else not parts


def test_a_binding_whose_placement_gains_an_unknown_field_is_held_at_once(
    bindings: BindingCache, informer: Informer[Binding]
):
    for version_, placement in (("1", {}), ("2", {"racks": 1}), ("3", {})):
        informer.put(KEY, raw(version_, placement=placement))
        found = bindings.get(KEY)
        assert bool(unsupported_parts(found.spec.placement)) == (version_ == "2")
