"""Why a cluster gets a workload or not, and what each group could hold."""

import pytest
from builders import binding, cluster, placement
from decisions import AGGREGATED, DUPLICATED, DYNAMIC, asked, spread, static
from msgspec.structs import replace
from tables import cases, data

from berthmaster.model.binding import BindingStatus, GracefulEvictionTask
from berthmaster.model.division_strategy import Strategy
from berthmaster.scheduling.decision import FailureKind
from berthmaster.scheduling.diagnosis import MAX_GROUPS, Outcome, explain, outlook, shortened
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.profile import DELETING, karmada_profile
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler

ROWS = data("scheduling/outcomes")


def diagnosis(clusters, /, *, keep_empty=False, **fields):
    scheduler = Scheduler(Fleet(clusters), karmada_profile(keep_empty=keep_empty))
    request = Request.of(asked(**fields))
    decision = scheduler.schedule(request)
    found = explain(scheduler, request, decision)
    for most in (1, 50):
        short = explain(scheduler, request, decision, most)
        assert short.groups == [shortened(each, most) for each in found.groups], "what is left out is counted the same"
    return found


def of_one(name, clusters, /, **fields):
    """Return the diagnosis of one cluster in the last group that was tried."""
    return next(each for each in diagnosis(clusters, **fields).groups[-1].clusters if each.cluster == name)


FLEET = [cluster("a", pods=9, cpu=4), cluster("b", pods=9, cpu=2), cluster("c", pods=1, cpu=8)]


@cases(("name", "fields", "outcome", "reason"), ROWS["outcomes of a cluster"])
def test_the_outcome_of_a_cluster_and_its_reason(name, fields, outcome, reason):
    found = of_one(name, FLEET, **fields)
    assert found.outcome is Outcome(outcome)
    assert reason in found.reason
    assert found.reason or found.outcome is Outcome.ASSIGNED


def test_unused_overflow_is_explained():
    overflow = [{"affinityName": "near", "clusterNames": ["b"]}, {"affinityName": "far", "clusterNames": ["c"]}]
    groups = [{"affinityName": "main", "clusterNames": ["a"], "overflowAffinities": overflow}]
    fields = {"groups": groups, "scheduling": AGGREGATED, "requests": {}}
    assert "hold all replicas" in of_one("b", FLEET, replicas=9, **fields).reason
    assert of_one("b", FLEET, replicas=10, **fields).outcome is Outcome.ASSIGNED
    assert "hold all replicas" in of_one("c", FLEET, replicas=10, **fields).reason


def test_every_filter_that_rejects_a_cluster_is_listed():
    unfit = cluster("x", taints=["gpu:NoSchedule"], serves=[], deleting=True)
    found = of_one(
        "x",
        [unfit],
        clusterAffinity={"exclude": ["x"]},
        spread=[spread("zone", 1, 1)],
        graceful_eviction_tasks=(GracefulEvictionTask(from_cluster="x"),),
    )
    plugins = [rejection.plugin for rejection in found.rejections]
    assert plugins == [
        DELETING,
        "ClusterAffinity",
        "TaintToleration",
        "APIEnablement",
        "SpreadConstraint",
        "ClusterEviction",
    ]
    assert found.reason == f"x {found.rejections[0].reason}"


def test_filters_that_exempt_a_current_cluster_are_not_listed():
    unfit = cluster("x", taints=["gpu:NoSchedule"], serves=[])
    found = of_one("x", [unfit], clusters={"x": 1}, clusterAffinity={"exclude": ["x"]})
    assert [rejection.plugin for rejection in found.rejections] == ["ClusterAffinity"]
    assert (found.current, found.replicas) == (1, None)


@cases(
    ("requests", "capacity", "bound_by"),
    {
        "by a resource": ({"cpu": 1}, 4, "cpu"),
        "by pods": ({"cpu": "1m"}, 9, "pods"),
        "by a resource that the cluster does not have": ({"gpu": 1}, 0, "gpu"),
    },
)
def test_capacity_names_its_limit(requests, capacity, bound_by):
    found = of_one("a", FLEET, requests=requests)
    assert (found.capacity, found.bound_by) == (capacity, bound_by)


def test_without_replicas_there_is_no_capacity():
    found = of_one("a", FLEET, replicas=0)
    assert (found.capacity, found.bound_by, found.replicas) == (None, "", 0)


def test_scores_are_listed_by_plugin():
    assert of_one("a", FLEET, clusters={"a": 1}).scores == {"ClusterLocality": 100}
    assert of_one("b", FLEET, clusters={"a": 1}).scores == {"ClusterLocality": 0}


def group(name, *clusters):
    return {"affinityName": name, "clusterNames": list(clusters)}


@cases(
    ("observed", "skipped", "tried", "untried"),
    {
        "from the first group to the one that wins": ("", [], ["one", "two"], ["three"]),
        "from the observed group": ("two", ["one"], ["two"], ["three"]),
        "the last group only": ("three", ["one", "two"], ["three"], []),
    },
)
def test_every_group_is_skipped_tried_or_untried(observed, skipped, tried, untried):
    groups = [group("one", "absent"), group("two", "b"), group("three", "c")]
    found = diagnosis(FLEET, groups=groups, observed=observed)
    assert (found.skipped, [each.group for each in found.groups], found.untried) == (skipped, tried, untried)
    assert [each.failure is None for each in found.groups] == [name != "one" for name in tried]


def test_every_group_lists_all_clusters_by_name():
    found = diagnosis(FLEET[::-1], groups=[group("one", "absent"), group("two", "b")])
    assert [[each.cluster for each in tried.clusters] for tried in found.groups] == [["a", "b", "c"]] * 2


def test_the_filter_with_most_rejections_comes_first():
    clusters = [cluster("x", taints=["gpu:NoSchedule"]), cluster("y", serves=[]), cluster("z", serves=[])]
    assert diagnosis(clusters).groups[0].rejected_by() == [("APIEnablement", 2), ("TaintToleration", 1)]


def test_a_region_that_was_not_selected_is_named():
    clusters = [cluster("a", region="eu", pods=9), cluster("b", region="us", pods=1)]
    found = of_one(
        "b", clusters, replicas=5, scheduling=DUPLICATED, spread=[spread("region", 1, 1), spread("cluster", 1, 1)]
    )
    assert "region us was not selected; selected were eu" in found.reason


def test_the_name_decides_between_regions_that_are_as_good():
    clusters = [cluster("a", region="eu", pods=9), cluster("b", region="us", pods=9), cluster("c", region="x", pods=5)]
    bounds = [spread("region", 1, 1), spread("cluster", 1, 1)]
    found = {name: of_one(name, clusters, replicas=6, scheduling=AGGREGATED, spread=bounds).reason for name in "bc"}
    assert found["b"].endswith("selected were eu; it is as good as eu, which comes first by name")
    assert found["c"].endswith("its region x was not selected; selected were eu")


def test_the_name_decides_between_clusters_that_are_as_good():
    clusters = [cluster("a", pods=9), cluster("b", pods=9), cluster("c", pods=5)]
    found = {name: of_one(name, clusters, replicas=2, spread=[spread("cluster", 1, 1)]).reason for name in "bc"}
    assert found["b"].endswith("b is number 2 by score and capacity; it is as good as a, which comes first by name")
    assert found["c"].endswith("c is number 3 by score and capacity")


@cases(
    ("fields", "reason"),
    {
        "Duplicated": (
            {"replicas": 3, "scheduling": DUPLICATED},
            (
                "only 1 of 3 more replicas fit (pods): Duplicated ignores capacity, a division by dynamicWeight or "
                "Aggregated obeys it"
            ),
        ),
        "replicas that are there already need no room": (
            {"replicas": 3, "scheduling": DUPLICATED, "clusters": {"c": 2}},
            "",
        ),
        "static weights": (
            {"replicas": 4, "scheduling": static(("c", 1))},
            (
                "only 1 of 4 more replicas fit (pods): static weights ignore capacity, a division by dynamicWeight or "
                "Aggregated obeys it"
            ),
        ),
        "a division by capacity": (
            {"replicas": 1, "scheduling": AGGREGATED, "clusterAffinity": {"clusterNames": ["c"]}},
            "",
        ),
    },
)
def test_what_a_cluster_has_beyond_its_capacity_is_said(fields, reason):
    found = of_one("c", FLEET, **fields)
    assert (found.outcome, found.reason) == (Outcome.ASSIGNED, reason)


def test_a_cluster_kept_without_replicas_is_assigned():
    found = of_one("c", FLEET, keep_empty=True, replicas=1, scheduling=AGGREGATED)
    assert (found.outcome, found.replicas) == (Outcome.ASSIGNED, 0)


def test_a_diagnosis_names_the_strategy():
    assert diagnosis(FLEET, scheduling=AGGREGATED).strategy is Strategy.AGGREGATED


def test_without_groups_the_diagnosis_is_empty():
    found = diagnosis(FLEET, groups=[])
    assert (found.skipped, found.groups, found.untried) == ([], [], [])


def test_a_shortened_group_lists_the_best_clusters_of_each_stage_and_counts_the_others():
    clusters = [cluster(name, pods=9, cpu=4) for name in "abcd"] + [
        cluster("e", pods=9, cpu=4, taints=["lost:NoSchedule"])
    ]
    (group,) = diagnosis(
        clusters, clusterAffinity={"clusterNames": ["a", "b", "c", "e"]}, spread=[spread("cluster", 2, 2)], replicas=3
    ).groups
    short = shortened(group, 1)
    assert [(each.outcome, each.cluster) for each in short.clusters] == [
        (Outcome.ASSIGNED, "a"),
        (Outcome.NOT_SELECTED, "c"),
    ]
    assert short.totals.outcomes == {Outcome.ASSIGNED: 2, Outcome.NOT_SELECTED: 1, Outcome.REJECTED: 2}
    assert short.totals.outside == 1
    assert [(each.plugin, each.count, each.clusters) for each in short.totals.rejected] == [
        ("TaintToleration", 1, ["e"])
    ]
    assert short.totals.unassigned == ["c", "d", "e"]


def named(name, *clusters):
    return {"affinityName": name, "clusterNames": list(clusters)}


def looked(*groups, explained=None, replicas=4, clusters=None, observed="", **taints):
    fleet = Fleet([
        cluster("a", cpu=2, taints=taints.get("a", ())),
        cluster("b", cpu=10, taints=taints.get("b", ())),
        cluster("c", cpu=3),
    ])  # fmt: skip
    wanted = placement(**({"clusterAffinities": list(groups)} if groups else {}), replicaScheduling=DYNAMIC)
    status = BindingStatus(scheduler_observing_affinity_name=observed)
    asked = binding(replicas=replicas, requests={"cpu": 1}, placement=wanted, clusters=clusters, status=status)
    return outlook(Scheduler(fleet, karmada_profile()), Request.of(asked), explained)


def test_groups_before_and_after_the_present_one_are_tried():
    first, second, third = looked(
        named("tainted", "b"), named("full", "a"), named("fits", "c", "b"), b=["k:NoExecute"],
        clusters={"c": 3}, observed="fits", replicas=3,
    ).groups  # fmt: skip
    assert (first.group, first.matched, first.rejected, first.fitting) == ("tainted", 1, {"TaintToleration": 1}, 0)
    assert (first.error, first.capacity) == (FailureKind.NO_FIT, 0)
    assert (second.error, second.capacity, second.clusters) == (FailureKind.INSUFFICIENT, 2, {})
    assert (third.error, third.clusters) == (None, {"c": 3})
    assert third.capacity == 6, "what is free, and the replicas that are there now"


def test_an_earlier_group_that_fits_again_is_seen():
    first, _ = looked(named("first", "b"), named("second", "c"), clusters={"c": 3}, observed="second").groups
    assert (first.error, first.clusters) == (None, {"b": 4})


def test_clusters_of_one_group_are_explained():
    found = looked(named("first", "a"), named("second", "b", "c"), explained=1)
    assert found.diagnosis.group == "second"
    assert {each.cluster: each.rejections[0].plugin for each in found.diagnosis.clusters if each.rejections} == {
        "a": "ClusterAffinity"
    }


def test_a_cluster_that_may_keep_the_workload_fits_although_a_filter_rejects_it():
    (only,) = looked(clusters={"a": 1}, a=["k:NoExecute"]).groups
    assert (only.group, only.matched, only.rejected, only.fitting) == (None, 3, {"TaintToleration": 1}, 3)


def test_a_cluster_that_is_deleted_counts_in_its_own_group_only():
    fleet = Fleet([cluster("a", cpu=9), cluster("gone", cpu=9, deleting=True)])
    wanted = placement(clusterAffinities=[named("first", "a"), named("second", "gone")])
    first, second = outlook(Scheduler(fleet, karmada_profile()), Request.of(binding(placement=wanted))).groups
    assert (first.matched, first.rejected) == (1, {})
    assert (second.matched, second.rejected) == (1, {"ClusterDeleting": 1})


def test_rejections_by_filters_that_look_at_the_binding_are_counted():
    fleet = Fleet([cluster("a", cpu=2), cluster("b", cpu=2)])
    request = replace(Request.of(binding(placement=placement())), evicted_from=frozenset({"a"}))
    (only,) = outlook(Scheduler(fleet, karmada_profile()), request).groups
    assert (only.rejected, only.fitting) == ({"other filters": 1}, 1)


@pytest.mark.parametrize("groups", [MAX_GROUPS, MAX_GROUPS + 1])
def test_the_number_of_groups_is_bounded(groups):
    found = looked(*(named(f"g{number}", "a") for number in range(groups)))
    assert len(found.groups) == MAX_GROUPS
    assert bool(found.problem) == (groups > MAX_GROUPS)
