"""What changes would do: simulate all workloads, or those that a change of policies concerns, and return the plan."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import chain, zip_longest
from typing import Final, NamedTuple

from msgspec.structs import replace

from berthmaster.deciding.running import Hosts
from berthmaster.model.cluster import Cluster
from berthmaster.model.gaps import Gap
from berthmaster.model.readers import ANY_READER, Reader
from berthmaster.scheduling.profile import Profile
from berthmaster.simulation.change_set import (
    ChangedWorkloads,
    ChangeSet,
    PlanIndex,
    WorkloadKey,
    changed_workloads,
    key_of,
)
from berthmaster.simulation.cluster_totals import ClusterTotals, pods_by_cluster
from berthmaster.simulation.followers import with_followers
from berthmaster.simulation.plan_answer import Plan
from berthmaster.simulation.plan_builder import PlanBuilder
from berthmaster.simulation.plan_decider import STEP, DueWorkloads, PlanDecider
from berthmaster.simulation.results import PlannedWorkload, WorkloadResult
from berthmaster.simulation.scheduling_cycle import (
    Diagnosed,
    followed,
    present_result,
    run,
    scheduler_of,
    with_companions,
)
from berthmaster.simulation.workload import SimulatedWorkload
from berthmaster.simulation.world import World

ReportProgress = Callable[[int, int], None]
_REPORTED: Final = 100
"""How many steps are between two reports of progress."""


def plan(
    index: PlanIndex,
    changes: ChangeSet,
    now: datetime,
    *,
    gaps: Sequence[Gap] = (),
    check: Callable[[], None] = lambda: None,
    progress: ReportProgress = lambda _done, _total: None,
    reader: Reader = ANY_READER,
    shared_capacity: bool = False,
    observed: bool = True,
    lists_all: bool = False,
) -> Plan:
    """Return what changes would move. Without any change: what moves in any case.

    The caller keeps the index for further plans, which it leaves unchanged. For a service that plans each admission
    review: keep one ``PlanIndex``, call ``update`` with the current world before each plan, and hold one lock during
    both. The plan of a policy that concerns few workloads then costs what these workloads cost.

    Args:
        index: the world before the changes, with all resources that the changed policies can select.
        now: the time of the changes; later than every scheduling in the world.
        check: called before each workload; an exception that it raises ends the plan.
        progress: called with how many steps are done, and of how many (``PlanDecider``).
        reader: the reader of the sentences in the answer. The rows are those of all workloads; ``visible_plan`` leaves
            out what the reader may not see.
        shared_capacity: whether a decision sees the replicas that the decisions before it add. Not for changes of
            policies and workloads alone.
        observed: whether it is known what clusters run (``world.is_observed``). Otherwise workloads without any binding
            are where a first scheduling places them, and the amounts of clusters are about all their replicas.
        lists_all: whether the plan lists the workloads that the changes do not concern, too, among those that stay.

    Raises:
        InputError: a deleted cluster does not exist, or the fleet is full.
    """
    if changes.changes_policies_only and (observed or index.world.has_bindings):
        return _plan_of_policies(index, changes, now, gaps, check, progress, reader, observed=observed)
    profile = index.scheduler.profile
    done, total = 0, 3 * len(index)

    def step() -> None:
        nonlocal done
        done += 1
        check()
        if not done % _REPORTED:
            progress(min(done, total), total)

    found = simulated(index.world, changes, profile, now, step, shared_capacity=shared_capacity)
    return plan_of_simulation(index, changes, found, gaps=gaps, reader=reader, observed=observed, lists_all=lists_all)


def _plan_of_policies(
    index: PlanIndex,
    changes: ChangeSet,
    now: datetime,
    gaps: Sequence[Gap],
    check: Callable[[], None],
    progress: ReportProgress,
    reader: Reader,
    *,
    observed: bool,
) -> Plan:
    """Return the plan of changes that concern few workloads. It decides only these, by the index."""
    due, later = DueWorkloads(index, now, check=check), now + STEP
    changed = changed_workloads(index, changes, later, due.workload, check)
    decider = PlanDecider(index, changed, due, later, check)
    keys = index.sorted(chain(changed.after, *(index.held_by(edit.reference) for edit in changed.edits)))
    due.decide(keys)
    decided: dict[WorkloadKey, PlannedWorkload] = {}
    for key, planned in decider.deciding(keys):
        decided[key] = planned
        if not len(decided) % _REPORTED:
            progress(len(decided), len(keys))
    return plan_of(index, changes, changed, due, decider, decided, gaps=gaps, reader=reader, observed=observed)


class Simulation(NamedTuple):
    """All workloads before and after changes, in the order of the world; those that the changes create come last.

    ``clusters``: the clusters after the changes, with the status that they report.
    """

    rows: Mapping[WorkloadKey, PlannedWorkload]
    changed: ChangedWorkloads
    decider: PlanDecider
    clusters: Mapping[str, Cluster]

    @property
    def hosts(self) -> Hosts:
        return self.decider.hosts

    @property
    def workloads(self) -> Sequence[PlannedWorkload]:
        """The workloads. ``settled`` is set, except for those that the changes create."""
        return list(self.rows.values())


def simulated(
    world: World,
    changes: ChangeSet,
    profile: Profile,
    now: datetime,
    check: Callable[[], None] = lambda: None,
    *,
    shared_capacity: bool = False,
) -> Simulation:
    """Simulate what is due first, and one second later the changes: the one answer to what would happen.

    Only the workloads that the changes can affect are looked at again.

    Args:
        world: the world before the changes. Without any binding, a first scheduling says where workloads are.
        check: called before each workload; an exception that it raises ends the simulation.
        shared_capacity: whether a decision sees the replicas that the decisions before it add.

    Raises:
        InputError: a change names a cluster or workload that does not exist, or the fleet is full.
    """
    scheduler, later = scheduler_of(world, profile), now + STEP
    # Beside bindings and changes, no row is about the scheduling that is due.
    diagnose: Diagnosed = "none" if world.has_bindings and changes.edits else "failures"
    base, settled = run(
        world, profile, now, diagnose=diagnose, shared_capacity=shared_capacity, scheduler=scheduler, check=check
    )
    scheduled = settled if world.has_bindings else list(map(_first_scheduled, settled))
    index = PlanIndex(replace(world, clusters=base.clusters), profile, scheduler)
    due = DueWorkloads(index, now, dict(zip(index.keys(), scheduled, strict=True)))
    changed = changed_workloads(index, changes, later, due.workload)
    decider = PlanDecider(index, changed, due, later, check, explains_all=True, shared_capacity=shared_capacity)
    staying: dict[WorkloadKey, WorkloadResult | None] = {}
    for key, old, result in zip(index.keys(), world.workloads, settled, strict=True):
        staying[key] = result if result.workload is old and decider.stays(key, result) else None
    staying.update((key, None) for key, each in changed.after.items() if each is not None and index.get(key) is None)
    decided = dict(decider.deciding(key for key, each in staying.items() if each is None))
    after = followed([each or decided[key].after for key, each in staying.items()], world.schedulers)
    before: Sequence[WorkloadResult] = settled
    if world.has_bindings:
        pairs = zip(world.workloads, staying.values(), strict=False)
        before = with_companions([each or present_result(old, world.schedulers) for old, each in pairs])
    rows = {}
    for (key, stays), result, now_at, without in zip_longest(staying.items(), after, before, settled):
        if stays is not None:
            rows[key] = PlannedWorkload(now_at, result, without, has_event=False)
        elif without is None:
            rows[key] = replace(decided[key], after=result)
        else:
            rows[key] = replace(decided[key], before=now_at, after=result, settled=without)
    clusters = decider.clusters
    if shared_capacity:  # what the first run deducts is no status
        clusters = {name: world.clusters.get(name, each) for name, each in clusters.items()}
    return Simulation(rows, changed, decider, clusters)


def _first_scheduled(result: WorkloadResult) -> WorkloadResult:
    """Return the result for a workload of manifests whose first scheduling counts as the present."""
    is_present = result.workload.binding is not None and result.unscheduled is None
    return replace(result, workload=replace(result.workload, present=is_present))


def explained(
    world: World, workload: SimulatedWorkload, changes: ChangeSet, profile: Profile, now: datetime
) -> tuple[PlannedWorkload, Hosts]:
    """Return one workload of a world before and after changes, the latter with an explanation (``simulated``).

    All workloads are simulated, because workload affinity and dependencies depend on the others.
    """
    found, key = simulated(world, changes, profile, now), key_of(workload.resource)
    planned = found.rows[key]
    return replace(planned, after=found.decider.explained(key, planned)), found.hosts


def plan_of_simulation(
    index: PlanIndex,
    changes: ChangeSet,
    found: Simulation,
    *,
    gaps: Sequence[Gap] = (),
    reader: Reader = ANY_READER,
    observed: bool = True,
    lists_all: bool = False,
) -> Plan:
    """Return the plan of a simulation: the rows of the workloads that the changes concern.

    Args:
        index: the world before the changes.
        changes, found: the changes, and their simulation in this world.
    """
    decider = found.decider
    present = index.pods
    if not index.world.has_bindings:
        present = Counter()
        for each in found.rows.values():
            present.update(pods_by_cluster(each.before.workload, each.before.assignment))
    totals = ClusterTotals(found.clusters, present, observed=observed)
    for each in () if index.world.has_bindings else found.rows.values():
        if not each.moves:  # the others are added with their rows
            totals.add(each)
    rows = PlanBuilder(index, found.changed, decider, reader, totals, lists_staying=True)
    concerned = {key: each for key, each in found.rows.items() if changes == ChangeSet() or decider.concerns(key, each)}
    rows.add(concerned.values())
    for key, each in found.rows.items():
        if key in concerned:
            continue
        if each.after.has_no_place:
            rows.add_row(each)
        elif lists_all:
            rows.add_unconcerned(each)
    return rows.plan(changes, gaps)


def plan_of(
    index: PlanIndex,
    changes: ChangeSet,
    changed: ChangedWorkloads,
    due: DueWorkloads,
    decider: PlanDecider,
    decided: dict[WorkloadKey, PlannedWorkload],
    *,
    gaps: Sequence[Gap] = (),
    reader: Reader = ANY_READER,
    lists_staying: bool = True,
    observed: bool = True,
) -> Plan:
    """Return the plan of decided workloads.

    Args:
        decided: the workloads that a scheduler may look at because of the change.
        lists_staying: whether the plan lists the workloads that stay. Its id does not depend on them.
    """
    totals = ClusterTotals(decider.clusters, index.pods, observed=observed)
    rows = PlanBuilder(index, changed, decider, reader, totals, lists_staying=lists_staying)
    concerned = {key: each for key, each in decided.items() if decider.concerns(key, each)}
    rows_of, followers = with_followers(index, due, decider, concerned)
    rows.add(rows_of)
    for each in followers:
        rows.add_row(each)
    for workload in () if observed else index.world.workloads:
        if not rows.moves(str(workload)):  # the others are added with their rows
            result = present_result(workload, index.world.schedulers)
            totals.add(PlannedWorkload(result, result, None))
    return rows.plan(changes, gaps)
