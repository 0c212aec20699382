"""The smallest change under which a cluster gets a workload, confirmed by deciding again."""

import pytest
import strategies as draws
from builders import cluster
from decisions import AGGREGATED, DYNAMIC, asked, spread
from hypothesis import given, settings
from msgspec.structs import replace
from tables import cases, data

from berthmaster.model.cluster import Cluster
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster.simulation.why_not import Search, WhyNot, why_not

ROWS = data("simulation/smallest_changes")

NAMED = {"clusterAffinity": {"clusterNames": ["a"]}}


def scheduler_of(*clusters: Cluster) -> Scheduler:
    return Scheduler(Fleet(clusters), karmada_profile())


def answer(name: str, *clusters: Cluster, **fields: object) -> WhyNot:
    return why_not(scheduler_of(*clusters), Request.of(asked(**fields)), name)


def groups(*names: str) -> list[dict[str, object]]:
    return [{"affinityName": name, "clusterNames": [name]} for name in names]


@cases(("clusters", "fields", "changes"), ROWS["smallest changes"])
def test_the_smallest_change_is(clusters, fields, changes):
    found = answer("a", *(cluster(**each) for each in clusters), **fields)
    assert found.changes == changes
    assert "a" in found.clusters
    assert found.taken is (not changes)


def test_a_cluster_that_is_being_deleted_has_no_remedy():
    found = answer("a", cluster("a", deleting=True))
    assert found.changes == []
    assert found.unknown == [
        "a is being deleted; no change helps", "no combination of the changes that were tried helps",
    ]  # fmt: skip


@settings(max_examples=8)
@given(draws.fleets(min_size=2, max_size=4), draws.bindings())
def test_the_changes_are_confirmed_and_the_fleet_stays_as_it_was(clusters, binding):
    scheduler, request = scheduler_of(*clusters), Request.of(binding)
    before = scheduler.schedule(request).assignment
    found = why_not(scheduler, request, clusters[0].name)
    assert found.taken is (clusters[0].name in before)
    assert (clusters[0].name in found.clusters) is (found.taken or bool(found.changes))
    assert scheduler.schedule(request).assignment == before


IN_REGION = {"clusterAffinity": {"labelSelector": {"matchLabels": {"region": "r"}}}}
RESCHEDULE = "reschedule the workload, for example by a WorkloadRebalancer"


def settled(name: str, *clusters: Cluster, **fields: object) -> WhyNot:
    """The answer for a workload that has its replicas, so that nothing triggers scheduling."""
    return why_not(scheduler_of(*clusters), Request.of(asked(scheduling=AGGREGATED, **fields)), name, due=False)


def test_a_cluster_that_only_a_rescheduling_takes_is_not_taken():
    members = cluster("a", labels={"region": "r"}, pods=9), cluster("b", pods=9)
    found = settled("a", *members, clusters={"b": 2}, replicas=2, **IN_REGION)
    assert (found.taken, found.changes, found.clusters) == (False, [RESCHEDULE], {"a": 2})
    assert found.reasons == ["nothing triggers scheduling: the workload stays on b"]
    assert settled("b", *members, clusters={"b": 2}, replicas=2).taken


def test_changes_of_a_cluster_do_not_trigger_scheduling():
    members = cluster("a", pods=9), cluster("b", pods=9)
    found = settled("a", *members, clusters={"b": 2}, replicas=2, **IN_REGION)
    assert found.changes == ["label a with region=r"]
    assert found.unknown == [f"the changes alone do not trigger scheduling: then {RESCHEDULE}"]


def test_alternatives_of_the_same_size_are_listed():
    found = answer(
        "a", cluster("a", cpu=2, pods=9), cluster("b", cpu=9, pods=9), scheduling=AGGREGATED, replicas=6,
        requests={"cpu": 1}, spread=[spread("cluster", 1, 1)],
    )  # fmt: skip
    assert found.changes == ["add 7 cpu to a"]


def test_a_bound_helps_with_replicas_if_nothing_else_triggers_scheduling():
    members = cluster("a", cpu=20, pods=99), cluster("b", cpu=200, pods=999), cluster("c", cpu=100, pods=999)
    wanted = asked(spread=[spread("cluster", 1, 2)], replicas=4, scheduling=DYNAMIC, requests={"cpu": 1})
    request = replace(Request.of(wanted), current={"b": 2, "c": 2})
    found = why_not(scheduler_of(*members), request, "a")
    bound, replicas = found.changes
    assert bound == "raise maxGroups of the spread constraint by cluster from 2 to 3"
    assert (replicas.startswith("set "), "a" in found.clusters) == (True, True)


@pytest.mark.parametrize(
    ("due", "follows"),
    [(True, "the next scheduling removes it"), (False, "it stays until something triggers scheduling")],
)
def test_a_cluster_that_has_the_workload_and_would_not_get_it_again(due, follows):
    request = replace(Request.of(asked(replicas=4, **NAMED)), current={"b": 4})
    found = why_not(scheduler_of(cluster("a"), cluster("b")), request, "b", due=due)
    assert found.reasons == [
        f"b has the workload now (replicas: 4), and {follows}", "b is not among the named clusters",
    ]  # fmt: skip


def test_capacity_is_an_alternative_to_fewer_replicas():
    found = answer("a", cluster("a", cpu=2, pods=9), scheduling=AGGREGATED, replicas=3, requests={"cpu": 1})
    assert [found.changes, *found.alternatives] == [["set 2 replicas instead of 3"], ["add 1 cpu to a"]]


def test_capacity_that_multiplies_the_cluster_is_no_alternative():
    found = answer("a", cluster("a", cpu=2, pods=9), scheduling=AGGREGATED, replicas=30, requests={"cpu": 1})
    assert [found.changes, *found.alternatives] == [["set 2 replicas instead of 30"]]


@settings(max_examples=100)
@given(draws.fleets(min_size=2, max_size=5), draws.bindings())
def test_one_less_of_a_number_does_not_help(clusters, binding):
    search = Search(scheduler_of(*clusters), Request.of(binding), clusters[0], lambda: None)
    if clusters[0].name in search.assignment([]):
        return
    for remedies in search.smallest():
        for index, remedy in enumerate(remedies):
            nearer = [remedy.field.at(abs(remedy.value - remedy.field.now) - 1)] if remedy.field is not None else []
            others = [*remedies[:index], *remedies[index + 1 :]]
            assert clusters[0].name not in search.assignment([*others, *nearer]), remedy.text
