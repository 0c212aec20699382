"""Plans: totals of what changes move, and clusters before and after."""

from dataclasses import replace as replace_field
from datetime import UTC, datetime

from builders import cluster, deployment, placement, policy, quantities, selector
from fleet_dump import DIVIDED, load, members, stored_binding, stored_policy, stored_template
from msgspec.structs import replace
from simulated_worlds import plan_of_edits, planned, policies
from switched_on import world_of
from tables import cases

from berthmaster.manifests import Document, Manifests
from berthmaster.model.cluster import AllocatableModeling, ResourceSummary
from berthmaster.model.meta import with_status
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.prices import CostChange, PriceEntry, Prices
from berthmaster.simulation.change_set import ChangeSet, PlanIndex
from berthmaster.simulation.changes import AddCluster, AddLabel, Down, Reschedule, Scale, SetPolicy
from berthmaster.simulation.plan_rows import moved_replicas, why_moved
from berthmaster.simulation.planner import plan
from berthmaster.simulation.workload import ResourceName

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PROFILE = karmada_profile()


def world(*workloads, cpu=(8, 8)):
    """Clusters a, b, ...; workloads with one CPU per replica: (name, replicas, placement)."""
    fleet = [cluster(name, cpu=each, memory="64Gi") for name, each in zip("abcd", cpu, strict=False)]
    policies = [
        policy(name, selectors=[selector(name=name)], placement=placement(**fields)) for name, _, fields in workloads
    ]
    documents = [
        Document("-", number, "", deployment(name, replicas=replicas, requests={"cpu": "1", "memory": "1Gi"}))
        for number, (name, replicas, _) in enumerate(workloads, 1)
    ]
    return world_of(Manifests(clusters=fleet, policies=policies, templates=documents))


def totals(found):
    return {each.cluster: each for each in found.clusters}


def only(name):
    return {**DIVIDED, "clusterAffinity": {"clusterNames": [name]}}


def test_a_plan_counts_workloads_replicas_and_failures():
    found = plan_of_edits(world(("one", 2, only("a")), ("two", 3, DIVIDED), ("three", 1, only("x"))), Down("a")).summary
    assert (found.workloads, found.moved, found.replicas) == (3, 2, 5)
    assert found.nowhere == ["default/Deployment/one", "default/Deployment/three"]
    assert found.new_failures == ["default/Deployment/one"]
    assert found.short == []


def test_a_workload_that_keeps_some_replicas_is_short():
    found = plan_of_edits(world(("web", 10, DIVIDED), cpu=(8, 4)), Down("a")).summary
    assert (found.nowhere, found.short, found.new_failures) == ([], *[["default/Deployment/web"]] * 2)


def stored_world(replicas, clusters, room=8):
    """A fleet whose policy p names cluster a, which has the replicas of the Deployment web. Cluster b has some room."""
    stored = stored_policy("p", to=["a"], placement=DIVIDED)
    template = stored_template(held_by=stored, replicas=replicas)
    bound = stored_binding(template, clusters, policy=stored, replicas=replicas)
    found = world_of(load(*members("a", "b"), stored, template, bound))
    summary = ResourceSummary(allocatable=quantities({"cpu": room, "pods": 100, "memory": "8Gi"}))
    return replace(found, clusters={**found.clusters, "b": with_status(found.clusters["b"], resource_summary=summary)})


def test_a_workload_that_finds_no_room_and_keeps_all_replicas_lacks_none():
    (moved,) = policies(stored_policy("p", to=["b"], placement=DIVIDED))
    found = plan_of_edits(stored_world(2, {"a": 2}, room=0), SetPolicy(moved)).summary
    web = ["default/Deployment/web"]
    assert (found.nowhere, found.short, found.keeping) == ([], web, web)


def test_a_workload_that_finds_no_room_for_more_replicas_lacks_them():
    found = plan_of_edits(stored_world(2, {"a": 2}), Scale(ResourceName("default", "Deployment", "web"), 999)).summary
    assert (found.short, found.keeping) == (["default/Deployment/web"], [])


def test_a_scale_from_0_is_no_first_scheduling():
    (found,) = planned(stored_world(0, {}), Scale(ResourceName("default", "Deployment", "web"), 2))
    assert why_moved(found) == "its replicas change from 0 to 2"


def test_a_label_that_a_change_adds_gives_a_cluster_its_price():
    prices = Prices(prices=(PriceEntry(1.0, 0.0, {"env": "prod"}),))
    before, profile = world(("one", 2, {**DIVIDED})), replace_field(PROFILE, prices=prices)
    for labels, cost in (((), None), ((AddLabel("b", "env", "prod"),), CostChange(0.0, unpriced=2))):
        changes = ChangeSet(edits=(Down("a"), *labels))
        assert plan(PlanIndex(before, profile), changes, NOW, observed=False).summary.cost == cost


@cases(
    ("moves", "replicas"),
    {
        "three replicas move": ({"a": (3, None), "b": (1, 4)}, 3),
        "two replicas leave": ({"a": (3, 1)}, 2),
        "more arrive than leave": ({"a": (None, 5), "b": (2, 0)}, 5),
        "a workload without replicas": ({"a": (None, 0)}, 0),
        "nothing moves": ({}, 0),
    },
)
def test_replicas_that_move(moves, replicas):
    assert moved_replicas(moves) == replicas


def test_without_bindings_all_replicas_arrive_if_it_is_known_that_none_run():
    before = world(("web", 4, DIVIDED), ("api", 2, only("b")))
    found = totals(plan_of_edits(before, Down("a"), observed=True))
    assert {name: (each.before, each.after, each.arriving) for name, each in found.items()} == {
        "a": (4, 0, 0),
        "b": (2, 6, 6),
    }
    assert {each.arriving for each in totals(plan_of_edits(before, Down("a"))).values()} == {None}
    assert (found["b"].resources["cpu"].requested, found["b"].resources["cpu"].available) == (6000, 8000)
    assert found["b"].resources["memory"].requested == 6 * 2**30
    assert found["b"].overcommitted == []


def test_replicas_that_a_cluster_runs_now_are_part_of_what_it_reports():
    held = stored_policy(placement=DIVIDED)
    template = stored_template(held_by=held, replicas=4)
    bound = stored_binding(template, {"a": 4}, policy=held, replicas=4)
    dump = load(*members("a", "b"), held, template, bound)
    stays, moves = totals(plan_of_edits(world_of(dump), Reschedule())), totals(plan_of_edits(world_of(dump), Down("a")))
    assert stays == {}
    assert (moves["a"].before, moves["b"].arriving, moves["b"].resources["cpu"].requested) == (4, 4, 400)


def test_more_than_is_free_is_overcommitted():
    # Each decision sees what the cluster reports, as in Karmada.
    found = totals(plan_of_edits(world(("one", 4, DIVIDED), ("two", 4, DIVIDED), cpu=(9, 6)), Down("a")))
    assert found["b"].overcommitted == ["cpu"]


def test_with_shared_capacity_no_cluster_is_overcommitted():
    workloads = ("one", 4, DIVIDED), ("two", 4, DIVIDED)
    found = plan_of_edits(world(*workloads, cpu=(9, 6)), Down("a"), shared_capacity=True)
    # The second workload starts on b, where the first one does not fit any more.
    assert all(not each.overcommitted for each in totals(found).values())
    assert found.summary.nowhere == ["default/Deployment/one"]


def test_shared_capacity_counts_the_nodes_of_resource_models():
    # Four nodes of two CPUs hold 8 replicas.
    reported = ResourceSummary(
        allocatable=quantities({"cpu": 100, "memory": "64Gi", "pods": 110}),
        allocatable_modelings=(AllocatableModeling(0, 4),),
    )
    modeled = cluster("a", resource_summary=reported, models=[{"cpu": 2, "memory": "64Gi"}])
    dump = replace(world(("one", 6, DIVIDED), ("two", 4, DIVIDED)), clusters={"a": modeled})
    assert plan_of_edits(dump).summary.nowhere == []
    assert plan_of_edits(dump, shared_capacity=True).summary.nowhere == ["default/Deployment/two"]


def jobs(*names, cpu):
    """Clusters a and b; workloads of 4 pods with 7 CPUs, in two templates. One cluster gets each as a whole."""
    pods = [
        {"name": name, "replicas": replicas, "replicaRequirements": {"resourceRequest": {"cpu": cores}}}
        for name, replicas, cores in (("driver", 1, "1"), ("worker", 3, "2"))
    ]
    one_cluster = [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]
    placed = {**DIVIDED, "spreadConstraints": one_cluster}
    held = stored_policy(placement=placed)
    documents = []
    for name in names:
        template = stored_template(name=name, held_by=held)
        documents += [
            template,
            stored_binding(template, {}, policy=held, replicas=None, applied=False, components=pods),
        ]
    dump = load(*members("a", "b"), held, *documents)
    fleet = {name: cluster(name, cpu=each, memory="64Gi") for name, each in zip("ab", cpu, strict=True)}
    return replace(world_of(dump), clusters=fleet)


def test_with_shared_capacity_sets_of_pods_are_deducted():
    before = jobs("one", "two", "three", cpu=(10, 8))
    assert plan_of_edits(before).summary.nowhere == []
    found = plan_of_edits(before, shared_capacity=True)
    assert found.summary.nowhere == ["default/Deployment/three"]
    assert all(not each.overcommitted for each in totals(found).values())


def test_sets_of_pods_that_are_more_than_is_free_are_overcommitted():
    found = totals(plan_of_edits(jobs("one", "two", cpu=(10, 8))))
    assert (found["a"].after, found["a"].resources["cpu"].requested, found["a"].overcommitted) == (8, 14000, ["cpu"])
    assert "b" not in found


def test_a_cluster_that_reports_nothing_has_unknown_capacity():
    found = totals(plan_of_edits(world(("web", 1, {})), AddCluster(cluster("new"))))
    assert found["new"].resources["cpu"].available is None
    assert found["new"].overcommitted == []
