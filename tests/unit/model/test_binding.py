"""Bindings: their replicas, holds, moves, and the words for an assignment."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import msgspec.structs
import pytest
from builders import binding, deployment, placement, policy, quantities, selector
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import cases

from berthmaster.model.binding import (
    CLUSTERS_SHOWN,
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
    short_assignment,
)
from berthmaster.model.claims import claims
from berthmaster.model.holding import PolicyCatalog
from berthmaster.model.meta import ObjectMeta
from berthmaster.model.move import (
    APPLIED_AFFINITY,
    MOVE,
    MovePhase,
    MoveReason,
    MoveState,
    MoveStrategy,
    annotation_of,
    as_before,
    as_moved,
    both,
    move_of,
    move_problem,
    union,
    written_clusters,
)
from berthmaster.model.policy import SchedulePriority, SuspendClusters, Suspension
from berthmaster.model.replicas import ReplicaRequirements, Replicas, Template, replicas_of

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


@cases(
    ("desired", "before", "after"),
    {
        "nothing is suspended": (None, None, None),
        "the policy suspends dispatching": (DISPATCHING, None, DISPATCHING),
        "the policy no longer suspends": (None, DISPATCHING, None),
        "scheduling stays suspended": (None, Suspension(scheduling=True), Suspension(scheduling=True)),
        "both suspend": (
            DISPATCHING,
            Suspension(dispatching=False, scheduling=True),
            msgspec.structs.replace(DISPATCHING, scheduling=True),
        ),
        "a policy cannot suspend scheduling": (Suspension(scheduling=True), None, Suspension()),
    },
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


@cases(
    ("labels", "gate_on", "groups"),
    {
        "both labels": (
            {"team": "a", "tier": "1"},
            True,
            WorkloadAffinityGroups(affinity_group="team=a", anti_affinity_group="tier=1"),
        ),
        "an empty value": ({"tier": ""}, True, WorkloadAffinityGroups(anti_affinity_group="tier=")),
        "neither label": ({"other": "a"}, True, None),
        "the gate is off": ({"team": "a"}, False, None),
    },
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


@pytest.mark.parametrize(
    ("clusters", "text"),
    [
        pytest.param({}, "no clusters", id="no clusters"),
        pytest.param({"b": 1, "a": 2}, "a:2, b:1", id="clusters are sorted by name"),
        pytest.param({f"m{n}": 1 for n in range(CLUSTERS_SHOWN)}, "m0:1, m1:1, m2:1, m3:1, m4:1, m5:1, m6:1, m7:1",
                     id="as many clusters as fit"),
        pytest.param({f"m{n}": 0 for n in range(CLUSTERS_SHOWN + 2)},
                     "m0:0, m1:0, m2:0, m3:0, m4:0, m5:0, m6:0, m7:0 and 2 more", id="more clusters than fit"),
    ],
)  # fmt: skip
def test_an_assignment_is_text(clusters, text):
    assert short_assignment(clusters) == text
    assert short_assignment(clusters, none="") == (text if clusters else "")


VALUES = st.sampled_from(["web", "shop"])
LABELS = st.dictionaries(st.sampled_from(["app", "tier"]), VALUES, max_size=2)
SELECTORS = st.lists(
    st.builds(
        lambda kind, name, labels: selector(
            kind,
            **({"name": name} if name else {}),
            **({"labelSelector": labels} if labels is not None else {}),
        ),
        st.sampled_from(["Deployment", "StatefulSet"]),
        st.sampled_from(["", "web", "shop"]),
        st.one_of(
            st.none(),
            LABELS.map(lambda labels: {"matchLabels": labels}),
            st.just({"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
        ),
    ),
    min_size=1,
    max_size=2,
)
POLICIES = st.lists(
    st.builds(
        lambda name, namespace, cluster_scoped, chosen: policy(
            name, namespace=namespace, cluster_scoped=cluster_scoped, selectors=chosen
        ),
        st.sampled_from("abcd"),
        st.sampled_from(["default", "other"]),
        st.booleans(),
        SELECTORS,
    ),
    unique_by=lambda each: each.reference,
    max_size=5,
)


@settings(max_examples=50)
@given(
    POLICIES, POLICIES, st.sampled_from(["Deployment", "StatefulSet"]), VALUES, LABELS, st.sampled_from(["default", ""])
)
def test_the_catalog_finds_the_policies_that_a_search_of_all_finds(before, policies, kind, name, labels, namespace):
    template, catalog = Template("apps/v1", kind, name, namespace, labels), PolicyCatalog(before)
    for each in before[1:]:
        catalog.put(each.reference, None)
    for each in (*before[:1], *policies):
        catalog.put(each.reference, each)
    stored = list({each.reference: each for each in (*before[:1], *policies)}.values())
    assert list(catalog.matching(template)) == claims(template, stored)


T0 = datetime(2026, 1, 1, tzinfo=UTC)


def state(**changed: Any) -> MoveState:
    values = {
        "reason": MoveReason.FAILBACK,
        "phase": MovePhase.SURGING,
        "source": {"old": 4},
        "target": {"new": 4},
        "source_group": "g2",
        "target_group": "g1",
        "since": T0,
    }
    return MoveState(**{**values, **changed})


def moving(move: MoveState, clusters: dict[str, int], **fields: Any) -> Binding:
    return binding(replicas=4, clusters=clusters, annotations={MOVE: annotation_of(move), "a": "b"}, **fields)


def clusters_of(given: Binding) -> dict[str, int]:
    return {each.name: each.replicas for each in given.spec.clusters}


def test_a_state_survives_its_annotation():
    full = state(until=T0, failures=3, held_down_until=T0, template="7", returning=True, message="m", started_at=T0)
    assert move_of(moving(full, {"old": 4, "new": 4})) == full


def test_the_annotation_is_small_json_with_camel_case_names():
    assert annotation_of(state()) == (
        '{"reason":"Failback","phase":"Surging","source":{"old":4},"target":{"new":4},"sourceGroup":"g2",'
        '"targetGroup":"g1","since":"2026-01-01T00:00:00Z"}'
    )


def test_unknown_fields_of_a_newer_version_are_ignored():
    given = binding(annotations={MOVE: annotation_of(state())[:-1] + ',"newer":1}'})
    assert move_of(given) == state()


@cases(
    "text",
    {
        "no JSON": "{",
        "no phase": '{"reason":"Failback"}',
        "an unknown reason": '{"reason":"Whim","phase":"Surging"}',
        "negative replicas": '{"reason":"Drain","phase":"Surging","source":{"a":-1}}',
        "an invalid time": '{"reason":"Drain","phase":"Surging","since":"yesterday"}',
    },
)
def test_an_invalid_annotation_does_not_count_and_is_reported(text: str):
    given = binding(clusters={"old": 4}, annotations={MOVE: text})
    assert move_of(given) is None
    assert MOVE in move_problem(given)
    assert as_moved(given) is given


@cases(
    ("clusters", "moved"),
    {
        "an old copy was evicted, and its task has ended": ({"old": 4, "new": 4}, {"new": 4}),
        "all old copies are gone": ({"new": 4}, {"new": 4}),
        "the new copy is gone": ({"old": 4, "older": 0}, None),
        "an old copy has other replicas": ({"old": 3, "new": 4}, None),
        "a strange cluster is assigned": ({"old": 4, "new": 4, "strange": 1}, None),
    },
)
def test_a_move_goes_on_without_an_old_copy_that_was_evicted(clusters: dict[str, int], moved: dict[str, int] | None):
    given = moving(state(source={"old": 4, "older": 0}), clusters)
    assert (as_moved(given).assignment if as_moved(given) is not given else None) == moved


def test_a_binding_without_the_annotation_has_no_move():
    given = binding(clusters={"old": 4})
    assert (move_of(given), move_problem(given)) == (None, "")


@cases(
    ("source", "target", "joined", "common", "leaving", "arriving"),
    {
        "whole clusters": ({"a": 4}, {"b": 4}, {"a": 4, "b": 4}, {}, {"a": 4}, {"b": 4}),
        "a part": ({"a": 8}, {"a": 4, "b": 4}, {"a": 8, "b": 4}, {"a": 4}, {"a": 4}, {"b": 4}),
        "an exchange": ({"a": 2, "b": 6}, {"a": 6, "b": 2}, {"a": 6, "b": 6}, {"a": 2, "b": 2}, {"b": 4}, {"a": 4}),
        "no replicas: the clusters count": ({"a": 0}, {"b": 0}, {"a": 0, "b": 0}, {}, {"a": 0}, {"b": 0}),
    },
)
def test_what_old_and_new_copies_have_in_sum_and_in_common(source, target, joined, common, leaving, arriving):
    assert (union(source, target), both(source, target)) == (joined, common)
    given = state(source=source, target=target)
    assert (given.leaving, given.arriving) == (leaving, arriving)


@cases(
    ("phase", "strategy", "expected"),
    {
        "both run": (MovePhase.SURGING, MoveStrategy.MAKE_BEFORE_BREAK, {"a": 8, "b": 4}),
        "both run while soaking": (MovePhase.SOAKING, MoveStrategy.MAKE_BEFORE_BREAK, {"a": 8, "b": 4}),
        "only what stays": (MovePhase.ADMITTED, MoveStrategy.BREAK_BEFORE_MAKE, {"a": 4}),
        "only the new ones": (MovePhase.SURGING, MoveStrategy.BREAK_BEFORE_MAKE, {"a": 4, "b": 4}),
    },
)
def test_the_clusters_that_a_move_writes(phase: MovePhase, strategy: MoveStrategy, expected: dict[str, int]):
    given = state(phase=phase, strategy=strategy, source={"a": 8}, target={"a": 4, "b": 4})
    assert written_clusters(given) == expected


def test_a_binding_in_a_move_is_read_with_its_target_or_its_source():
    given = moving(state(), {"old": 4, "new": 4})
    given = msgspec.structs.replace(
        given,
        metadata=msgspec.structs.replace(
            given.metadata, annotations={**given.metadata.annotations, APPLIED_AFFINITY: "g2@1"}
        ),
    )
    after, before = as_moved(given), as_before(given)
    assert (clusters_of(after), after.status.scheduler_observing_affinity_name) == ({"new": 4}, "g1")
    assert (clusters_of(before), before.status.scheduler_observing_affinity_name) == ({"old": 4}, "g2")
    assert after.metadata.annotations == before.metadata.annotations == {"a": "b"}


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(binding(clusters={"old": 4}), id="no move"),
        pytest.param(moving(state(), {"old": 4, "new": 4, "other": 1}), id="another client changed the clusters"),
        *(
            pytest.param(moving(state(phase=phase), {"old": 4}), id=phase.value)
            for phase in (
                MovePhase.ELIGIBLE, MovePhase.STABILISING, MovePhase.RELEASED, MovePhase.ROLLED_BACK,
                MovePhase.HELD_DOWN,
            )
        ),
    ],
)  # fmt: skip
def test_a_binding_that_is_in_no_move_is_read_as_it_is(given: Binding):
    assert as_moved(given) is given
    assert as_before(given) is given


def test_an_evicted_cluster_may_lack_and_is_in_neither_assignment():
    given = moving(
        state(source={"old": 2, "gone": 2}),
        {"old": 2, "new": 4},
        graceful_eviction_tasks=(GracefulEvictionTask("gone", producer="x"),),
    )
    assert clusters_of(as_moved(given)) == {"new": 4}
    assert clusters_of(as_before(given)) == {"old": 2}


@cases(
    ("kind", "replicas", "deployed"),
    {
        "a ConfigMap": ("ConfigMap", 0, {"own": 1, "a": 0}),
        "a Deployment": ("Deployment", 1, {"own": 1, "a": 4}),
    },
)
def test_a_dependency_is_also_where_workloads_are_that_need_it(kind, replicas, deployed):
    leader = BindingSnapshot("web", "shop", (TargetCluster("own", 9), TargetCluster("a", 4)))
    resource = ObjectReference("v1", kind, "x", "shop")
    spec = BindingSpec(resource, replicas=replicas, clusters=(TargetCluster("own", 1),), required_by=(leader,))
    assert Binding(spec).deployed == deployed
