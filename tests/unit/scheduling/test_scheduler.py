import dataclasses

import numpy as np
import pytest
from builders import cluster
from decisions import AGGREGATED, DYNAMIC, asked, outcome, schedule
from msgspec.structs import replace

from berthmaster.model.decode import decode_json, encode_json
from berthmaster.model.placement import Placement
from berthmaster.scheduling import scheduler as module
from berthmaster.scheduling.columns import Column
from berthmaster.scheduling.filters import PlacementFilter
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.profile import STAGES, built_in, karmada_profile
from berthmaster.scheduling.profile import Plugins, Profile
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler


def group(name, *clusters, **fields):
    return {"affinityName": name, "clusterNames": list(clusters), **fields}


def walk(decision):
    """The groups that were tried, and what came of it."""
    return [attempt.group.name for attempt in decision.attempts], decision.group, outcome(decision)


ONE_TWO = [group("one", "a"), group("two", "b")]


@pytest.mark.parametrize(
    ("groups", "fields", "expected"),
    [
        pytest.param(ONE_TWO, {}, (["one"], "one", {"a": 1}), id="the first that works out wins"),
        pytest.param(
            [group("none", "x"), *ONE_TWO], {}, (["none", "one"], "one", {"a": 1}), id="one without clusters is left"
        ),
        pytest.param(
            ONE_TWO, {"replicas": 3}, (["one", "two"], "two", {"b": 3}), id="one without room for all replicas is left"
        ),
        pytest.param(
            [group("one", "a"), group("both", "a", "b")],
            {"replicas": 9},
            (["one", "both"], "both", {"a": 2, "b": 7}),
            id="a cluster may be in several groups",
        ),
        pytest.param(
            ONE_TWO, {"observed": "two"}, (["two"], "two", {"b": 1}), id="it goes on with the group observed last"
        ),
        pytest.param(
            ONE_TWO,
            {"observed": "two", "replicas": 99},
            (["two"], None, "Insufficient"),
            id="and never back to an earlier one",
        ),
        pytest.param(
            ONE_TWO,
            {"observed": "two", "fresh": True},
            (["one"], "one", {"a": 1}),
            id="unless a rescheduling was asked for",
        ),
        pytest.param(ONE_TWO, {"observed": "gone"}, (["one"], "one", {"a": 1}), id="or the observed group is gone"),
        pytest.param(
            [group("x", "nowhere"), *ONE_TWO],
            {"replicas": 99},
            (["x", "one", "two"], None, "NoFit"),
            id="when all fail the first failure is told",
        ),
        pytest.param(
            [*ONE_TWO, group("x", "nowhere")],
            {"replicas": 99},
            (["one", "two", "x"], None, "Insufficient"),
            id="whatever the later ones were",
        ),
        pytest.param(
            [], {"clusters": {"a": 1, "b": 0}}, ([], None, {"a": 1, "b": 0}), id="no groups at all: nothing changes"
        ),
        pytest.param(
            ONE_TWO,
            {"clusterAffinity": {"clusterNames": ["b"]}},
            (["one"], "one", {"b": 1}),
            id="with a single affinity beside them that one decides what fits",
        ),
        pytest.param(
            [group("one", "a", overflowAffinities=[group("over", "b")])],
            {"clusterAffinity": {"clusterNames": ["a"]}, "replicas": 5},
            (["one"], None, "Insufficient"),
            id="which also leaves the overflow unused",
        ),
        pytest.param(None, {"observed": "two"}, ([None], None, {"b": 1}), id="without groups there is one, nameless"),
    ],
)
def test_the_walk_over_groups(groups, fields, expected):
    clusters = [cluster("a", pods=2), cluster("b", pods=8)]
    decision = schedule(clusters, asked(groups=groups, scheduling=DYNAMIC, **fields))
    assert walk(decision) == expected


OVERFLOWING = [group("main", "a", overflowAffinities=[group("near", "b", "a"), group("far", "c", "d")])]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"replicas": 2}, {"a": 2}, id="what fits the group stays in it"),
        pytest.param({"replicas": 4}, {"a": 3, "b": 1}, id="the group is full before its overflow gets any"),
        pytest.param(
            {"replicas": 7}, {"a": 3, "b": 3, "c": 1}, id="each overflow is full before the next; ties go by name"
        ),
        pytest.param({"replicas": 10}, {"a": 3, "b": 3, "c": 2, "d": 2}, id="up to all there is"),
        pytest.param({"replicas": 11}, "Insufficient", id="and no further"),
        pytest.param({"replicas": 4, "clusters": {"a": 2, "b": 3}}, {"a": 4}, id="scaling down empties the last first"),
        pytest.param(
            {"replicas": 6, "clusters": {"a": 1, "b": 2, "c": 2}},
            {"a": 4, "b": 2},
            id="replicas flow back when the group has room again",
        ),
        pytest.param(
            {"replicas": 3, "clusters": {"c": 3}}, {"a": 3}, id="even all of them, although nothing is scaled"
        ),
        pytest.param({"replicas": 0}, {"a": 0}, id="a resource without replicas keeps to the group"),
        pytest.param({"replicas": 0, "requests": {}}, {}, id="a workload scaled to nothing goes nowhere"),
        pytest.param(
            {"replicas": 5, "clusters": {"a": 3}, "fresh": True},
            {"a": 5},
            id="afresh, room is what is free and what is taken",
        ),
    ],
)
@pytest.mark.parametrize("scheduling", [AGGREGATED, DYNAMIC], ids=["aggregated", "dynamic weight"])
def test_overflow_takes_what_the_group_cannot_hold(fields, scheduling, expected):
    clusters = [cluster("a", pods=3), cluster("b", pods=3), cluster("c", pods=2), cluster("d", pods=2)]
    decision = schedule(clusters, asked(groups=OVERFLOWING, scheduling=scheduling, **fields))
    assert outcome(decision) == expected


def test_an_overflow_of_nothing_is_the_group_alone():
    groups = [group("main", "a", overflowAffinities=[])]
    clusters = [cluster("a", pods=3), cluster("b", pods=3)]
    assert outcome(schedule(clusters, asked(groups=groups, scheduling=DYNAMIC, replicas=3))) == {"a": 3}
    assert outcome(schedule(clusters, asked(groups=groups, scheduling=DYNAMIC, replicas=4))) == "Insufficient"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"replicas": 0, "requests": {}}, {"a": 0, "b": 0}, id="a workload scaled to nothing"),
        pytest.param({"replicas": 1}, {"a": 0, "b": 1}, id="a cluster that the division leaves empty"),
        pytest.param({"replicas": 99}, "Insufficient", id="but not what has no room"),
    ],
)
def test_empty_workloads_may_be_propagated(fields, expected):
    profile = karmada_profile(keep_empty=True)
    clusters = [cluster("a", pods=2), cluster("b", pods=9)]
    assert outcome(schedule(clusters, asked(scheduling=AGGREGATED, **fields), profile)) == expected


def test_no_clusters_at_all():
    decision = schedule([], asked())
    assert outcome(decision) == "NoFit"
    assert decision.failure.message == "there are no clusters"
    assert decision.clears_assignment


def copy_of(placement):
    return decode_json(Placement, encode_json(placement))


@pytest.fixture
def made():
    """The placements that ``counting`` made plans for."""
    return []


@pytest.fixture
def counting(made):
    """A scheduler that notes what it makes plans for."""

    def compiled(placement, *rest):
        made.append(placement)
        return STAGES.compile(placement, *rest)

    return Scheduler(Fleet([cluster("a")]), Profile(built_in(), stages=dataclasses.replace(STAGES, compile=compiled)))


def test_equal_placements_share_a_plan(counting, made):
    first = asked(clusterAffinity={"clusterNames": ["a"]}).spec.placement
    assert counting.compile(first) is counting.compile(copy_of(first))
    assert len(made) == 1


def test_a_placement_seen_before_is_not_encoded_again(monkeypatch):
    scheduler = Scheduler(Fleet([cluster("a")]), karmada_profile())
    first = asked(clusterAffinity={"clusterNames": ["a"]}).spec.placement
    second = copy_of(first)
    compiled = scheduler.compile(first)
    scheduler.compile(second)
    monkeypatch.setattr(module, "encode_json", lambda _: pytest.fail("encoded again"))
    assert scheduler.compile(first) is compiled is scheduler.compile(second)


def test_many_bindings_of_one_policy_do_not_push_its_plan_out(counting, made, monkeypatch):
    monkeypatch.setattr(module, "_PLACEMENTS_KEPT", 4)
    placement = asked(clusterAffinity={"clusterNames": ["a"]}).spec.placement
    copies = [copy_of(placement) for _ in range(20)]
    for each in copies:
        counting.compile(each)
    assert len(made) == 1
    assert len(counting._compiled_of) <= 4


def test_plans_are_bounded(monkeypatch):
    monkeypatch.setattr(module, "_PLACEMENTS_KEPT", 4)
    scheduler = Scheduler(Fleet([cluster("a")]), karmada_profile())
    for index in range(20):
        binding = asked(clusterAffinity={"exclude": [f"m{index}"]}, clusterTolerations=[{"key": f"k{index}"}])
        assert outcome(scheduler.schedule(Request.of(binding))) == {"a": 1}
    assert max(len(scheduler._compiled), len(scheduler._compiled_of), len(scheduler._feasible)) <= 4


class FromFleet(Column[np.bool_]):
    """What a function says of each cluster, kept by a journal."""

    def __init__(self, journal, fleet, test):
        super().__init__(journal)
        self.fleet, self.test = fleet, test

    def compute(self):
        return np.array([self.compute_row(row) for row in range(self.fleet.capacity)])

    def compute_row(self, row):
        found = self.fleet.clusters[row]
        return found is not None and self.test(found)


class ByFunction(PlacementFilter):
    name = "ByFunction"

    def __init__(self, journal_of, test):
        self.journal_of, self.test = journal_of, test

    def column(self, context):
        return FromFleet(self.journal_of(context.fleet), context.fleet, self.test)

    def reason(self, context, cluster):  # noqa: ARG002 - as the interface says
        return None if self.test(cluster) else "fails the test"


@pytest.mark.parametrize(
    ("journal_of", "test", "change"),
    [
        pytest.param(
            lambda fleet: fleet.structure, lambda each: each.ready, {"ready": False}, id="readiness, by structure"
        ),
        pytest.param(
            lambda fleet: fleet.resources.journal,
            lambda each: each.status.resource_summary.allocatable["cpu"].value() > 2,
            {"cpu": 1},
            id="numbers, by resources",
        ),
    ],
)
def test_a_third_partys_column_is_looked_at_again_when_its_journal_says_so(journal_of, test, change):
    scheduler = Scheduler(Fleet([cluster("a", cpu=4)]), karmada_profile(Plugins((ByFunction(journal_of, test),), ())))
    request = Request.of(asked())
    assert outcome(scheduler.schedule(request)) == {"a": 1}
    scheduler.fleet.apply(cluster("a", **{"cpu": 4, **change}))
    assert outcome(scheduler.schedule(request)) == "NoFit"


def test_an_annotation_that_changes_is_seen_by_a_column():
    test = ByFunction(lambda fleet: fleet.structure, lambda each: "closed" not in each.metadata.annotations)
    scheduler = Scheduler(Fleet([cluster("a")]), karmada_profile(Plugins((test,), ())))
    assert outcome(scheduler.schedule(Request.of(asked()))) == {"a": 1}
    open_cluster = cluster("a")
    scheduler.fleet.apply(replace(open_cluster, metadata=replace(open_cluster.metadata, annotations={"closed": "yes"})))
    assert outcome(scheduler.schedule(Request.of(asked()))) == "NoFit"
