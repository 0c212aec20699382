import pytest
from builders import cluster, placement
from decisions import AGGREGATED, DUPLICATED, asked
from msgspec.structs import replace

from berthmaster.model.binding import APPLIED_PLACEMENT, Component, GracefulEvictionTask
from berthmaster.model.decode import encode_json
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.trigger import Trigger, placement_changed, replicas_changed, trigger_of

FLEET = Fleet([cluster("a"), cluster("b"), cluster("going", deleting=True), cluster("down", ready=False)])
EVICTED = {"graceful_eviction_tasks": (GracefulEvictionTask(from_cluster="b"),)}


def scheduled(*, applied="", **fields):
    binding = asked(**{"scheduling": AGGREGATED, "replicas": 2, "clusters": {"a": 2}, **fields})
    record = applied or encode_json(binding.spec.placement).decode()
    return replace(binding, metadata=replace(binding.metadata, annotations={APPLIED_PLACEMENT: record}))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, Trigger.NONE, id="a divided workload with all its replicas"),
        pytest.param(
            {"applied": '{"clusterTolerations":[{"key":"x"}]}'}, Trigger.RECONCILE, id="another placement was applied"
        ),
        pytest.param({"applied": "{not json"}, Trigger.NONE, id="an applied placement that cannot be decoded"),
        pytest.param({"replicas": 3}, Trigger.SCALE, id="scaled up"),
        pytest.param({"replicas": 1}, Trigger.SCALE, id="scaled down"),
        pytest.param({"clusters": {}}, Trigger.SCALE, id="nothing is assigned"),
        pytest.param({"clusters": {"a": 1}, **EVICTED}, Trigger.FAILOVER, id="an eviction removed replicas"),
        pytest.param({"fresh": True}, Trigger.RESCHEDULED, id="a rescheduling was requested"),
        pytest.param({"fresh": True, "replicas": 3}, Trigger.SCALE, id="scaling comes before a rescheduling"),
        pytest.param({"clusters": {"going": 2}}, Trigger.FAILOVER, id="an assigned cluster is being deleted"),
        pytest.param({"clusters": {"b": 2}, **EVICTED}, Trigger.FAILOVER, id="an assigned cluster is being evicted"),
        pytest.param({"clusters": {"down": 2}}, Trigger.NONE, id="a cluster that is not ready"),
        pytest.param({"clusters": {"gone": 2}}, Trigger.NONE, id="a removed cluster"),
        pytest.param(
            {"scheduling": DUPLICATED, "clusters": {"a": 2, "b": 2}},
            Trigger.RECONCILE,
            id="a duplicated workload is always scheduled",
        ),
        pytest.param({"scheduling": None}, Trigger.RECONCILE, id="a workload without a strategy is always scheduled"),
        pytest.param(
            {"scheduling": DUPLICATED, "clusters": {"a": 2, "b": 1}},
            Trigger.SCALE,
            id="a duplicated workload with too few replicas on a cluster",
        ),
        pytest.param(
            {"replicas": 0, "clusters": {"a": 0}},
            Trigger.RECONCILE,
            id="a resource without replicas is always scheduled",
        ),
        pytest.param(
            {"replicas": 0, "clusters": {}, "requests": {}},
            Trigger.NONE,
            id="a workload scaled to 0 is a workload",
        ),
        pytest.param(
            {"replicas": 0, "clusters": {"member1": 0}, "components": (Component(name="x", replicas=1),)},
            Trigger.NONE,
            id="a workload with components is a workload",
        ),
        pytest.param(
            {"replicas": 0, "clusters": {}, "components": (Component(name="x", replicas=1),)},
            Trigger.SCALE,
            id="a workload with components that lost its cluster",
        ),
    ],
)
def test_what_triggers_a_scheduling(fields, expected):
    assert trigger_of(scheduled(**fields), FLEET) is expected


@pytest.mark.parametrize(
    ("clusters", "expected"),
    [
        pytest.param({"down": 2}, Trigger.FAILOVER, id="an assigned cluster that is not ready"),
        pytest.param({"gone": 2}, Trigger.FAILOVER, id="an assigned cluster that was removed"),
        pytest.param({"a": 2}, Trigger.NONE, id="an assigned cluster that is ready"),
    ],
)
def test_readiness_counts_if_requested(clusters, expected):
    assert trigger_of(scheduled(clusters=clusters), FLEET, not_ready_counts=True) is expected


def test_a_binding_that_was_never_scheduled():
    assert trigger_of(asked(), FLEET) is Trigger.FIRST


def test_a_binding_without_a_placement_is_not_scheduled():
    binding = asked()
    assert trigger_of(replace(binding, spec=replace(binding.spec, placement=None)), FLEET) is Trigger.NONE


def group(name, *clusters, **fields):
    return {"affinityName": name, "clusterNames": list(clusters), **fields}


ONE, TWO = group("one", "a"), group("two", "b")


@pytest.mark.parametrize(
    ("before", "after", "observed", "changed"),
    [
        pytest.param({}, {}, "", False, id="no change"),
        pytest.param(
            {"clusterAffinity": {}}, {"clusterAffinity": {"clusterNames": ["a"]}}, "", True, id="the affinity"
        ),
        pytest.param({}, {"clusterAffinity": {}}, "", True, id="an empty affinity in place of none"),
        pytest.param({}, {"clusterTolerations": [{"key": "x"}]}, "", True, id="tolerations"),
        pytest.param({}, {"spreadConstraints": [{"spreadByField": "cluster"}]}, "", True, id="spread constraints"),
        pytest.param({}, {"replicaScheduling": DUPLICATED}, "", True, id="the strategy"),
        pytest.param({}, {"clusterAffinities": []}, "", False, id="an empty list of groups equals none"),
        pytest.param({}, {"clusterTolerations": []}, "", False, id="an empty list of tolerations equals none"),
        pytest.param(
            {"clusterAffinities": [ONE]},
            {"clusterAffinities": [{**ONE, "overflowAffinities": []}]},
            "one",
            False,
            id="an empty overflow equals none",
        ),
        pytest.param(
            {"clusterAffinities": [ONE, TWO]},
            {"clusterAffinities": [{**ONE, "overflowAffinities": []}, group("two", "c")]},
            "one",
            False,
            id="an empty overflow in the observed group while another group changed",
        ),
        pytest.param(
            {"clusterAffinities": [ONE]}, {"clusterAffinities": [ONE, TWO]}, "one", False, id="an added group"
        ),
        pytest.param(
            {"clusterAffinities": [ONE, TWO]}, {"clusterAffinities": [TWO, ONE]}, "one", False, id="the order of groups"
        ),
        pytest.param(
            {"clusterAffinities": [ONE, TWO]},
            {"clusterAffinities": [ONE, group("two", "c")]},
            "one",
            False,
            id="a group that the assignment did not come from",
        ),
        pytest.param(
            {"clusterAffinities": [ONE, TWO]},
            {"clusterAffinities": [group("one", "c"), TWO]},
            "one",
            True,
            id="the group that it came from",
        ),
        pytest.param(
            {"clusterAffinities": [ONE]},
            {"clusterAffinities": [{**ONE, "overflowAffinities": [TWO]}]},
            "one",
            True,
            id="the overflow of the observed group",
        ),
        pytest.param(
            {"clusterAffinities": [ONE, TWO]},
            {"clusterAffinities": [TWO]},
            "one",
            True,
            id="the observed group was removed",
        ),
        pytest.param(
            {"clusterAffinities": [TWO]},
            {"clusterAffinities": [ONE, TWO]},
            "one",
            True,
            id="the observed group was added",
        ),
        pytest.param(
            {"clusterAffinities": [ONE]},
            {"clusterAffinities": [ONE, TWO]},
            "",
            True,
            id="an added group without an observed group",
        ),
        pytest.param(
            {},
            {"workloadAffinity": {"affinity": {"groupByLabelKey": "x"}}},
            "",
            True,
            id="workload affinity without an observed group",
        ),
        pytest.param(
            {"clusterAffinities": [ONE]},
            {"clusterAffinities": [ONE], "workloadAffinity": {"affinity": {"groupByLabelKey": "x"}}},
            "one",
            False,
            id="workload affinity with the same observed group",
        ),
    ],
)
def test_which_changes_of_the_placement_count(before, after, observed, changed):
    applied = encode_json(placement(**before)).decode()
    assert placement_changed(placement(**after), applied, observed) is changed


@pytest.mark.parametrize(
    ("scheduling", "clusters", "changed"),
    [
        pytest.param(None, {"a": 7}, False, id="without a strategy replicas do not count"),
        pytest.param(DUPLICATED, {"a": 2, "b": 2}, False, id="duplicated, all replicas on all clusters"),
        pytest.param(DUPLICATED, {"a": 2, "b": 1}, True, id="duplicated, too few replicas on a cluster"),
        pytest.param(DUPLICATED, {}, False, id="duplicated, not assigned"),
        pytest.param(AGGREGATED, {"a": 1, "b": 1}, False, id="divided, the right sum"),
        pytest.param(AGGREGATED, {}, True, id="divided, not assigned"),
        pytest.param({"replicaSchedulingType": ""}, {"a": 7}, False, id="a strategy without a type"),
    ],
)
def test_whether_replicas_changed(scheduling, clusters, changed):
    assert replicas_changed(asked(scheduling=scheduling, replicas=2, clusters=clusters).spec) is changed
