"""What nothing is placed for: policies that wait, and workloads that karmada-scheduler does not try again."""

from builders import deployment
from fleet_dump import DIVIDED, load, members, stored_binding, stored_policy, stored_template
from simulated_worlds import NOW, PROFILE, WEB, explained_in, planned, policies, row_of, simulated_rows, web_row
from switched_on import world_of
from tables import cases

from berthmaster.model.taint import NO_SCHEDULE, Taint
from berthmaster.simulation.change_set import ChangeSet, PlanIndex
from berthmaster.simulation.changes import AddCluster, AddLabel, AddTaint, Down, RemoveLabel, Reschedule, Scale
from berthmaster.simulation.plan_answer import StayReason
from berthmaster.simulation.planner import plan
from berthmaster.simulation.scheduling_cycle import run, scheduler_of
from berthmaster.simulation.why_not import question_of, why_not
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
    (row,) = simulated_rows(*FLEET, everywhere, ROLE).values()
    assert row.after.not_scheduled is None


def plan_of(*stored, changed=(), existence=()):
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
    found = plan_of(*stored, changed=[policy(**OVERRIDES)], existence=existence)
    assert [each.after for each in found.moves] == ([after] if after else [])
    assert (found.complete, [each.reason for each in found.staying]) == (complete, [] if after else [StayReason.WAITS])


def test_a_created_override_ends_the_waiting():
    waiting = stored_policy("p", to=["b"], placement=DIVIDED, **OVERRIDES)
    (move,) = plan_of(NONE, stored_template(), waiting, existence=CREATED).moves
    assert (move.before, move.after) == ({}, {"b": 2})
    (move,) = plan_of(NONE, TEMPLATE, waiting, BOUND, existence=CREATED).moves
    assert (move.before, move.after) == ({"a": 2}, {"b": 2})


def test_a_plan_that_releases_a_workload_names_what_the_next_policy_may_wait_for():
    following = stored_policy("q", to=["b"], placement=DIVIDED, **OVERRIDES)
    released = stored_policy("p", to=["a"], placement=DIVIDED, new=True, target={"name": "other"})
    unread, missing = (plan_of(each, TEMPLATE, OLD, BOUND, following, changed=[released]) for each in (read(), NONE))
    assert ([each.after for each in unread.moves], unread.complete) == ([{"b": 2}], False)
    assert ("PropagationPolicy default/q" in unread.gaps[0], missing.moves, missing.complete) == (True, [], True)


def stalled_fleet(reason="NoClusterFit", scheduler="default-scheduler", to=("a",), clusters=None, over=()):
    policy = stored_policy("p", to=to, placement=DIVIDED, schedulerName=scheduler)
    template = stored_template(held_by=policy)
    binding = stored_binding(template, clusters or {}, policy=policy, schedulerName=scheduler)
    failed = {"conditions": [{"type": "Scheduled", "status": "False", "reason": reason, "message": "0/2 clusters"}]}
    return world_of(load(*members("a", "b"), policy, template, {**binding, "status": failed}, over=over))


def row(world, *changes):
    return row_of(planned(world, *changes)[0])


def edited(**spec):
    return stored_policy("p", to=["a"], placement=DIVIDED, schedulerName="default-scheduler", **spec)


@cases(
    ("world", "changes", "clusters"),
    {
        "nothing triggers it": (stalled_fleet(), [], {}),
        "missing capacity is tried again": (stalled_fleet("Unschedulable"), [], {"a": 2}),
        "Berthmaster's scheduler tries again": (stalled_fleet(scheduler="berthmaster"), [], {"a": 2}),
        "a label of a cluster that it may use": (stalled_fleet(), [AddLabel("a", "x", "y")], {"a": 2}),
        "a taint that it does not tolerate": (stalled_fleet(), [AddTaint("a", Taint("x", NO_SCHEDULE))], {}),
        "a label of another cluster": (stalled_fleet(), [AddLabel("b", "x", "y")], {}),
        "it may use any": (stalled_fleet(to=()), [AddLabel("b", "x", "y"), RemoveLabel("b", "x")], {"a": 2}),
        "Karmada taints a lost cluster": (stalled_fleet(to=()), [Down("b")], {"a": 2}),
        "a cluster joins": (stalled_fleet(to=()), [AddCluster(world_of(load(*members("c"))).clusters["c"])], {"a": 2}),
        "a scaling": (stalled_fleet(), [Scale(WEB, 3)], {"a": 3}),
        "a rescheduling": (stalled_fleet(), [Reschedule()], {"a": 2}),
        "an edit of the policy that binds nothing new": (stalled_fleet(over=[edited(priority=5)]), [], {}),
        "an edit that changes the binding": (stalled_fleet(over=[edited(propagateDeps=True)]), [], {"a": 2}),
        "of any field": (stalled_fleet(over=[edited(conflictResolution="Overwrite")]), [], {"a": 2}),
    },
)
def test_what_makes_the_scheduler_try_again(world, changes, clusters):
    found = row(world, *changes)
    assert found.after.clusters == clusters
    assert (found.before.clusters, found.before.present) == ({}, None)


def test_what_the_commands_say():
    world = stalled_fleet()
    shown = row(world).after
    assert (shown.not_scheduled, shown.error) == (NotScheduled.NOT_RETRIED, None)
    assert shown.message.startswith("it fits now (a=2), but nothing triggers its scheduling")
    answer = explained_in(world, world.workloads[0], NOW)
    assert (answer.not_scheduled, answer.diagnosis is not None) == (NotScheduled.NOT_RETRIED, True)
    _, (result,) = run(world, PROFILE, NOW)
    found = why_not(question_of(scheduler_of(world, PROFILE), world, world.workloads[0], result, NOW), "a")
    assert (found.taken, found.clusters) == (False, {"a": 2})
    assert found.reasons == ["nothing triggers scheduling: the workload stays on no cluster", "a would get it"]


def test_a_failure_that_lasts_is_a_failure():
    shown = row(stalled_fleet(to=("gone",))).after
    assert (shown.not_scheduled, shown.error is not None) == (None, True)
