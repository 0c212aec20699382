"""Policies whose dependentOverrides or priority do not exist: nothing is placed, and nothing changes."""

from builders import deployment
from fleet_dump import DIVIDED, load, members, stored_binding, stored_policy, stored_template
from simulated_worlds import NOW, PROFILE, WEB, policies, simulated, web_row
from switched_on import world_of
from tables import cases

from berthmaster.simulation.change_set import ChangeSet, PlanIndex
from berthmaster.simulation.changes import Scale
from berthmaster.simulation.plan_answer import StayReason
from berthmaster.simulation.planner import plan
from berthmaster.simulation.workload import NotScheduled

FLEET = members("a", "b")
OVERRIDE = {
    "apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
    "metadata": {"name": "images", "namespace": "default"}, "spec": {"overrideRules": []},
}  # fmt: skip
CLASS = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 5}
OVERRIDES = {"dependentOverrides": ["images"]}
ROLE = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "viewer"}}
OLD = stored_policy("p", to=["a"], placement=DIVIDED)
TEMPLATE = stored_template(held_by=OLD)
BOUND = stored_binding(TEMPLATE, {"a": 2}, policy=OLD)


def priority(name="high", source="KubePriorityClass"):
    return {"schedulePriority": {"priorityClassSource": source, "priorityClassName": name}}


def policy(to="b", **spec):
    return stored_policy("p", to=[to], placement=DIVIDED, new=True, **spec)


def read(**existing):
    return {
        "apiVersion": "berthmaster.io/v1alpha1", "kind": "FleetSnapshot", "metadata": {"name": "test"},
        "readAt": "2026-05-01T00:00:00Z", "existing": existing,
    }  # fmt: skip


NONE = read(**{"OverridePolicy default/images": False, "PriorityClass high": False})


@cases(
    ("spec", "more", "reason"),
    {
        "an override that is not among the files": (OVERRIDES, [], NotScheduled.MISSING_OVERRIDES),
        "an override that is": (OVERRIDES, [OVERRIDE], None),
        "a priority class that is not among the files": (priority(), [], NotScheduled.NO_PRIORITY),
        "a priority class that is": (priority(), [CLASS], None),
        "a class that every server has": (priority("system-node-critical"), [], None),
        "another source": (priority(source="PodPriorityClass"), [CLASS], NotScheduled.NO_PRIORITY),
        "what was not read counts as existing": (OVERRIDES, [read()], None),
    },
)
def test_a_new_workload(spec, more, reason):
    found = web_row(*FLEET, policy(**spec), deployment("web", replicas=2), *more).after
    assert (found.not_scheduled, found.clusters) == (reason, {} if reason else {"b": 2})


@cases("spec", {"overrides": OVERRIDES, "priority": priority()})
@cases("changes", {"the policy changes": (), "the template, too": [Scale(WEB, 5)]})
def test_a_binding_stays_as_it_is(spec, changes):
    found = web_row(*FLEET, NONE, TEMPLATE, OLD, BOUND, over=[policy(**spec)], changes=changes).after
    assert (found.clusters, found.policy, len(found.notes)) == ({"a": 2}, "PropagationPolicy default/p", 1)
    assert "changes of policy and template wait, too" in found.notes[0]


def test_a_cluster_scoped_binding_has_no_priority():
    everywhere = stored_policy(
        "all", kind="ClusterPropagationPolicy", selects="rbac.authorization.k8s.io/v1/ClusterRole", **priority()
    )
    (row,) = simulated(*FLEET, everywhere, ROLE).values()
    assert row.after.not_scheduled is None


def planned(*stored, changed=(), existence=()):
    index = PlanIndex(world_of(load(*FLEET, *stored)), PROFILE)
    changes = ChangeSet(policies(*changed), existence=dict(existence))
    return plan(index, changes, NOW)


CREATED = {"OverridePolicy default/images": True}.items()


@cases(
    ("stored", "existence", "after", "complete"),
    {
        "the override does not exist": ([NONE, TEMPLATE, OLD, BOUND], (), None, True),
        "the change creates it": ([NONE, TEMPLATE, OLD, BOUND], CREATED, {"b": 2}, True),
        "it was not read": ([read(), TEMPLATE, OLD, BOUND], (), {"b": 2}, False),
        "nor need it be": ([read(), TEMPLATE, OLD, BOUND], CREATED, {"b": 2}, True),
    },
)
def test_a_plan_of_a_policy_with_overrides(stored, existence, after, complete):
    found = planned(*stored, changed=[policy(**OVERRIDES)], existence=existence)
    assert [each.after for each in found.moves] == ([after] if after else [])
    assert (found.complete, [each.reason for each in found.staying]) == (complete, [] if after else [StayReason.WAITS])


def test_a_created_override_ends_the_waiting():
    waiting = stored_policy("p", to=["b"], placement=DIVIDED, **OVERRIDES)
    (move,) = planned(NONE, stored_template(), waiting, existence=CREATED).moves
    assert (move.before, move.after) == ({}, {"b": 2})
    (move,) = planned(NONE, TEMPLATE, waiting, BOUND, existence=CREATED).moves
    assert (move.before, move.after) == ({"a": 2}, {"b": 2})


def test_a_plan_that_releases_a_workload_names_what_the_next_policy_may_wait_for():
    following = stored_policy("q", to=["b"], placement=DIVIDED, **OVERRIDES)
    released = stored_policy("p", to=["a"], placement=DIVIDED, new=True, target={"name": "other"})
    unread, missing = (planned(each, TEMPLATE, OLD, BOUND, following, changed=[released]) for each in (read(), NONE))
    assert ([each.after for each in unread.moves], unread.complete) == ([{"b": 2}], False)
    assert ("PropagationPolicy default/q" in unread.gaps[0], missing.moves, missing.complete) == (True, [], True)
