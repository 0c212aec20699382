from builders import cluster, placement
from decisions import AGGREGATED, DUPLICATED, asked
from msgspec.structs import replace
from tables import cases, data

from berthmaster.model.binding import APPLIED_PLACEMENT, Component, GracefulEvictionTask
from berthmaster.model.decode import encode_json
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.trigger import Trigger, placement_changed, replicas_changed, trigger_of

ROWS = data("scheduling/changed_placements")

FLEET = Fleet([cluster("a"), cluster("b"), cluster("going", deleting=True), cluster("down", ready=False)])
EVICTED = {"graceful_eviction_tasks": (GracefulEvictionTask(from_cluster="b"),)}


def scheduled(*, applied="", **fields):
    binding = asked(**{"scheduling": AGGREGATED, "replicas": 2, "clusters": {"a": 2}, **fields})
    record = applied or encode_json(binding.spec.placement).decode()
    return replace(binding, metadata=replace(binding.metadata, annotations={APPLIED_PLACEMENT: record}))


@cases(
    ("fields", "expected"),
    {
        "a divided workload with all its replicas": ({}, Trigger.NONE),
        "another placement was applied": ({"applied": '{"clusterTolerations":[{"key":"x"}]}'}, Trigger.RECONCILE),
        "an applied placement that cannot be decoded": ({"applied": "{not json"}, Trigger.NONE),
        "scaled up": ({"replicas": 3}, Trigger.SCALE),
        "scaled down": ({"replicas": 1}, Trigger.SCALE),
        "nothing is assigned": ({"clusters": {}}, Trigger.SCALE),
        "an eviction removed replicas": ({"clusters": {"a": 1}, **EVICTED}, Trigger.FAILOVER),
        "a rescheduling was requested": ({"fresh": True}, Trigger.RESCHEDULED),
        "scaling comes before a rescheduling": ({"fresh": True, "replicas": 3}, Trigger.SCALE),
        "an assigned cluster is being deleted": ({"clusters": {"going": 2}}, Trigger.FAILOVER),
        "an assigned cluster is being evicted": ({"clusters": {"b": 2}, **EVICTED}, Trigger.FAILOVER),
        "a cluster that is not ready": ({"clusters": {"down": 2}}, Trigger.NONE),
        "a removed cluster": ({"clusters": {"gone": 2}}, Trigger.NONE),
        "a duplicated workload is always scheduled": (
            {"scheduling": DUPLICATED, "clusters": {"a": 2, "b": 2}},
            Trigger.RECONCILE,
        ),
        "a workload without a strategy is always scheduled": ({"scheduling": None}, Trigger.RECONCILE),
        "a duplicated workload with too few replicas on a cluster": (
            {"scheduling": DUPLICATED, "clusters": {"a": 2, "b": 1}},
            Trigger.SCALE,
        ),
        "a resource without replicas is always scheduled": ({"replicas": 0, "clusters": {"a": 0}}, Trigger.RECONCILE),
        "a workload scaled to 0 is a workload": ({"replicas": 0, "clusters": {}, "requests": {}}, Trigger.NONE),
        "a workload with components is a workload": (
            {"replicas": 0, "clusters": {"member1": 0}, "components": (Component(name="x", replicas=1),)},
            Trigger.NONE,
        ),
        "a workload with components that lost its cluster": (
            {"replicas": 0, "clusters": {}, "components": (Component(name="x", replicas=1),)},
            Trigger.SCALE,
        ),
    },
)
def test_what_triggers_a_scheduling(fields, expected):
    assert trigger_of(scheduled(**fields), FLEET) is expected


@cases(
    ("clusters", "expected"),
    {
        "an assigned cluster that is not ready": ({"down": 2}, Trigger.FAILOVER),
        "an assigned cluster that was removed": ({"gone": 2}, Trigger.FAILOVER),
        "an assigned cluster that is ready": ({"a": 2}, Trigger.NONE),
    },
)
def test_readiness_counts_if_requested(clusters, expected):
    assert trigger_of(scheduled(clusters=clusters), FLEET, not_ready_counts=True) is expected


def test_a_binding_that_was_never_scheduled():
    assert trigger_of(asked(), FLEET) is Trigger.FIRST


def test_a_binding_without_a_placement_is_not_scheduled():
    binding = asked()
    assert trigger_of(replace(binding, spec=replace(binding.spec, placement=None)), FLEET) is Trigger.NONE


@cases(("before", "after", "observed", "changed"), ROWS["changes of a placement"])
def test_which_changes_of_the_placement_count(before, after, observed, changed):
    applied = encode_json(placement(**before)).decode()
    assert placement_changed(placement(**after), applied, observed) is changed


@cases(
    ("scheduling", "clusters", "changed"),
    {
        "without a strategy replicas do not count": (None, {"a": 7}, False),
        "duplicated, all replicas on all clusters": (DUPLICATED, {"a": 2, "b": 2}, False),
        "duplicated, too few replicas on a cluster": (DUPLICATED, {"a": 2, "b": 1}, True),
        "duplicated, not assigned": (DUPLICATED, {}, False),
        "divided, the right sum": (AGGREGATED, {"a": 1, "b": 1}, False),
        "divided, not assigned": (AGGREGATED, {}, True),
        "a strategy without a type": ({"replicaSchedulingType": ""}, {"a": 7}, False),
    },
)
def test_whether_replicas_changed(scheduling, clusters, changed):
    assert replicas_changed(asked(scheduling=scheduling, replicas=2, clusters=clusters).spec) is changed
