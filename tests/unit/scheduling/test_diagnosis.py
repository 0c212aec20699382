import pytest
from builders import cluster
from decisions import AGGREGATED, DUPLICATED, DYNAMIC, WEIGHTED, asked, spread, static

from berthmaster.model.binding import GracefulEvictionTask
from berthmaster.scheduling.compiled_placement import Strategy
from berthmaster.scheduling.diagnosis import Outcome, explain
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.profile import DELETING, karmada_profile
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler


def diagnosis(clusters, /, *, keep_empty=False, **fields):
    scheduler = Scheduler(Fleet(clusters), karmada_profile(keep_empty=keep_empty))
    request = Request.of(asked(**fields))
    return explain(scheduler, request, scheduler.schedule(request))


def of_one(name, clusters, /, **fields):
    """What is told of one cluster in the last group that was tried."""
    return next(each for each in diagnosis(clusters, **fields).groups[-1].clusters if each.cluster == name)


ROOMY = [cluster("a", pods=9, cpu=4), cluster("b", pods=9, cpu=2), cluster("c", pods=1, cpu=8)]


@pytest.mark.parametrize(
    ("name", "fields", "outcome", "reason"),
    [
        pytest.param("a", {"scheduling": DUPLICATED}, Outcome.ASSIGNED, "", id="assigned"),
        pytest.param(
            "b",
            {"clusterAffinity": {"clusterNames": ["a"]}},
            Outcome.REJECTED,
            "b is not among the named clusters",
            id="rejected",
        ),
        pytest.param(
            "b",
            {"scheduling": DUPLICATED, "spread": [spread("cluster", 1, 1)]},
            Outcome.NOT_SELECTED,
            "took 1 of 3",
            id="not selected",
        ),
        pytest.param(
            "b",
            {"spread": [spread("cluster", 4, 4)]},
            Outcome.NOT_SELECTED,
            "at least 4",
            id="the constraint cannot be met",
        ),
        pytest.param(
            "b", {"replicas": 99, "scheduling": DYNAMIC}, Outcome.NO_REPLICAS, "99 replicas", id="no room for all"
        ),
        pytest.param(
            "b",
            {"replicas": 0, "requests": {}},
            Outcome.NO_REPLICAS,
            "the workload requests no replicas",
            id="none wanted",
        ),
        pytest.param(
            "b",
            {"scheduling": static(("a", 1))},
            Outcome.NO_REPLICAS,
            "no static weight rule",
            id="no rule means it",
        ),
        pytest.param(
            "b",
            {"replicas": 1, "scheduling": static(("a", 5), ("b", 1))},
            Outcome.NO_REPLICAS,
            "less than one",
            id="a small share",
        ),
        pytest.param(
            "c", {"replicas": 3, "scheduling": AGGREGATED}, Outcome.NO_REPLICAS, "before it", id="others hold all"
        ),
        pytest.param(
            "c",
            {"replicas": 2, "scheduling": AGGREGATED, "requests": {"pods": 5}},
            Outcome.NO_REPLICAS,
            "no further replica fits",
            id="full",
        ),
        pytest.param(
            "c",
            {"replicas": 3, "scheduling": AGGREGATED, "clusters": {"a": 3}},
            Outcome.NO_REPLICAS,
            "is kept",
            id="nothing is to be placed",
        ),
        pytest.param(
            "c",
            {"replicas": 2, "scheduling": DYNAMIC, "clusters": {"a": 3}},
            Outcome.NO_REPLICAS,
            "is kept",
            id="replicas are only taken away",
        ),
    ],
)
def test_how_far_a_cluster_came(name, fields, outcome, reason):
    found = of_one(name, ROOMY, **fields)
    assert found.outcome is outcome
    assert reason in found.reason
    assert bool(found.reason) == (outcome is not Outcome.ASSIGNED)


def test_overflow_that_was_not_needed_is_told():
    overflow = [{"affinityName": "near", "clusterNames": ["b"]}, {"affinityName": "far", "clusterNames": ["c"]}]
    groups = [{"affinityName": "main", "clusterNames": ["a"], "overflowAffinities": overflow}]
    fields = {"groups": groups, "scheduling": AGGREGATED, "requests": {}}
    assert "hold all replicas" in of_one("b", ROOMY, replicas=9, **fields).reason
    assert of_one("b", ROOMY, replicas=10, **fields).outcome is Outcome.ASSIGNED
    assert "hold all replicas" in of_one("c", ROOMY, replicas=10, **fields).reason


def test_every_filter_that_rules_a_cluster_out_is_told():
    unfit = cluster("x", taints=["gpu:NoSchedule"], serves=[], deleting=True)
    found = of_one(
        "x",
        [unfit],
        clusterAffinity={"exclude": ["x"]},
        spread=[spread("zone", 1, 1)],
        graceful_eviction_tasks=(GracefulEvictionTask(from_cluster="x"),),
    )
    told = [rejection.plugin for rejection in found.rejections]
    assert told == [
        DELETING,
        "ClusterAffinity",
        "TaintToleration",
        "APIEnablement",
        "SpreadConstraint",
        "ClusterEviction",
    ]
    assert found.reason == f"x {found.rejections[0].reason}"


def test_filters_that_exempt_a_current_cluster_do_not_rule_it_out():
    unfit = cluster("x", taints=["gpu:NoSchedule"], serves=[])
    found = of_one("x", [unfit], clusters={"x": 1}, clusterAffinity={"exclude": ["x"]})
    assert [rejection.plugin for rejection in found.rejections] == ["ClusterAffinity"]
    assert (found.current, found.replicas) == (1, None)


@pytest.mark.parametrize(
    ("requests", "capacity", "bound_by"),
    [
        pytest.param({"cpu": 1}, 4, "cpu", id="by a resource"),
        pytest.param({"cpu": "1m"}, 9, "pods", id="by pods"),
        pytest.param({"gpu": 1}, 0, "gpu", id="by one that is not there"),
    ],
)
def test_capacity_comes_with_what_bounds_it(requests, capacity, bound_by):
    found = of_one("a", ROOMY, requests=requests)
    assert (found.capacity, found.bound_by) == (capacity, bound_by)


def test_without_replicas_there_is_no_capacity_to_tell():
    found = of_one("a", ROOMY, replicas=0)
    assert (found.capacity, found.bound_by, found.replicas) == (None, "", 0)


@pytest.mark.parametrize(
    ("fields", "weights"),
    [
        pytest.param({"scheduling": static(("a", 2), ("b", 5))}, {"a": 2, "b": 5, "c": 0}, id="static weights"),
        pytest.param({"scheduling": WEIGHTED}, {"a": 1, "b": 1, "c": 1}, id="all alike without rules"),
        pytest.param({"scheduling": DYNAMIC}, {"a": 9, "b": 9, "c": 1}, id="room"),
        pytest.param(
            {"scheduling": DYNAMIC, "clusters": {"a": 1}, "replicas": 2},
            {"a": 9, "b": 9, "c": 1},
            id="steady: free room",
        ),
        pytest.param(
            {"scheduling": DYNAMIC, "clusters": {"a": 1}, "fresh": True},
            {"a": 10, "b": 9, "c": 1},
            id="fresh: taken room, too",
        ),
        pytest.param(
            {"scheduling": DYNAMIC, "clusters": {"a": 3, "c": 1}},
            {"a": 3, "b": None, "c": 1},
            id="scaling down: what is there",
        ),
        pytest.param({"scheduling": DUPLICATED}, {"a": None, "b": None, "c": None}, id="duplicated: none"),
        pytest.param({"scheduling": DYNAMIC, "replicas": 0}, {"a": None, "b": None, "c": None}, id="nothing to divide"),
    ],
)
def test_weights_are_those_of_the_division(fields, weights):
    told = diagnosis(ROOMY, **fields).groups[0].clusters
    assert {each.cluster: each.weight for each in told} == weights


def test_scores_are_told_by_plugin():
    assert of_one("a", ROOMY, clusters={"a": 1}).scores == {"ClusterLocality": 100}
    assert of_one("b", ROOMY, clusters={"a": 1}).scores == {"ClusterLocality": 0}


def group(name, *clusters):
    return {"affinityName": name, "clusterNames": list(clusters)}


@pytest.mark.parametrize(
    ("observed", "skipped", "tried", "untried"),
    [
        pytest.param("", [], ["one", "two"], ["three"], id="from the first to the one that wins"),
        pytest.param("two", ["one"], ["two"], ["three"], id="from the one observed last"),
        pytest.param("three", ["one", "two"], ["three"], [], id="the last one alone"),
    ],
)
def test_every_group_is_accounted_for(observed, skipped, tried, untried):
    groups = [group("one", "absent"), group("two", "b"), group("three", "c")]
    found = diagnosis(ROOMY, groups=groups, observed=observed)
    assert (found.skipped, [each.group for each in found.groups], found.untried) == (skipped, tried, untried)
    assert [each.failure is None for each in found.groups] == [name != "one" for name in tried]


def test_every_cluster_is_told_of_in_every_group_by_name():
    found = diagnosis(ROOMY[::-1], groups=[group("one", "absent"), group("two", "b")])
    assert [[each.cluster for each in tried.clusters] for tried in found.groups] == [["a", "b", "c"]] * 2


def test_the_busiest_filter_comes_first():
    clusters = [cluster("x", taints=["gpu:NoSchedule"]), cluster("y", serves=[]), cluster("z", serves=[])]
    assert diagnosis(clusters).groups[0].rejected_by() == [("APIEnablement", 2), ("TaintToleration", 1)]


def test_a_region_that_was_not_chosen_is_told():
    clusters = [cluster("a", region="eu", pods=9), cluster("b", region="us", pods=1)]
    found = of_one(
        "b", clusters, replicas=5, scheduling=DUPLICATED, spread=[spread("region", 1, 1), spread("cluster", 1, 1)]
    )
    assert "region us was not selected; selected were eu" in found.reason


def test_a_cluster_kept_without_replicas_is_assigned():
    found = of_one("c", ROOMY, keep_empty=True, replicas=1, scheduling=AGGREGATED)
    assert (found.outcome, found.replicas) == (Outcome.ASSIGNED, 0)


def test_the_strategy_is_told():
    assert diagnosis(ROOMY, scheduling=AGGREGATED).strategy is Strategy.AGGREGATED


def test_without_groups_to_try_nothing_is_told():
    found = diagnosis(ROOMY, groups=[])
    assert (found.skipped, found.groups, found.untried) == ([], [], [])
