"""What each group of a workload could hold, also those that a decision does not try."""

import pytest
from builders import binding, cluster, placement
from decisions import DYNAMIC
from msgspec.structs import replace

from berthmaster.model.binding import BindingStatus
from berthmaster.scheduling.diagnosis import MAX_GROUPS, outlook
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.request import FailureKind, Request
from berthmaster.scheduling.scheduler import Scheduler


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
