from datetime import UTC, datetime

import msgspec
import pytest
from builders import binding, deployment, placement, policy, quantities

from berthmaster.model.binding import (
    Binding,
    BindingSchedulePriority,
    BindingSnapshot,
    BindingSpec,
    BindingStatus,
    GracefulEvictionTask,
    ObjectReference,
    TargetCluster,
    WorkloadAffinityGroups,
    binding_of,
)
from berthmaster.model.meta import ObjectMeta
from berthmaster.model.policy import SchedulePriority, SuspendClusters, Suspension
from berthmaster.model.replicas import ReplicaRequirements, Replicas, replicas_of

CLUSTER_ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "system:reader"},
}
EVERYWHERE = placement(clusterAffinity={"clusterNames": ["member1"]})


def test_a_new_binding_combines_policy_and_resource():
    raw = deployment("web", replicas=3, requests={"cpu": "1"})
    raw["metadata"] |= {"uid": "u1", "resourceVersion": "7"}
    claiming = policy(placement=EVERYWHERE, scheduler_name="mine", propagate_deps=True, conflict_resolution="Overwrite")
    assert binding_of(raw, claiming, replicas_of(raw)) == Binding(
        metadata=ObjectMeta(name="web-deployment", namespace="default"),
        spec=BindingSpec(
            resource=ObjectReference(
                api_version="apps/v1",
                kind="Deployment",
                name="web",
                namespace="default",
                uid="u1",
                resource_version="7",
            ),
            replicas=3,
            replica_requirements=ReplicaRequirements(resource_request=quantities({"cpu": "1"})),
            placement=EVERYWHERE,
            scheduler_name="mine",
            propagate_deps=True,
            conflict_resolution="Overwrite",
        ),
    )


def test_a_cluster_scoped_resource_has_a_cluster_binding():
    made = binding_of(CLUSTER_ROLE, policy(cluster_scoped=True), Replicas())
    assert (made.kind, made.metadata.name, made.metadata.namespace) == (
        "ClusterResourceBinding",
        "system.reader-clusterrole",
        "",
    )
    assert not made.spec.is_workload


def test_an_existing_binding_keeps_its_assignment_and_status():
    tasks = (GracefulEvictionTask(from_cluster="member2"),)
    needed_by = (BindingSnapshot(name="shop", namespace="default"),)
    triggered = datetime(2026, 1, 1, tzinfo=UTC)
    current = binding(
        "web",
        replicas=9,
        clusters={"member1": 9},
        placement=placement(clusterAffinity={"clusterNames": ["old"]}),
        annotations={"policy.karmada.io/applied-placement": "{}"},
        status=BindingStatus(scheduler_observing_affinity_name="b"),
        graceful_eviction_tasks=tasks,
        required_by=needed_by,
        reschedule_triggered_at=triggered,
        schedule_priority=BindingSchedulePriority(priority=5),
    )
    made = binding_of(deployment("web"), policy(placement=EVERYWHERE), Replicas(2), current=current)
    assert made.spec.clusters == (TargetCluster(name="member1", replicas=9),)
    assert (made.spec.graceful_eviction_tasks, made.spec.required_by) == (tasks, needed_by)
    assert made.spec.reschedule_triggered_at == triggered
    assert (made.metadata, made.status) == (current.metadata, current.status)
    assert (made.spec.replicas, made.spec.placement, made.spec.schedule_priority) == (2, EVERYWHERE, None)


def test_a_cluster_binding_keeps_propagate_deps():
    current = binding_of(CLUSTER_ROLE, policy(cluster_scoped=True), Replicas())
    eager = policy(cluster_scoped=True, propagate_deps=True)
    assert not binding_of(CLUSTER_ROLE, eager, Replicas(), current=current).spec.propagate_deps
    assert binding_of(CLUSTER_ROLE, eager, Replicas()).spec.propagate_deps
    web = deployment()
    assert binding_of(web, policy(propagate_deps=True), Replicas(), current=binding()).spec.propagate_deps


DISPATCHING = Suspension(dispatching=True, dispatching_on_clusters=SuspendClusters(("member1",)))


@pytest.mark.parametrize(
    ("desired", "before", "after"),
    [
        pytest.param(None, None, None, id="nothing is suspended"),
        pytest.param(DISPATCHING, None, DISPATCHING, id="the policy suspends dispatching"),
        pytest.param(None, DISPATCHING, None, id="the policy no longer suspends"),
        pytest.param(None, Suspension(scheduling=True), Suspension(scheduling=True), id="scheduling stays suspended"),
        pytest.param(
            DISPATCHING,
            Suspension(dispatching=False, scheduling=True),
            msgspec.structs.replace(DISPATCHING, scheduling=True),
            id="both suspend",
        ),
        pytest.param(Suspension(scheduling=True), None, Suspension(), id="a policy cannot suspend scheduling"),
    ],
)
def test_suspension(desired, before, after):
    made = binding_of(deployment(), policy(suspension=desired), Replicas(), current=binding(suspension=before))
    assert made.spec.suspension == after


GROUPED = policy(
    placement=placement(
        workloadAffinity={
            "affinity": {"groupByLabelKey": "team"},
            "antiAffinity": {"groupByLabelKey": "tier"},
        }
    )
)


@pytest.mark.parametrize(
    ("labels", "gate_on", "groups"),
    [
        pytest.param(
            {"team": "a", "tier": "1"},
            True,
            WorkloadAffinityGroups(affinity_group="team=a", anti_affinity_group="tier=1"),
            id="both labels",
        ),
        pytest.param({"tier": ""}, True, WorkloadAffinityGroups(anti_affinity_group="tier="), id="an empty value"),
        pytest.param({"other": "a"}, True, None, id="neither label"),
        pytest.param({"team": "a"}, False, None, id="the gate is off"),
    ],
)
def test_workload_affinity_groups(labels, gate_on, groups):
    made = binding_of(deployment(labels=labels), GROUPED, Replicas(), workload_affinity=gate_on)
    assert made.spec.workload_affinity_groups == groups


def test_cluster_bindings_have_neither_groups_nor_priority():
    raw = {**CLUSTER_ROLE, "metadata": {"name": "r", "labels": {"team": "a"}}}
    claiming = policy(
        cluster_scoped=True,
        placement=GROUPED.spec.placement,
        schedule_priority=SchedulePriority("KubePriorityClass", "high"),
    )
    made = binding_of(raw, claiming, Replicas(), workload_affinity=True)
    assert (made.spec.workload_affinity_groups, made.spec.schedule_priority) == (None, None)


def test_no_priority_while_the_gate_is_off():
    claiming = policy(schedule_priority=SchedulePriority("KubePriorityClass", "high"))
    assert binding_of(deployment(), claiming, Replicas()).spec.schedule_priority is None
