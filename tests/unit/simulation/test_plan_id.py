"""What changes the id of a plan, and what does not: the rows of the table in docs/plan.md."""

from datetime import timedelta

import msgspec.structs
from builders import deployment
from fleet_dump import DIVIDED, load, members, stored_binding, stored_policy, stored_template
from simulated_worlds import NOW, PROFILE, policies
from simulated_worlds import WEB as WEB_NAME
from switched_on import world_of
from tables import cases

from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import convert
from berthmaster.model.gaps import Gap, GapKind
from berthmaster.simulation.change_set import ChangeSet, PlanIndex
from berthmaster.simulation.planner import plan
from berthmaster.simulation.workload import ResourceName

API_NAME = ResourceName("default", "Deployment", "api")


def to(name, *clusters, **fields):
    return stored_policy(name, to=clusters, placement=DIVIDED, **{"target": {"name": name}, **fields})


def bound(name, by, clusters, replicas=None):
    count = sum(clusters.values()) if replicas is None else replicas
    template = stored_template(deployment(name, replicas=count, requests={"cpu": "1"}), held_by=by)
    return template, stored_binding(template, clusters, policy=by, replicas=count)


WEB, API, DB = to("web", "a"), to("api", "a"), to("db", "a")
FLEET = members("a", "b", "c")
STORED = (WEB, API, DB, *bound("web", WEB, {"a": 2}), *bound("api", API, {"a": 3}), *bound("db", DB, {"a": 1}))
EDIT = [to("web", "b"), to("db", "b", "a")]


def id_of(edit=EDIT, stored=STORED, fleet=FLEET, now=NOW, **changes):
    index = PlanIndex(world_of(load(*fleet, *stored)), PROFILE)
    return plan(index, ChangeSet(policies(*edit), **changes), now).id


def with_metadata(raw, **fields):
    return {**raw, "metadata": {**raw["metadata"], **fields}}


def with_cpu(name, allocated):

    def used(cluster):
        summary = {**cluster["status"]["resourceSummary"], "allocated": {"cpu": allocated}}
        return {**cluster, "status": {**cluster["status"], "resourceSummary": summary}}

    return [used(each) if each["metadata"]["name"] == name else each for each in FLEET]


@cases(
    "same",
    {
        "annotations and labels of a changed policy": {
            "edit": [with_metadata(EDIT[0], annotations={"team": "x"}, labels={"a": "b"}), EDIT[1]]
        },
        "resource versions and managed fields of a changed policy": {
            "edit": [with_metadata(EDIT[0], resourceVersion="99", managedFields=[{}], generation=8), EDIT[1]]
        },
        "the order of the changed objects": {"edit": EDIT[::-1]},
        "the order of the stored objects": {"fleet": FLEET[::-1]},
        "numbers of a cluster that alter no decision": {"fleet": with_cpu("c", "1")},
        "a workload that the change does not concern": {
            "stored": (*STORED[:5], *bound("api", API, {"a": 7})[:2], *STORED[7:])
        },
        "a policy that the change does not concern": {"stored": (*STORED, to("other", "c"))},
        "a cluster that the change does not concern": {"fleet": [*FLEET, *members("d")]},
        "the time": {"now": NOW + timedelta(days=3)},
    },
)
def test_the_id_stays(same):
    assert id_of(**same) == id_of()


@cases(
    "other",
    {
        "another field of a spec": {"edit": [EDIT[0], to("db", "b", "a", priority=7)]},
        "another changed policy": {"edit": [*EDIT, to("new", "c", new=True)]},
        "a policy less": {"edit": EDIT[:1]},
        "a workload that moves with other replicas": {
            "stored": (*STORED[:3], *bound("web", WEB, {"a": 5}), *STORED[5:])
        },
        "a workload that moves from elsewhere": {"stored": (*STORED[:3], *bound("web", WEB, {"c": 2}), *STORED[5:])},
        "a workload that stays now": {"stored": (*STORED[:3], *bound("web", WEB, {"b": 2}), *STORED[5:])},
        "a workload that has no place now": {"fleet": FLEET[:1] + FLEET[2:]},
        "a deleted cluster": {"deleted_clusters": ("c",)},
    },
)
def test_the_id_differs(other):
    assert id_of(**other) != id_of()


def test_a_resource_that_a_policy_gains_changes_the_id():
    edit = [to("all", "b", new=True, target={})]
    free = stored_template(deployment("free", replicas=0))
    assert id_of(edit, stored=(*STORED, free)) != id_of(edit)


def test_a_cluster_that_becomes_overcommitted_changes_the_id():
    static = {
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": {"staticWeightList": [{"targetCluster": {"clusterNames": ["b"]}, "weight": 1}]},
    }  # fmt: skip
    edit = [stored_policy("web", to=["b"], placement={"replicaScheduling": static}, target={"name": "web"})]
    assert id_of(edit, fleet=with_cpu("b", "7900m")) != id_of(edit) == id_of(edit, fleet=with_cpu("b", "5"))


def test_labels_and_content_of_changed_clusters_and_workloads_count():
    cluster = convert(Cluster, FLEET[2])
    labelled = msgspec.structs.replace(cluster, metadata=msgspec.structs.replace(cluster.metadata, labels={"x": "y"}))
    assert id_of(clusters=(cluster,)) != id_of(clusters=(labelled,))
    workloads = [tuple(world_of(load(*FLEET, *STORED)).find(name)) for name in (WEB_NAME, API_NAME)]
    assert len({id_of(workloads=each) for each in workloads}) == 2


def test_an_incomplete_plan_has_another_id():
    index = PlanIndex(world_of(load(*FLEET, *STORED)), PROFILE)
    changes = ChangeSet(policies(*EDIT))
    assert plan(index, changes, NOW).id != plan(index, changes, NOW, gaps=[Gap(GapKind.NO_BINDINGS)]).id
