import dataclasses

import numpy as np
import pytest
from builders import cluster
from decisions import AGGREGATED, DYNAMIC, asked, outcome, schedule, spread
from msgspec.structs import replace
from tables import cases

from berthmaster.model.decode import decode_json, encode_json
from berthmaster.model.errors import PluginError
from berthmaster.model.placement import Placement
from berthmaster.scheduling import scheduler as module
from berthmaster.scheduling.bounded_cache import BoundedCache
from berthmaster.scheduling.columns import Column
from berthmaster.scheduling.filters import ClusterLocalityScore, PlacementFilter, Score
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.profile import STAGES, built_in, karmada_profile
from berthmaster.scheduling.profile import Plugins, Profile
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler


def test_an_empty_overflow_adds_no_clusters():
    groups = [{"affinityName": "main", "clusterNames": ["a"], "overflowAffinities": []}]
    clusters = [cluster("a", pods=3), cluster("b", pods=3)]
    assert outcome(schedule(clusters, asked(groups=groups, scheduling=DYNAMIC, replicas=3))) == {"a": 3}
    assert outcome(schedule(clusters, asked(groups=groups, scheduling=DYNAMIC, replicas=4))) == "Insufficient"


@cases(
    ("fields", "expected"),
    {
        "a workload scaled to 0": ({"replicas": 0, "requests": {}}, {"a": 0, "b": 0}),
        "a cluster that gets no replicas": ({"replicas": 1}, {"a": 0, "b": 1}),
        "a workload that does not fit": ({"replicas": 99}, "Insufficient"),
    },
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


@cases(
    ("journal_of", "test", "change"),
    {
        "readiness, by structure": (lambda fleet: fleet.structure, lambda each: each.ready, {"ready": False}),
        "numbers, by resources": (
            lambda fleet: fleet.resources.journal,
            lambda each: each.status.resource_summary.allocatable["cpu"].value() > 2,
            {"cpu": 1},
        ),
    },
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


def total(clusters, workload, *plugins):
    """Return the sum of the scores by cluster, or None if all are 0."""
    candidates = schedule(clusters, workload, karmada_profile(Plugins((), plugins))).attempts[0].candidates
    scores = candidates.scores
    return None if scores is None else dict(zip(candidates.names(), scores.tolist(), strict=True))


class Fixed(Score):
    """The same score for every cluster except b, which gets 0."""

    name = "Fixed"

    def __init__(self, given):
        self.given = given

    def score(self, context, cluster):  # noqa: ARG002 - as the interface says
        return 0 if cluster.name == "b" else self.given


def test_scores_of_all_plugins_add_up():
    found = total([cluster("a"), cluster("b")], asked(clusters={"b": 1}), ClusterLocalityScore(), Fixed(30), Fixed(7))
    assert found == {"a": 37, "b": 100}


@pytest.mark.parametrize("bad", [-1, 101, 0.5, "50", None])
def test_a_score_that_is_no_integer_from_0_to_100_is_an_error_that_names_the_plugin(bad):
    with pytest.raises(PluginError, match="score plugin Fixed gave"):
        total([cluster("a")], asked(), Fixed(bad))


def test_scores_beyond_the_sort_key_are_ordered_correctly():
    many = karmada_profile(Plugins((), tuple(Fixed(100) for _ in range(30))))
    clusters = [cluster("a", pods=1), cluster("b", pods=99), cluster("c", pods=2)]
    assert outcome(schedule(clusters, asked(spread=[spread("cluster", 1, 2)]), many)) == {"a": 1, "c": 1}
