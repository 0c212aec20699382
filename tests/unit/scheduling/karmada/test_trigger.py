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
    """A binding whose placement is on record as applied."""
    binding = asked(**{"scheduling": AGGREGATED, "replicas": 2, "clusters": {"a": 2}, **fields})
    record = applied or encode_json(binding.spec.placement).decode()
    return replace(binding, metadata=replace(binding.metadata, annotations={APPLIED_PLACEMENT: record}))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, Trigger.NONE, id="a divided workload with all its replicas is left alone"),
        pytest.param(
            {"applied": '{"clusterTolerations":[{"key":"x"}]}'}, Trigger.RECONCILE, id="another placement was applied"
        ),
        pytest.param({"applied": "{not json"}, Trigger.NONE, id="a record that cannot be read counts as unchanged"),
        pytest.param({"replicas": 3}, Trigger.SCALE, id="scaled up"),
        pytest.param({"replicas": 1}, Trigger.SCALE, id="scaled down"),
        pytest.param({"clusters": {}}, Trigger.SCALE, id="nothing is assigned any more"),
        pytest.param({"clusters": {"a": 1}, **EVICTED}, Trigger.FAILOVER, id="an eviction took replicas away"),
        pytest.param({"fresh": True}, Trigger.RESCHEDULED, id="a rescheduling was asked for"),
        pytest.param({"fresh": True, "replicas": 3}, Trigger.SCALE, id="scaling comes before a rescheduling"),
        pytest.param({"clusters": {"going": 2}}, Trigger.FAILOVER, id="an assigned cluster is being deleted"),
        pytest.param({"clusters": {"b": 2}, **EVICTED}, Trigger.FAILOVER, id="an assigned cluster is being evicted"),
        pytest.param({"clusters": {"down": 2}}, Trigger.NONE, id="readiness does not count by itself"),
        pytest.param({"clusters": {"gone": 2}}, Trigger.NONE, id="nor that a cluster is gone"),
        pytest.param(
            {"scheduling": DUPLICATED, "clusters": {"a": 2, "b": 2}},
            Trigger.RECONCILE,
            id="a duplicated one is always scheduled",
        ),
        pytest.param({"scheduling": None}, Trigger.RECONCILE, id="and so is one without a strategy"),
        pytest.param(
            {"scheduling": DUPLICATED, "clusters": {"a": 2, "b": 1}},
            Trigger.SCALE,
            id="a duplicated one with too few somewhere",
        ),
        pytest.param(
            {"replicas": 0, "clusters": {"a": 0}},
            Trigger.RECONCILE,
            id="a resource without replicas is always scheduled",
        ),
        pytest.param(
            {"replicas": 0, "clusters": {}, "requests": {}},
            Trigger.NONE,
            id="a workload scaled to nothing is still a workload",
        ),
        pytest.param(
            {"replicas": 0, "clusters": {}, "components": (Component(name="x", replicas=1),)},
            Trigger.NONE,
            id="and so is one of components",
        ),
    ],
)
def test_what_triggers_a_scheduling(fields, expected):
    assert trigger_of(scheduled(**fields), FLEET) is expected


@pytest.mark.parametrize(
    ("clusters", "expected"),
    [
        pytest.param({"down": 2}, Trigger.FAILOVER, id="one that is not ready"),
        pytest.param({"gone": 2}, Trigger.FAILOVER, id="one that is gone"),
        pytest.param({"a": 2}, Trigger.NONE, id="but not a ready one"),
    ],
)
def test_readiness_counts_where_it_is_asked_to(clusters, expected):
    assert trigger_of(scheduled(clusters=clusters), FLEET, not_ready_counts=True) is expected


def test_what_was_never_scheduled_is_scheduled_first():
    assert trigger_of(asked(), FLEET) is Trigger.FIRST


def test_without_a_placement_nothing_can_be_scheduled():
    binding = asked()
    assert trigger_of(replace(binding, spec=replace(binding.spec, placement=None)), FLEET) is Trigger.NONE


@pytest.mark.parametrize(
    ("triggered", "scheduled_at", "requested"),
    [
        pytest.param("01", "02", False, id="before the last scheduling"),
        pytest.param("02", "02", False, id="in the same second"),
        pytest.param("03", "02", True, id="after it"),
        pytest.param(None, "02", False, id="never"),
        pytest.param("03", None, False, id="of something that was never scheduled"),
    ],
)
def test_a_rescheduling_counts_only_after_the_last_scheduling(triggered, scheduled_at, requested):
    binding = scheduled(fresh=True)
    day = binding.spec.reschedule_triggered_at
    at = {number: day.replace(day=int(number)) for number in ("01", "02", "03")}
    binding = replace(
        binding,
        spec=replace(binding.spec, reschedule_triggered_at=at.get(triggered)),
        status=replace(binding.status, last_scheduled_time=at.get(scheduled_at)),
    )
    assert (trigger_of(binding, FLEET) is Trigger.RESCHEDULED) == requested


def group(name, *clusters, **fields):
    return {"affinityName": name, "clusterNames": list(clusters), **fields}


ONE, TWO = group("one", "a"), group("two", "b")


@pytest.mark.parametrize(
    ("before", "after", "observed", "changed"),
    [
        pytest.param({}, {}, "", False, id="nothing"),
        pytest.param(
            {"clusterAffinity": {}}, {"clusterAffinity": {"clusterNames": ["a"]}}, "", True, id="the affinity"
        ),
        pytest.param(
            {}, {"clusterAffinity": {}}, "", True, id="an affinity that means everything, where there was none"
        ),
        pytest.param({}, {"clusterTolerations": [{"key": "x"}]}, "", True, id="tolerations"),
        pytest.param({}, {"spreadConstraints": [{"spreadByField": "cluster"}]}, "", True, id="spread constraints"),
        pytest.param({}, {"replicaScheduling": DUPLICATED}, "", True, id="the strategy"),
        pytest.param({}, {"clusterAffinities": []}, "", False, id="an empty list of groups is like none"),
        pytest.param({}, {"clusterTolerations": []}, "", False, id="an empty list of tolerations is like none"),
        pytest.param(
            {"clusterAffinities": [ONE]},
            {"clusterAffinities": [{**ONE, "overflowAffinities": []}]},
            "one",
            False,
            id="an empty overflow is like none",
        ),
        pytest.param(
            {"clusterAffinities": [ONE, TWO]},
            {"clusterAffinities": [{**ONE, "overflowAffinities": []}, group("two", "c")]},
            "one",
            False,
            id="also where another group changed",
        ),
        pytest.param({"clusterAffinities": [ONE]}, {"clusterAffinities": [ONE, TWO]}, "one", False, id="a group more"),
        pytest.param(
            {"clusterAffinities": [ONE, TWO]}, {"clusterAffinities": [TWO, ONE]}, "one", False, id="their order"
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
            id="its overflow",
        ),
        pytest.param({"clusterAffinities": [ONE, TWO]}, {"clusterAffinities": [TWO]}, "one", True, id="it is gone"),
        pytest.param({"clusterAffinities": [TWO]}, {"clusterAffinities": [ONE, TWO]}, "one", True, id="it is new"),
        pytest.param(
            {"clusterAffinities": [ONE]},
            {"clusterAffinities": [ONE, TWO]},
            "",
            True,
            id="a group more, and none observed",
        ),
        pytest.param(
            {},
            {"workloadAffinity": {"affinity": {"groupByLabelKey": "x"}}},
            "",
            True,
            id="workload affinity, and no group observed",
        ),
        pytest.param(
            {"clusterAffinities": [ONE]},
            {"clusterAffinities": [ONE], "workloadAffinity": {"affinity": {"groupByLabelKey": "x"}}},
            "one",
            False,
            id="workload affinity, and the group is the same",
        ),
    ],
)
def test_what_counts_as_a_change_of_the_placement(before, after, observed, changed):
    applied = encode_json(placement(**before)).decode()
    assert placement_changed(placement(**after), applied, observed) is changed


@pytest.mark.parametrize(
    ("scheduling", "clusters", "changed"),
    [
        pytest.param(None, {"a": 7}, False, id="without a strategy replicas play no part"),
        pytest.param(DUPLICATED, {"a": 2, "b": 2}, False, id="duplicated, all everywhere"),
        pytest.param(DUPLICATED, {"a": 2, "b": 1}, True, id="duplicated, too few somewhere"),
        pytest.param(DUPLICATED, {}, False, id="duplicated, nowhere yet"),
        pytest.param(AGGREGATED, {"a": 1, "b": 1}, False, id="divided, the sum is right"),
        pytest.param(AGGREGATED, {}, True, id="divided, nowhere yet"),
        pytest.param({"replicaSchedulingType": ""}, {"a": 7}, False, id="a strategy of no type"),
    ],
)
def test_whether_replicas_changed(scheduling, clusters, changed):
    assert replicas_changed(asked(scheduling=scheduling, replicas=2, clusters=clusters).spec) is changed
