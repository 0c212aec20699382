import dataclasses

import numpy as np
import pytest
from builders import cluster
from decisions import AGGREGATED, DYNAMIC, asked, outcome, schedule
from msgspec.structs import replace

from berthmaster.model.decode import decode_json, encode_json
from berthmaster.model.placement import Placement
from berthmaster.scheduling import scheduler as module
from berthmaster.scheduling.bounded_cache import BoundedCache
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
    """Return the groups that were tried, the group that won, and the outcome."""
    return [attempt.group.name for attempt in decision.attempts], decision.group, outcome(decision)


ONE_TWO = [group("one", "a"), group("two", "b")]


@pytest.mark.parametrize(
    ("groups", "fields", "expected"),
    [
        pytest.param(ONE_TWO, {}, (["one"], "one", {"a": 1}), id="the first group that succeeds wins"),
        pytest.param(
            [group("none", "x"), *ONE_TWO], {}, (["none", "one"], "one", {"a": 1}), id="a group without clusters fails"
        ),
        pytest.param(
            ONE_TWO,
            {"replicas": 3},
            (["one", "two"], "two", {"b": 3}),
            id="a group that cannot hold all replicas fails",
        ),
        pytest.param(
            [group("one", "a"), group("both", "a", "b")],
            {"replicas": 9},
            (["one", "both"], "both", {"a": 2, "b": 7}),
            id="a cluster may be in several groups",
        ),
        pytest.param(ONE_TWO, {"observed": "two"}, (["two"], "two", {"b": 1}), id="the observed group is tried first"),
        pytest.param(
            ONE_TWO,
            {"observed": "two", "replicas": 99},
            (["two"], None, "Insufficient"),
            id="groups before the observed one are not tried",
        ),
        pytest.param(
            ONE_TWO,
            {"observed": "two", "fresh": True},
            (["one"], "one", {"a": 1}),
            id="a rescheduling starts with the first group",
        ),
        pytest.param(
            ONE_TWO,
            {"observed": "gone"},
            (["one"], "one", {"a": 1}),
            id="without the observed group the first one is tried first",
        ),
        pytest.param(
            [group("x", "nowhere"), *ONE_TWO],
            {"replicas": 99},
            (["x", "one", "two"], None, "NoFit"),
            id="if all groups fail, the decision has the first failure",
        ),
        pytest.param(
            [*ONE_TWO, group("x", "nowhere")],
            {"replicas": 99},
            (["one", "two", "x"], None, "Insufficient"),
            id="later failures do not replace the first one",
        ),
        pytest.param(
            [],
            {"clusters": {"a": 1, "b": 0}},
            ([], None, {"a": 1, "b": 0}),
            id="an empty list of groups changes nothing",
        ),
        pytest.param(
            ONE_TWO,
            {"clusterAffinity": {"clusterNames": ["b"]}},
            (["one"], "one", {"b": 1}),
            id="a single clusterAffinity beside groups decides which clusters fit",
        ),
        pytest.param(
            [group("one", "a", overflowAffinities=[group("over", "b")])],
            {"clusterAffinity": {"clusterNames": ["a"]}, "replicas": 5},
            (["one"], None, "Insufficient"),
            id="a single clusterAffinity disables the overflow of groups",
        ),
        pytest.param(
            None, {"observed": "two"}, ([None], None, {"b": 1}), id="without groups there is one group without a name"
        ),
    ],
)
def test_groups_are_tried_in_order(groups, fields, expected):
    clusters = [cluster("a", pods=2), cluster("b", pods=8)]
    decision = schedule(clusters, asked(groups=groups, scheduling=DYNAMIC, **fields))
    assert walk(decision) == expected


OVERFLOWING = [group("main", "a", overflowAffinities=[group("near", "b", "a"), group("far", "c", "d")])]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"replicas": 2}, {"a": 2}, id="replicas that fit the group stay in it"),
        pytest.param({"replicas": 4}, {"a": 3, "b": 1}, id="overflow gets replicas only if the group is full"),
        pytest.param(
            {"replicas": 7}, {"a": 3, "b": 3, "c": 1}, id="an overflow gets replicas only if the one before is full"
        ),
        pytest.param(
            {"replicas": 10}, {"a": 3, "b": 3, "c": 2, "d": 2}, id="group and overflow may be filled completely"
        ),
        pytest.param({"replicas": 11}, "Insufficient", id="more replicas than group and overflow hold"),
        pytest.param(
            {"replicas": 4, "clusters": {"a": 2, "b": 3}},
            {"a": 4},
            id="scaling down removes replicas from the last overflow first",
        ),
        pytest.param(
            {"replicas": 6, "clusters": {"a": 1, "b": 2, "c": 2}},
            {"a": 4, "b": 2},
            id="replicas return when the group has free capacity",
        ),
        pytest.param({"replicas": 3, "clusters": {"c": 3}}, {"a": 3}, id="all replicas return without a scaling"),
        pytest.param({"replicas": 0}, {"a": 0}, id="a resource without replicas uses only the group"),
        pytest.param({"replicas": 0, "requests": {}}, {}, id="a workload scaled to 0 goes to no cluster"),
        pytest.param(
            {"replicas": 5, "clusters": {"a": 3}, "fresh": True},
            {"a": 5},
            id="in fresh mode free and used capacity counts",
        ),
    ],
)
@pytest.mark.parametrize("scheduling", [AGGREGATED, DYNAMIC], ids=["aggregated", "dynamic weight"])
def test_overflow_gets_what_the_group_cannot_hold(fields, scheduling, expected):
    clusters = [cluster("a", pods=3), cluster("b", pods=3), cluster("c", pods=2), cluster("d", pods=2)]
    decision = schedule(clusters, asked(groups=OVERFLOWING, scheduling=scheduling, **fields))
    assert outcome(decision) == expected


def test_an_empty_overflow_adds_no_clusters():
    groups = [group("main", "a", overflowAffinities=[])]
    clusters = [cluster("a", pods=3), cluster("b", pods=3)]
    assert outcome(schedule(clusters, asked(groups=groups, scheduling=DYNAMIC, replicas=3))) == {"a": 3}
    assert outcome(schedule(clusters, asked(groups=groups, scheduling=DYNAMIC, replicas=4))) == "Insufficient"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"replicas": 0, "requests": {}}, {"a": 0, "b": 0}, id="a workload scaled to 0"),
        pytest.param({"replicas": 1}, {"a": 0, "b": 1}, id="a cluster that gets no replicas"),
        pytest.param({"replicas": 99}, "Insufficient", id="a workload that does not fit"),
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
    """The placements that ``counting`` compiled."""
    return []


@pytest.fixture
def counting(made):

    def compiled(placement, *rest):
        made.append(placement)
        return STAGES.compile(placement, *rest)

    return Scheduler(Fleet([cluster("a")]), Profile(built_in(), stages=dataclasses.replace(STAGES, compile=compiled)))


def test_equal_placements_share_a_compiled_placement(counting, made):
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


def test_many_bindings_of_one_policy_do_not_evict_its_compiled_placement(counting, made):
    cache = counting._compiled_of = BoundedCache(4096)  # noqa: SLF001 - memory is bounded
    placement = asked(clusterAffinity={"clusterNames": ["a"]}).spec.placement
    copies = [copy_of(placement) for _ in range(20)]
    for each in copies:
        counting.compile(each)
    assert len(made) == 1
    assert 1 <= len(cache) <= 4


def test_caches_are_bounded(monkeypatch):
    monkeypatch.setattr(module, "_PLACEMENT_BYTES", 8192)
    scheduler = Scheduler(Fleet([cluster("a")]), karmada_profile())
    for index in range(20):
        binding = asked(clusterAffinity={"exclude": [f"m{index}"]}, clusterTolerations=[{"key": f"k{index}"}])
        assert outcome(scheduler.schedule(Request.of(binding))) == {"a": 1}
    assert all(1 <= len(cache) <= 8 for cache in (scheduler._compiled, scheduler._compiled_of))  # noqa: SLF001 - memory is bounded


def test_the_arrays_of_a_fleet_are_bounded_by_bytes_and_decisions_stay_the_same():
    clusters = [cluster(f"m{index}", labels={"n": str(index % 7)}) for index in range(100)]
    placements = [{"labelSelector": {"matchLabels": {"n": str(n % 7)}}, "exclude": [f"m{n}"]} for n in range(40)]

    def decide(limit_bytes):
        fleet = Fleet(clusters)
        arrays = fleet.structure.arrays
        arrays.limit_bytes = limit_bytes
        scheduler = Scheduler(fleet, karmada_profile())
        requests = [Request.of(asked(clusterAffinity=each)) for each in placements]
        return [outcome(scheduler.schedule(each)) for each in [*requests, *requests]], arrays.bytes

    (unbounded, all_bytes), (bounded, few_bytes) = decide(2**30), decide(20_000)
    assert bounded == unbounded
    assert few_bytes <= 20_000 < 40 * 4096 < all_bytes


class FromFleet(Column[np.bool_]):
    """A column of a function of each cluster, with the given journal."""

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
def test_a_third_party_column_is_updated_with_its_journal(journal_of, test, change):
    scheduler = Scheduler(Fleet([cluster("a", cpu=4)]), karmada_profile(Plugins((ByFunction(journal_of, test),), ())))
    request = Request.of(asked())
    assert outcome(scheduler.schedule(request)) == {"a": 1}
    scheduler.fleet.apply(cluster("a", **{"cpu": 4, **change}))
    assert outcome(scheduler.schedule(request)) == "NoFit"


def test_a_changed_annotation_updates_a_column():
    test = ByFunction(lambda fleet: fleet.structure, lambda each: "closed" not in each.metadata.annotations)
    scheduler = Scheduler(Fleet([cluster("a")]), karmada_profile(Plugins((test,), ())))
    assert outcome(scheduler.schedule(Request.of(asked()))) == {"a": 1}
    open_cluster = cluster("a")
    scheduler.fleet.apply(replace(open_cluster, metadata=replace(open_cluster.metadata, annotations={"closed": "yes"})))
    assert outcome(scheduler.schedule(Request.of(asked()))) == "NoFit"
