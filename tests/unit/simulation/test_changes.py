"""What-if changes of clusters and workloads."""

from datetime import UTC, datetime, timedelta

import pytest
from builders import binding, cluster, deployment, placement, policy, selector
from msgspec.structs import replace
from switched_on import world_of
from tables import cases

from berthmaster.manifests import Document, Manifests
from berthmaster.model.cluster import Cluster
from berthmaster.model.errors import InputError
from berthmaster.model.taint import Taint
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.simulation.changes import (
    AddCluster,
    AddTaint,
    Down,
    RemoveCluster,
    RemoveLabel,
    RemoveTaint,
    Reschedule,
    Scale,
    Up,
    apply,
)
from berthmaster.simulation.scheduling_cycle import run
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


def member(name, *taints, **labels):
    made = cluster(name, cpu="8", memory="8Gi", labels=labels)
    return replace(made, spec=replace(made.spec, taints=tuple(taints)))


def world(*clusters: str | Cluster, replicas: int = 4, **fields) -> World:
    return world_of(
        Manifests(
            clusters=[member(each) if isinstance(each, str) else each for each in clusters],
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
    spec = replace(binding.spec, graceful_eviction_tasks=())
    workload = replace(moved.workload, binding=replace(binding, spec=spec))
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
    },
)
def test_resource_names(text, name):
    assert ResourceName.parse(text) == name
    assert ResourceName.parse(text).text() == text


@cases("text", {"only a name": "web", "too many parts": "a/b/c/d", "an empty part": "/web"})
def test_a_text_that_names_no_resource(text):
    with pytest.raises(InputError, match="is not a resource name; accepted is KIND/NAME or NAMESPACE/KIND/NAME"):
        ResourceName.parse(text)


def test_the_case_of_a_kind_is_ignored():
    assert world("a").find(ResourceName("", "deployment", "nginx"))


PROD = {"clusterAffinity": {"labelSelector": {"matchLabels": {"env": "prod"}}}}
TAINT = Taint(key="drain", effect="NoExecute")


def test_a_duplicated_workload_goes_to_a_cluster_that_loses_its_taint():
    first, second = results(world(member("a"), member("b", TAINT)), RemoveTaint("b", "drain"))
    assert (first.assignment, second.assignment) == ({"a": 4}, {"a": 4, "b": 4})


def scheduled_after(*changes):
    """Return the world_with in which a divided workload was on the cluster a, after changes and what followed."""
    settled, _ = run(world(member("a"), member("b"), **AGGREGATED), PROFILE, NOW)
    later = NOW + timedelta(seconds=1)
    return run(apply(changes, settled, later), PROFILE, later)[0]


def test_a_divided_workload_does_not_return_after_a_taint_is_removed():
    _, second = results(scheduled_after(AddTaint("a", TAINT)), RemoveTaint("a", "drain", "NoExecute"))
    assert second.assignment == {"b": 4}


@cases(("effect", "left"), {"every effect": ("", []), "one effect": ("NoSchedule", ["drain:NoExecute"])})
def test_which_taints_are_removed(effect, left):
    before = world(member("a", TAINT, Taint(key="drain", effect="NoSchedule")))
    after = apply([RemoveTaint("a", "drain", effect)], before, NOW)
    assert [str(each) for each in after.clusters["a"].spec.taints] == left


def test_a_duplicated_workload_leaves_a_cluster_that_loses_the_label_that_it_needs():
    first, second = results(world(member("a", env="prod"), member("b", env="prod"), **PROD), RemoveLabel("a", "env"))
    assert (first.assignment, second.assignment) == ({"a": 4, "b": 4}, {"b": 4})


def test_a_divided_workload_stays_on_a_cluster_that_loses_its_label():
    first, second = results(world(member("a", env="prod"), member("b"), **AGGREGATED, **PROD), RemoveLabel("a", "env"))
    assert first.assignment == second.assignment == {"a": 4}


def test_only_duplicated_workloads_return_to_a_cluster_that_recovers():
    _, stays = results(scheduled_after(Down("a")), Up("a"))
    assert stays.assignment == {"b": 4}
    down = apply([Down("a")], world(member("a"), member("b")), NOW)
    first, second = results(down, Up("a"))
    assert (first.assignment, second.assignment) == ({"b": 4}, {"a": 4, "b": 4})
    recovered = apply([Up("a")], down, NOW).clusters["a"]
    assert (recovered.ready, recovered.spec.taints) == (True, ())


@cases(
    ("fields", "assignment"),
    {"a duplicated workload goes there": ({}, {"a": 4, "b": 4}), "a divided workload stays": (AGGREGATED, {"a": 4})},
)
def test_a_cluster_that_joins(fields, assignment):
    _, second = results(world(member("a"), **fields), AddCluster(member("b")))
    assert second.assignment == assignment


@cases(
    ("change", "message"),
    {
        "an unknown cluster": (RemoveTaint("x", "k"), "there is no cluster 'x'; known are a, b"),
        "a taint that it does not have": (
            RemoveTaint("b", "k", "NoSchedule"),
            "the cluster b has no taint k:NoSchedule; its taints are drain:NoExecute",
        ),
        "an unknown label": (RemoveLabel("a", "x"), "the cluster a has no label x; its labels are env"),
        "a cluster that exists": (AddCluster(member("a")), "the cluster a exists"),
        "a similar cluster": (RemoveCluster("aa"), "did you mean a?"),
        "recovery of an unknown cluster": (Up("zzz"), "there is no cluster 'zzz'"),
    },
)
def test_a_change_of_what_is_not_there_is_an_error(change, message):
    with pytest.raises(InputError, match=r"the cluster|there is no cluster") as caught:
        apply([change], world(member("a", env="prod"), member("b", TAINT)), NOW)
    assert message in str(caught.value)


@cases(
    ("mode", "status", "key", "other"),
    {
        "Karmada does not reach it": ("Push", "False", "not-ready", "unreachable"),
        "its agent is silent": ("Pull", "Unknown", "unreachable", "not-ready"),
    },
)
def test_a_lost_cluster_gets_the_taint_of_its_condition(mode, status, key, other):
    before = member("a", Taint(f"cluster.karmada.io/{other}", "NoSchedule"))
    before = replace(before, spec=replace(before.spec, sync_mode=mode))
    lost = Down("a").applied(World({"a": before}, ()), NOW).clusters["a"]
    assert [each.status for each in lost.status.conditions if each.type == "Ready"] == [status]
    assert lost.spec.taints == (Taint(f"cluster.karmada.io/{key}", "NoSchedule"),)
