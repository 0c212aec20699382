"""karmada-scheduler does not try a workload again that fitted no cluster. Its spec or that of a cluster must change."""

from fleet_dump import DIVIDED, load, members, stored_binding, stored_policy, stored_template
from simulated_worlds import NOW, PROFILE, WEB, planned
from tables import cases

from berthmaster.model.cluster import NO_SCHEDULE, Taint
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster.simulation.changes import AddCluster, AddLabel, AddTaint, Down, RemoveLabel, Reschedule, Scale
from berthmaster.simulation.report import change_row, explanation
from berthmaster.simulation.run import explained, run
from berthmaster.simulation.why_not import request_of, why_not
from berthmaster.simulation.workload import NotScheduled
from berthmaster.simulation.world import world_of


def fleet(reason="NoClusterFit", scheduler="default-scheduler", to=("a",), clusters=None, over=()):
    policy = stored_policy("p", to=to, placement=DIVIDED, schedulerName=scheduler)
    template = stored_template(held_by=policy)
    binding = stored_binding(template, clusters or {}, policy=policy, schedulerName=scheduler)
    failed = {"conditions": [{"type": "Scheduled", "status": "False", "reason": reason, "message": "0/2 clusters"}]}
    return world_of(load(*members("a", "b"), policy, template, {**binding, "status": failed}, over=over))


def row(world, *changes):
    return change_row(planned(world, *changes)[0])


def edited(**spec):
    return stored_policy("p", to=["a"], placement=DIVIDED, schedulerName="default-scheduler", **spec)


@cases(
    ("world", "changes", "clusters"),
    {
        "nothing triggers it": (fleet(), [], {}),
        "missing capacity is tried again": (fleet("Unschedulable"), [], {"a": 2}),
        "Berthmaster's scheduler tries again": (fleet(scheduler="berthmaster"), [], {"a": 2}),
        "a label of a cluster that it may use": (fleet(), [AddLabel("a", "x", "y")], {"a": 2}),
        "a taint that it does not tolerate": (fleet(), [AddTaint("a", Taint("x", NO_SCHEDULE))], {}),
        "a label of another cluster": (fleet(), [AddLabel("b", "x", "y")], {}),
        "it may use any": (fleet(to=()), [AddLabel("b", "x", "y"), RemoveLabel("b", "x")], {"a": 2}),
        "Karmada taints a lost cluster": (fleet(to=()), [Down("b")], {"a": 2}),
        "a cluster joins": (fleet(to=()), [AddCluster(world_of(load(*members("c"))).clusters["c"])], {"a": 2}),
        "a scaling": (fleet(), [Scale(WEB, 3)], {"a": 3}),
        "a rescheduling": (fleet(), [Reschedule()], {"a": 2}),
        "an edit of the policy that binds nothing new": (fleet(over=[edited(priority=5)]), [], {}),
        "an edit that changes the binding": (fleet(over=[edited(propagateDeps=True)]), [], {"a": 2}),
        "of any field": (fleet(over=[edited(conflictResolution="Overwrite")]), [], {"a": 2}),
    },
)
def test_what_makes_the_scheduler_try_again(world, changes, clusters):
    found = row(world, *changes)
    assert found.after.clusters == clusters
    assert (found.before.clusters, found.before.present) == ({}, None)


def test_what_the_commands_say():
    world = fleet()
    shown = row(world).after
    assert (shown.not_scheduled, shown.error) == (NotScheduled.NOT_RETRIED, None)
    assert shown.message.startswith("it fits now (a=2), but nothing triggers its scheduling")
    answer = explanation(*explained(world, world.workloads[0], PROFILE, NOW))
    assert (answer.not_scheduled, answer.diagnosis is not None) == (NotScheduled.NOT_RETRIED, True)
    _, (result,) = run(world, PROFILE, NOW)
    found = why_not(Scheduler(Fleet(world.clusters.values()), PROFILE), request_of(result), "a", due=False)
    assert (found.taken, found.clusters) == (False, {"a": 2})
    assert found.reasons == ["nothing triggers scheduling: the workload stays on no cluster"]


def test_a_failure_that_lasts_is_a_failure():
    shown = row(fleet(to=("gone",))).after
    assert (shown.not_scheduled, shown.error is not None) == (None, True)
