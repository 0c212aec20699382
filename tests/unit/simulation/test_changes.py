from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec.structs
import pytest
from builders import binding, cluster, deployment, placement, policy, selector
from switched_on import world_of
from tables import cases

from berthmaster.manifests import Document, Manifests
from berthmaster.model.cluster import Taint
from berthmaster.model.errors import InputError
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.simulation.changes import AddTaint, Down, Reschedule, Scale, apply
from berthmaster.simulation.run import run
from berthmaster.simulation.workload import ResourceName
from berthmaster.simulation.world import World

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(seconds=1)
PROFILE = karmada_profile()
AGGREGATED = {"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}}
GROUPS = {
    "clusterAffinities": [
        {"affinityName": "first", "clusterNames": ["a"]},
        {"affinityName": "second", "clusterNames": ["b"]},
    ]
}
WEB = ResourceName("default", "Deployment", "nginx")


def documents(*manifests: dict) -> list[Document]:
    return [Document("-", number, "", each) for number, each in enumerate(manifests, 1)]


def world(*names: str, replicas: int = 4, **fields) -> World:
    return world_of(
        Manifests(
            clusters=[cluster(name, cpu="8", memory="8Gi") for name in names],
            policies=[policy(placement=placement(**fields))],
            templates=documents(deployment(replicas=replicas)),
        )
    )


def results(before: World, *changes):
    """The result for the only workload before and after changes."""
    then, (first,) = run(before, PROFILE, NOW)
    _, (second,) = run(apply(changes, then, LATER), PROFILE, LATER)
    return first, second


def recovered(before: World, moved, *changes) -> World:
    """The clusters before the failure with the moved workload, whose evictions are finished."""
    binding = moved.workload.binding
    spec = msgspec.structs.replace(binding.spec, graceful_eviction_tasks=())
    workload = replace(moved.workload, binding=msgspec.structs.replace(binding, spec=spec))
    return apply(changes, World(before.clusters, [workload]), LATER)


@cases(
    ("changes", "group"),
    {
        "without a trigger it does not return": ((), "second"),
        "a rescheduling starts at the first group": ((Reschedule(),), "first"),
        "scaling stays in the group": ((Scale(WEB, 5),), "second"),
    },
)
def test_whether_a_workload_returns_to_the_preferred_group_after_recovery(changes, group):
    before = world("a", "b", **AGGREGATED, **GROUPS)
    _, moved = results(before, Down("a"))
    assert run(recovered(before, moved, *changes), PROFILE, LATER)[1][0].group == group


@cases(
    ("tolerations", "stays"),
    {
        "no toleration": ([], False),
        "with a time limit": ([{"operator": "Exists", "tolerationSeconds": 300}], False),
        "without a time limit": ([{"operator": "Exists"}], True),
        "for another taint": ([{"key": "other", "operator": "Exists"}], False),
    },
)
def test_whether_a_no_execute_taint_moves_a_workload_that_tolerates_it(tolerations, stays):
    drain = AddTaint("a", Taint(key="drain", effect="NoExecute"))
    first, second = results(world("a", "b", **AGGREGATED, clusterTolerations=tolerations), drain)
    assert first.assignment == {"a": 4}
    assert (second.assignment == first.assignment) == stays


def test_an_eviction_adds_a_task_with_the_evicted_replicas():
    _, second = results(world("a", "b", **AGGREGATED), Down("a"))
    (task,) = second.workload.binding.spec.graceful_eviction_tasks
    assert (task.from_cluster, task.replicas) == ("a", 4)


def test_a_taint_replaces_the_taint_with_the_same_key_and_effect():
    tainted = apply(
        [AddTaint("a", Taint(key="k", value=value, effect="NoSchedule")) for value in ("1", "2")], world("a"), NOW
    )
    assert [str(taint) for taint in tainted.clusters["a"].spec.taints] == ["k=2:NoSchedule"]


def test_insufficient_capacity_keeps_the_assignment():
    first, second = results(world("a", **AGGREGATED), Scale(WEB, 100_000))
    assert second.decision.failure.kind.value == "Insufficient"
    assert second.assignment == first.assignment == {"a": 4}
    assert first.failure is None


@cases(
    ("change", "message"),
    {
        "an unknown cluster": (Down("c"), "there is no cluster 'c'"),
        "an unknown resource": (Scale(ResourceName("", "Job", "x"), 1), "there is no such resource"),
        "a resource without replicas": (Scale(ResourceName("", "ConfigMap", "c"), 1), "has no replicas"),
        "a resource without a policy": (Scale(ResourceName("", "Secret", "s"), 1), "no policy selects it"),
        "an ambiguous name": (Scale(ResourceName("", "Deployment", "nginx"), 1), "2 resources have this name"),
    },
)
def test_a_change_to_an_invalid_target_is_rejected(change, message):
    maps = policy("maps", selectors=[selector("ConfigMap", "v1")])
    templates = documents(
        deployment(),
        deployment(namespace="shop"),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}},
    )
    policies = [policy(), policy(namespace="shop"), maps]
    before = world_of(Manifests(clusters=[cluster("a")], policies=policies, templates=templates))
    with pytest.raises(InputError, match=message):
        change.applied(before, NOW)


def test_a_binding_without_its_resource_is_scheduled():
    known = binding(placement=placement(**AGGREGATED), replicas=2, requests={"cpu": "1"})
    before = world_of(Manifests(clusters=[cluster("a", cpu="8", memory="8Gi")], bindings=[known]))
    (workload,) = before.workloads
    _, (result,) = run(before, PROFILE, NOW)
    assert (str(workload), workload.claim, result.assignment) == ("default/Deployment/nginx", None, {"a": 2})


@cases(
    ("text", "name"),
    {
        "kind and name": ("Deployment/web", ResourceName("", "Deployment", "web")),
        "with a namespace": ("shop/Deployment/web", ResourceName("shop", "Deployment", "web")),
        "only a name": ("web", None),
        "too many parts": ("a/b/c/d", None),
        "an empty part": ("/web", None),
    },
)
def test_resource_names(text, name):
    assert ResourceName.parse(text) == name


def test_the_case_of_a_kind_is_ignored():
    assert world("a").find(ResourceName("", "deployment", "nginx"))
