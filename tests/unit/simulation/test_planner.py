"""Plans: what a set of changed objects would move, and what it would not."""

from dataclasses import replace

import msgspec
import pytest
from builders import deployment
from fleet_dump import DIVIDED, load, members, stored_binding, stored_policy, stored_template
from simulated_worlds import NOW, PROFILE, policies
from simulated_worlds import WEB as WEB_NAME
from switched_on import world_of
from tables import cases

from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import convert
from berthmaster.model.policy import PolicyReference
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.simulation.change_set import ChangeSet, PlanIndex
from berthmaster.simulation.changes import AddLabel
from berthmaster.simulation.plan_answer import StayReason
from berthmaster.simulation.planner import plan

FLEET = members("a", "b", "c")
P = stored_policy("p", to=["a"], placement=DIVIDED)
WEB = stored_template(held_by=P)
BOUND = stored_binding(WEB, {"a": 2}, policy=P)
ALWAYS = {"preemption": "Always", "target": {"name": "web"}}
GROUPS = {
    **DIVIDED,
    "clusterAffinities": [
        {"affinityName": "first", "clusterNames": ["a"]},
        {"affinityName": "second", "clusterNames": ["b"]},
    ],
}


def to(cluster, name="p", **fields):
    return stored_policy(name, to=[cluster], placement=DIVIDED, **fields)


def index_of(*objects):
    return PlanIndex(world_of(load(*FLEET, *objects)), PROFILE)


def planned(*objects, edit=(), delete=(), **changes):
    deleted = tuple(each.reference for each in policies(*delete))
    return plan(index_of(*objects), ChangeSet(policies(*edit), deleted, **changes), NOW)


def only_move(found):
    (move,) = found.moves
    return move


def test_an_edit_moves_what_the_policy_holds():
    found = planned(P, WEB, BOUND, edit=[to("b")])
    move = only_move(found)
    assert (move.before, move.after, move.replicas, move.deleted) == ({"a": 2}, {"b": 2}, 2, ["a"])
    assert (move.trigger, move.reason) == (Trigger.RECONCILE, "its placement changes (clusterAffinity)")
    assert (found.summary.moved, found.summary.replicas, found.deleted_copies, found.complete) == (1, 2, 1, True)
    assert not move.due
    assert not found.summary.due


def test_a_move_that_is_due_has_its_own_reason():
    binding = stored_binding(WEB, {"a": 1, "gone": 1}, policy=P)
    binding["spec"]["schedulerName"] = "berthmaster"
    found = plan(index_of(P, WEB, binding), ChangeSet(edits=(AddLabel("a", "env", "prod"),)), NOW)
    move = only_move(found)
    assert (move.due, move.trigger, move.after) == (True, Trigger.FAILOVER, {"a": 2})
    assert move.reason == "a cluster of its assignment is being deleted or evicts it"


def test_what_is_due_comes_before_the_change():
    """The scheduler leaves the missing cluster for a. An edit that also accepts b then moves nothing."""
    lost = stored_binding(WEB, {"gone": 2}, policy=P)
    lost["spec"]["schedulerName"] = "berthmaster"
    move = only_move(planned(P, WEB, lost, edit=[stored_policy("p", to=["a", "b"], placement=DIVIDED)]))
    assert (move.before, move.after, move.due) == ({"gone": 2}, {"a": 2}, True)


def test_what_is_due_keeps_the_name_of_the_last_group():
    """Karmada does not remove the name when it schedules a placement without groups, and starts from that group."""
    held = stored_policy("p", to=["b"])
    bound = stored_binding(WEB, {"b": 2}, policy=held, observed="second")
    found = planned(held, WEB, bound, edit=[stored_policy("p", placement={**GROUPS, "clusterAffinity": None})])
    (staying,) = found.staying
    assert (found.moves, staying.reason) == ([], StayReason.SAME_RESULT)


def test_a_move_that_is_due_without_the_change_is_counted():
    other = stored_policy("q", to=["b"], placement=DIVIDED)
    api = stored_template(name="api", held_by=other)
    wider = stored_policy("p", to=["a", "unknown"], placement=DIVIDED)
    unsettled = stored_binding(WEB, {"b": 2}, policy=P, applied=False)
    settled = stored_binding(api, {"b": 2}, policy=other)
    found = planned(P, WEB, unsettled, other, api, settled, edit=[wider, to("c", "q")])
    assert [(each.resource, each.due) for each in found.moves] == [
        ("default/Deployment/api", False),
        ("default/Deployment/web", True),
    ]
    assert (found.summary.moved, found.summary.due) == (2, 1)


@pytest.mark.parametrize(
    ("edit", "reason", "message"),
    [
        pytest.param([to("a")], StayReason.UNCHANGED, "its binding does not change", id="the same policy"),
        pytest.param(
            [to("a", priority=5)], StayReason.UNCHANGED, "its binding does not change", id="another priority"
        ),
        pytest.param(
            [to("b", activationPreference="Lazy")], StayReason.LAZY,
            "its policy is Lazy: the change counts when its template changes", id="the edit makes the policy Lazy",
        ),
        pytest.param(
            [to("a", preserveResourcesOnDeletion=True)], StayReason.NOT_TRIGGERED,
            "the change does not trigger scheduling", id="a field that no scheduler reads",
        ),
        pytest.param(
            [stored_policy("p", to=["a", "b"], placement={**DIVIDED, "spreadConstraints": [{"maxGroups": 1}]})],
            StayReason.SAME_RESULT, "it is scheduled again (Reconcile), with the same result", id="the same result",
        ),
    ],
)  # fmt: skip
def test_a_plan_says_why_a_workload_stays(edit, reason, message):
    found = planned(P, WEB, BOUND, edit=edit)
    (staying,) = found.staying
    assert (found.moves, found.summary.moved) == ([], 0)
    assert (staying.resource, staying.reason, staying.message) == ("default/Deployment/web", reason, message)


def test_an_edit_of_another_group_moves_nothing():
    first = stored_policy("p", placement=GROUPS)
    other = {**GROUPS["clusterAffinities"][1], "clusterNames": ["c"]}
    second = stored_policy("p", placement={**GROUPS, "clusterAffinities": [GROUPS["clusterAffinities"][0], other]})
    template = stored_template(held_by=first)
    bound = stored_binding(template, {"a": 2}, policy=first, observed="first")
    (staying,) = planned(first, template, bound, edit=[second]).staying
    assert (staying.reason, staying.message) == (
        StayReason.OTHER_GROUP, "the change leaves its group first as it is"
    )  # fmt: skip


def claims(changes):
    return [(each.resource.rpartition("/")[2], each.before, each.after) for each in changes]


P_NAME, Q_NAME = "PropagationPolicy default/p", "PropagationPolicy default/q"


def test_a_deleted_policy_leaves_its_workloads_where_they_are():
    found = planned(P, WEB, BOUND, delete=[P])
    (effect,) = found.policies
    assert (effect.action, claims(effect.unclaimed), found.moves) == ("deleted", [("web", P_NAME, None)], [])
    (staying,) = found.staying
    assert staying.message == "no policy holds it any more: it stays where it is"


def test_a_lazy_policy_takes_the_workloads_of_a_deleted_one_at_once():
    found = planned(P, to("b", "q", activationPreference="Lazy"), WEB, BOUND, delete=[P])
    assert only_move(found).after == {"b": 2}


def test_preemption_takes_a_workload():
    found = planned(P, WEB, BOUND, edit=[to("b", "q", priority=2, **ALWAYS)])
    (effect,) = found.policies
    assert (effect.action, claims(effect.takes), effect.gains) == ("created", [("web", P_NAME, Q_NAME)], [])
    assert only_move(found).policy == Q_NAME


def test_a_policy_without_preemption_takes_nothing():
    found = planned(P, WEB, BOUND, edit=[to("b", "q", priority=2)])
    assert (found.moves, found.concerned) == ([], 0)


def test_a_dropped_priority_lets_another_policy_preempt():
    strong, q = to("a", priority=9), to("b", "q", priority=5, **ALWAYS)
    found = planned(strong, q, WEB, BOUND, edit=[to("a", priority=1)])
    lowered, taker = found.policies
    assert (claims(lowered.loses), claims(taker.takes)) == ([("web", P_NAME, Q_NAME)], [("web", P_NAME, Q_NAME)])
    assert taker.action == "unchanged"


def test_a_new_policy_claims_what_no_policy_holds():
    free = stored_template(deployment("free", replicas=3, requests={"cpu": "1"}))
    found = planned(free, edit=[to("b", "q")])
    move = only_move(found)
    assert (move.before, move.after, move.trigger) == ({}, {"b": 3}, Trigger.FIRST)
    assert move.reason == f"{Q_NAME} claims it"


GONE = to("a", "gone")
BETTER = to("b", "better", priority=5)


def claimed_as(template, **labels):
    return {**template, "metadata": {**template["metadata"], "labels": labels}}


@cases(
    ("template", "stored", "edit", "delete", "planned_on", "counted_on"),
    {
        "a policy claimed it": (WEB, [P], [BETTER], [], "a", "a"),
        "no policy claimed it yet": (stored_template(), [P], [BETTER], [], "b", "b"),
        "the policy that claimed it is deleted": (stored_template(held_by=GONE), [P], [BETTER], [], "a", "b"),
        "another policy of that name claimed it": (
            claimed_as(WEB, **{"propagationpolicy.karmada.io/permanent-id": "id-older"}), [P], [BETTER], [], "a", "b",
        ),
        "that name returns": (
            stored_template(held_by=GONE), [P], [to("b", "gone", new=True)], [], "a", "b",
        ),
        "its next holder changes": (stored_template(), [P], [to("b")], [], "b", "b"),
        "its next holder is deleted": (stored_template(held_by=GONE), [P, BETTER], [], [BETTER], "a", "a"),
        "its next holder is deleted, and another one moves it": (
            stored_template(held_by=GONE), [to("c"), BETTER], [], [BETTER], "a", "c",
        ),
    },
)  # fmt: skip
def test_karmada_may_decide_later_with_the_policies_of_then(template, stored, edit, delete, planned_on, counted_on):
    world = world_of(load(*FLEET, *stored, template, stored_binding(template, {"a": 2}, policy=GONE)))
    changes = ChangeSet(policies(*edit), tuple(each.reference for each in policies(*delete)))
    for lazily, cluster_name in ((False, planned_on), (True, counted_on)):
        found = plan(PlanIndex(msgspec.structs.replace(world, lazy_counts=lazily), PROFILE), changes, NOW)
        assert [each.after for each in found.moves] == ([] if cluster_name == "a" else [{cluster_name: 2}])


def test_a_new_lazy_policy_waits_for_the_template():
    free = stored_template(deployment("free", replicas=3, requests={"cpu": "1"}))
    found = planned(free, edit=[to("b", "q", activationPreference="Lazy")])
    (staying,) = found.staying
    assert (found.moves, staying.reason) == ([], StayReason.LAZY)
    assert claims(found.policies[0].gains) == [("free", None, Q_NAME)]


LAZY = {"activationPreference": "Lazy"}
TAKEN_OVER = claimed_as(WEB, **{"propagationpolicy.karmada.io/permanent-id": "id-taker"})
TAKEN_OVER["metadata"]["annotations"] = {**WEB["metadata"]["annotations"], "propagationpolicy.karmada.io/name": "taker"}


@cases(
    ("stored", "template", "edit"),
    {
        "an edit of a Lazy policy": ([P], WEB, to("b", **LAZY)),
        "an edit of a policy that claimed while it was Lazy": (
            [P, to("a", "taker", **LAZY)], TAKEN_OVER, to("b", "taker"),
        ),
        "a Lazy policy that preempts": ([P], WEB, to("b", "taker", priority=5, new=True, **ALWAYS, **LAZY)),
        "a claim that may be about to end": (
            [to("a", "taker", target={"name": "api"})], TAKEN_OVER, to("b", "heir", new=True),
        ),
        "a new Lazy policy": ([], stored_template(), to("b", "taker", new=True, **LAZY)),
    },
)  # fmt: skip
def test_what_may_happen_later_can_count_at_once(stored, template, edit):
    world = world_of(load(*FLEET, *stored, template, stored_binding(template, {"a": 2}, policy=P)))
    changes = ChangeSet(policies(edit))
    assert plan(PlanIndex(world, PROFILE), changes, NOW).moves == []
    counted = plan(PlanIndex(msgspec.structs.replace(world, lazy_counts=True), PROFILE), changes, NOW)
    assert only_move(counted).after == {"b": 2}


def test_a_workload_without_a_place_is_new_or_known():
    found = planned(P, WEB, BOUND, edit=[to("nowhere")])
    (unplaced,) = found.unplaced
    assert (unplaced.nowhere, unplaced.by_change) == (True, True)
    assert unplaced.message == "NoFit: none of 3 clusters fits (ClusterAffinity 3)"
    lost = to("nowhere")
    stuck = stored_binding(WEB, {}, policy=lost)
    (known,) = planned(lost, WEB, stuck, edit=[to("elsewhere")]).unplaced
    assert (known.nowhere, known.by_change) == (True, False)


def test_arriving_replicas_can_overcommit_a_cluster():
    big = stored_template(deployment("web", replicas=90, requests={"cpu": "100m"}), held_by=P)
    bound = stored_binding(big, {"a": 90}, policy=P, replicas=90)
    weights = {"staticWeightList": [{"targetCluster": {"clusterNames": ["b"]}, "weight": 1}]}
    static = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted", "weightPreference": weights}
    only_b = stored_policy("p", to=["b"], placement={"replicaScheduling": static})
    found = planned(P, big, bound, edit=[only_b])
    assert found.overcommitted == ["b"]
    assert [(each.cluster, each.before, each.after) for each in found.clusters] == [("a", 90, 0), ("b", 0, 90)]
    (new,) = index_of(only_b, big).world.workloads
    assert planned(only_b, workloads=(new,)).overcommitted == ["b"]


def test_preserved_copies_are_not_deleted():
    keeping = to("a", preserveResourcesOnDeletion=True)
    bound = stored_binding(WEB, {"a": 2}, policy=keeping, preserveResourcesOnDeletion=True)
    move = only_move(planned(keeping, WEB, bound, edit=[to("b")]))
    assert (move.deleted, move.preserved) == ([], ["a"])


def test_a_deleted_cluster_moves_what_it_runs():
    anywhere = stored_policy("p", placement=DIVIDED)
    bound = stored_binding(WEB, {"a": 2}, policy=anywhere)
    found = planned(anywhere, WEB, bound, deleted_clusters=("a",))
    assert (only_move(found).deleted, only_move(found).trigger) == (["a"], Trigger.FAILOVER)


def test_a_new_taint_of_a_cluster_evicts():
    anywhere = stored_policy("p", placement=DIVIDED)
    bound = stored_binding(WEB, {"a": 2}, policy=anywhere)
    tainted = convert(Cluster, {**FLEET[0], "spec": {"taints": [{"key": "bad", "effect": "NoExecute"}]}})
    move = only_move(planned(anywhere, WEB, bound, clusters=(tainted,)))
    assert (move.deleted, move.evicting, "a" in move.after) == ([], ["a"], False)


def test_a_deleted_workload_loses_all_copies():
    found = planned(P, WEB, BOUND, deleted_workloads=(WEB_NAME,))
    move = only_move(found)
    assert (move.removed, move.deleted, move.after, move.reason) == (True, ["a"], {}, "the resource is deleted")


def test_a_changed_template_is_scheduled_again():
    written = deployment("web", replicas=5, requests={"cpu": "100m"})
    scaled = world_of(
        load(*FLEET, P, {**WEB, "spec": written["spec"]}, {**BOUND, "spec": {**BOUND["spec"], "replicas": 5}})
    )
    move = only_move(planned(P, WEB, BOUND, workloads=tuple(scaled.workloads)))
    assert (move.after, move.trigger, move.reason) == ({"a": 5}, Trigger.SCALE, "its replicas change from 2 to 5")


LEADING = to("a", propagateDeps=True)
NEEDS = '[{"apiVersion":"v1","kind":"ConfigMap","namespace":"default","name":"settings"}]'


def with_settings():
    template = stored_template(held_by=LEADING)
    bound = stored_binding(
        template, {"a": 2}, policy=LEADING, annotations={"resourcebinding.karmada.io/dependencies": NEEDS}
    )
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default"}}
    snapshot = {"namespace": "default", "name": "web-deployment", "clusters": [{"name": "a", "replicas": 2}]}
    settings = stored_template(config)
    return LEADING, template, bound, settings, stored_binding(settings, {}, replicas=None, requiredBy=[snapshot])


@cases(
    ("changes", "after"),
    {
        "its workload moves": ({"edit": [to("b", propagateDeps=True)]}, {"b": 0}),
        "its workload does not propagate dependencies any more": ({"edit": [to("a")]}, {}),
        "its workload is deleted": ({"deleted_workloads": (WEB_NAME,)}, {}),
    },
)
def test_a_dependency_follows(changes, after):
    moved = {each.resource: each for each in planned(*with_settings(), **changes).moves}
    settings = moved["default/ConfigMap/settings"]
    assert (settings.before, settings.after, settings.deleted) == ({"a": 0}, after, ["a"])
    assert settings.reason == ("it follows default/Deployment/web" if after else "no workload needs it any more")


def test_unknown_labels_are_a_gap():
    by_labels = {"labelSelector": {"matchLabels": {"app": "web"}}}
    found = planned(P, BOUND, edit=[to("b", target=by_labels)])
    assert not found.complete
    (gap,) = found.gaps
    assert gap.endswith("it is not known whether PropagationPolicy default/p selects default/Deployment/web")


def test_the_deletion_of_an_unknown_policy_changes_nothing():
    found = plan(index_of(P, WEB, BOUND), ChangeSet(deleted_policies=(PolicyReference(P["kind"], "x", "y"),)), NOW)
    assert (found.moves, found.policies) == ([], [])


def test_an_index_can_be_kept():
    index = index_of(P, WEB, BOUND)
    moved = stored_binding(WEB, {"c": 2}, policy=P)
    index.update(world_of(load(*FLEET, P, WEB, moved)))
    found = plan(index, ChangeSet(policies(to("b"))), NOW)
    assert only_move(found).before == {"c": 2}
    again = plan(index_of(P, WEB, moved), ChangeSet(policies(to("b"))), NOW)
    assert found == again
    index.update(world_of(load(*FLEET[1:], P)))
    assert (len(index), plan(index, ChangeSet(policies(to("b"))), NOW).moves) == (0, [])


def test_workloads_share_what_is_equal():
    manifests = load(*FLEET, P, WEB, BOUND, stored_template(name="api", held_by=P))
    web, api = world_of(manifests).workloads
    assert world_of(replace(manifests, bindings=[web.binding])).workloads[0].binding is web.binding
    assert api.replicas.requirements is web.replicas.requirements


def test_a_kept_index_finds_workloads_by_labels_that_come_and_go():
    def labelled(*names):
        return [stored_template(deployment(each, labels={"tier": "gold"})) for each in names]

    def gains():
        target = {"labelSelector": {"matchLabels": {"tier": "gold"}}}
        found = plan(index, ChangeSet(policies(to("b", target=target))), NOW)
        return [each.resource for each in found.policies[0].gains]

    index = index_of(*labelled("web"))
    assert gains() == ["default/Deployment/web"]
    for names in (["api", "web"], ["api"], [], ["shop"]):
        index.update(world_of(load(*FLEET, stored_template(deployment("other")), *labelled(*names))))
        assert gains() == [f"default/Deployment/{each}" for each in names]
