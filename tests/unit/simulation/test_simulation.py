from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec.structs
import pytest
from builders import binding, cluster, deployment, placement, policy, selector

from berthmaster.manifests import Document, Manifests
from berthmaster.model.cluster import Taint
from berthmaster.model.decode import convert
from berthmaster.model.errors import InputError
from berthmaster.model.policy import Policy, defaulted
from berthmaster.scheduling.plugins import built_in
from berthmaster.scheduling.scheduler import Profile
from berthmaster.scheduling.trigger import Trigger
from berthmaster.simulation.changes import AddLabel, AddTaint, Down, Reschedule, Scale, SetPolicy, apply
from berthmaster.simulation.run import moves, run, unplaced
from berthmaster.simulation.world import Claimant, ResourceName, World, world_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(seconds=1)
PROFILE = Profile(built_in())
AGGREGATED = {"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}}
GROUPS = {
    "clusterAffinities": [
        {"affinityName": "first", "clusterNames": ["a"]},
        {"affinityName": "second", "clusterNames": ["b"]},
    ]
}
WEB = ResourceName("default", "Deployment", "nginx")


def world(*names: str, replicas: int = 4, **fields) -> World:
    """A fleet of these clusters and a deployment that a policy with this placement claims."""
    claimant = Claimant([policy(placement=placement(**fields))], [])
    clusters = {name: cluster(name, cpu="8", memory="8Gi") for name in names}
    return World(clusters, [claimant.claim(deployment(replicas=replicas))])


def settled(before: World, *changes):
    """The only workload's outcome before and after changes."""
    then, (first,) = run(before, PROFILE, NOW)
    _, (second,) = run(apply(changes, then, LATER), PROFILE, LATER)
    return first, second


def test_what_the_scheduler_writes_is_what_it_reads_next_time():
    first, second = settled(world("a", "b", **AGGREGATED, **GROUPS))
    assert (first.trigger, first.group, first.assignment) == (Trigger.FIRST, "first", {"a": 4})
    assert (second.trigger, second.assignment) == (Trigger.NONE, {"a": 4})


def test_a_lost_cluster_hands_over_to_the_next_group():
    first, second = settled(world("a", "b", **AGGREGATED, **GROUPS), Down("a"))
    assert (second.trigger, second.group, second.assignment) == (Trigger.FAILOVER, "second", {"b": 4})
    assert moves(first, second) == {"a": (4, None), "b": (None, 4)}


def healed(lost: World, outcome, *changes) -> World:
    """The first world with the workload where it went, and its evictions over."""
    moved = outcome.workload.binding
    spec = msgspec.structs.replace(moved.spec, graceful_eviction_tasks=())
    back = replace(outcome.workload, binding=msgspec.structs.replace(moved, spec=spec))
    return apply(changes, World(lost.clusters, [back]), LATER)


@pytest.mark.parametrize(
    ("changes", "group"),
    [
        pytest.param((), "second", id="by itself it never goes back"),
        pytest.param((Reschedule(),), "first", id="a rescheduling starts at the first group again"),
        pytest.param((Scale(WEB, 5),), "second", id="scaling stays in the group"),
    ],
)
def test_whether_a_workload_returns_to_the_preferred_group_after_recovery(changes, group):
    before = world("a", "b", **AGGREGATED, **GROUPS)
    _, lost = settled(before, Down("a"))
    assert run(healed(before, lost, *changes), PROFILE, LATER)[1][0].group == group


@pytest.mark.parametrize(
    ("tolerations", "stays"),
    [
        pytest.param([], False, id="no toleration"),
        pytest.param([{"operator": "Exists", "tolerationSeconds": 300}], False, id="for a while"),
        pytest.param([{"operator": "Exists"}], True, id="for good"),
        pytest.param([{"key": "other", "operator": "Exists"}], False, id="of another taint"),
    ],
)
def test_whether_a_no_execute_taint_moves_a_workload_that_tolerates_it(tolerations, stays):
    drain = AddTaint("a", Taint(key="drain", effect="NoExecute"))
    first, second = settled(world("a", "b", **AGGREGATED, clusterTolerations=tolerations), drain)
    assert first.assignment == {"a": 4}
    assert (second.assignment == first.assignment) == stays


def test_an_eviction_leaves_a_task_with_what_was_there():
    _, second = settled(world("a", "b", **AGGREGATED), Down("a"))
    (task,) = second.workload.binding.spec.graceful_eviction_tasks
    assert (task.from_cluster, task.replicas) == ("a", 4)


def test_a_taint_replaces_one_of_the_same_key_and_effect():
    tainted = apply(
        [AddTaint("a", Taint(key="k", value=value, effect="NoSchedule")) for value in ("1", "2")], world("a"), NOW
    )
    assert [str(taint) for taint in tainted.clusters["a"].spec.taints] == ["k=2:NoSchedule"]


def test_a_label_moves_a_duplicated_workload_at_once():
    selected = {"clusterAffinity": {"labelSelector": {"matchLabels": {"env": "prod"}}}}
    first, second = settled(world("a", **selected), AddLabel("a", "env", "prod"))
    assert (first.assignment, second.assignment) == ({}, {"a": 4})


def test_scaling_to_none_leaves_no_cluster():
    _, second = settled(world("a", **AGGREGATED), Scale(WEB, 0))
    assert (second.trigger, second.assignment) == (Trigger.SCALE, {})


def test_no_room_keeps_the_assignment_and_no_fit_removes_it():
    first, second = settled(world("a", **AGGREGATED), Scale(WEB, 100_000))
    assert second.decision.failure.kind.value == "Insufficient"
    assert second.assignment == first.assignment == {"a": 4}
    assert unplaced([first, second]) == [second]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(Down("c"), "there is no cluster 'c'", id="an unknown cluster"),
        pytest.param(Scale(ResourceName("", "Job", "x"), 1), "there is no such resource", id="an unknown resource"),
        pytest.param(Scale(ResourceName("", "ConfigMap", "c"), 1), "has no replicas", id="one without replicas"),
        pytest.param(Scale(ResourceName("", "Secret", "s"), 1), "no policy claims it", id="one without a policy"),
        pytest.param(Scale(ResourceName("", "Deployment", "nginx"), 1), "2 resources have this name", id="ambiguous"),
    ],
)
def test_a_change_to_what_is_not_there_is_refused(change, said):
    maps = policy("maps", selectors=[selector("ConfigMap", "v1")])
    claimant = Claimant([policy(), policy(namespace="shop"), maps], [])
    resources = [
        deployment(),
        deployment(namespace="shop"),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}},
    ]
    with pytest.raises(InputError, match=said):
        change.applied(World({"a": cluster("a")}, [claimant.claim(raw) for raw in resources]), NOW)


def test_a_binding_without_its_resource_speaks_for_itself():
    known = binding(placement=placement(**AGGREGATED), replicas=2, requests={"cpu": "1"})
    claimant = Claimant([], [known])
    (workload,) = claimant.unclaimed()
    _, (outcome,) = run(World({"a": cluster("a", cpu="8", memory="8Gi")}, [workload]), PROFILE, NOW)
    assert (str(workload), workload.claim, outcome.assignment) == ("default/Deployment/nginx", None, {"a": 2})


@pytest.mark.parametrize(
    ("text", "name"),
    [
        pytest.param("Deployment/web", ResourceName("", "Deployment", "web"), id="kind and name"),
        pytest.param("shop/Deployment/web", ResourceName("shop", "Deployment", "web"), id="with a namespace"),
        pytest.param("web", None, id="a name alone"),
        pytest.param("a/b/c/d", None, id="too many parts"),
        pytest.param("/web", None, id="an empty part"),
    ],
)
def test_how_a_resource_is_named(text, name):
    assert ResourceName.parse(text) == name


def test_kinds_are_named_without_regard_to_case():
    assert world("a").find(ResourceName("", "deployment", "nginx"))


DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"}},
    "spec": {"replicas": 2, "template": {"spec": {"containers": [{"name": "web"}]}}},
}


def made(name, to, *, kind="PropagationPolicy", target=None, **spec):
    """A policy that sends what it selects to one cluster."""
    selector = {"apiVersion": "apps/v1", "kind": "Deployment", **({"name": "web"} if target is None else target)}
    raw = {
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "resourceSelectors": [selector],
            "placement": {"clusterAffinity": {"clusterNames": [to]}},
            **spec,
        },
    }
    return defaulted(convert(Policy, raw))


def after(change, *policies):
    """Where the deployment is, and whose it is, once the change was made."""
    manifests = Manifests(
        clusters=[cluster("a"), cluster("b")], policies=list(policies), templates=[Document("x", 1, "", DEPLOYMENT)]
    )
    world, _ = run(world_of(manifests), PROFILE, NOW)
    world, outcomes = run(SetPolicy(change).applied(world, NOW), PROFILE, NOW)
    claim = outcomes[0].workload.claim
    return list(outcomes[0].assignment), claim.policy.metadata.name if claim is not None else None


@pytest.mark.parametrize(
    ("policies", "change", "expected"),
    [
        pytest.param([], made("p", "b"), (["b"], "p"), id="a new policy claims what nobody had"),
        pytest.param([made("p", "a")], made("p", "b"), (["b"], "p"), id="a changed one takes its workload along"),
        pytest.param(
            [made("p", "a")],
            made("q", "b", priority=9),
            (["a"], "p"),
            id="a higher one takes nothing unless it preempts",
        ),
        pytest.param(
            [made("p", "a")],
            made("q", "b", priority=9, preemption="Always"),
            (["b"], "q"),
            id="with preemption it takes what it names",
        ),
        pytest.param(
            [made("p", "a")],
            made("q", "b", priority=9, preemption="Always", target={}),
            (["a"], "p"),
            id="but not what it only selects",
        ),
        pytest.param(
            [made("p", "a", priority=9)],
            made("q", "b", priority=9, preemption="Always"),
            (["a"], "p"),
            id="and nothing of its own priority",
        ),
        pytest.param(
            [made("p", "a", kind="ClusterPropagationPolicy", priority=99)],
            made("q", "b", preemption="Always"),
            (["b"], "q"),
            id="a namespaced one takes from any cluster-wide one",
        ),
        pytest.param(
            [made("p", "a")],
            made("q", "b", kind="ClusterPropagationPolicy", priority=99, preemption="Always"),
            (["a"], "p"),
            id="a cluster-wide one never takes from a namespaced one",
        ),
        pytest.param(
            [made("p", "a"), made("q", "b", target={})],
            made("p", "a", target={"name": "other"}),
            (["b"], "q"),
            id="what a policy lets go goes to the next",
        ),
        pytest.param(
            [made("p", "a")],
            made("p", "a", target={"name": "other"}),
            (["a"], None),
            id="or to nobody, and stays where it is",
        ),
    ],
)
def test_workloads_change_hands_as_karmada_would_have_it(policies, change, expected):
    assert after(change, *policies) == expected
