"""Plan a change: decide where the workloads go that it concerns, and compare that with where they are.

Only workloads whose binding changes are scheduled again, as in a control plane: nothing else makes a scheduler look at
them. A change of clusters concerns all workloads.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain, zip_longest
from operator import attrgetter
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from berthmaster.deciding.running import Hosts, hosts_of
from berthmaster.model.cluster import NO_EXECUTE, Cluster
from berthmaster.model.gaps import ANY_READER, Gap, GapKind, Reader, texts
from berthmaster.model.meta import with_spec
from berthmaster.model.move import as_moved
from berthmaster.model.policy import DEFAULT_SCHEDULER
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.scheduling.prices import Cost, Costs, change_of
from berthmaster.scheduling.profile import Profile
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster.simulation import plan_answer, plan_rows
from berthmaster.simulation.change_set import (
    ChangedWorkloads,
    ChangeSet,
    PlanIndex,
    WorkloadKey,
    changed_workloads,
    is_companion,
    key_of,
)
from berthmaster.simulation.cluster_totals import ClusterTotals, pods_of
from berthmaster.simulation.dips import dips_of
from berthmaster.simulation.losses import copies, is_hit, is_left, loss_of
from berthmaster.simulation.results import PlannedWorkload, WorkloadResult
from berthmaster.simulation.scheduling_cycle import (
    Diagnosed,
    examine,
    followed,
    present_result,
    run,
    schedule_one,
    scheduler_of,
    with_companions,
)
from berthmaster.simulation.shared_capacity import SharedCapacity
from berthmaster.simulation.workload import (
    NO_COMPANIONS,
    NotScheduled,
    SimulatedWorkload,
    clusters_of,
    companions,
    follow,
)
from berthmaster.simulation.world import World

ReportProgress = Callable[[int, int], None]
ReportRow = Callable[[PlannedWorkload, Hosts], None]
_REPORTED: Final = 100
"""How many steps are between two reports of progress."""
_MAX_EXPLAINED: Final = 20
"""How many failures get the reasons of each filter. The others name the failure only."""


class PlanDecider:
    """Decides the workloads of one plan.

    Args:
        changed: the workloads after the change, before any scheduler looks at them.
        progress: called with how many steps are done, and of how many. A workload is decided, and later compared.
        everything: whether a scheduler looks at all workloads, and each failure is explained. The fleet of the index
            gets the changed clusters, so that the index serves no other plan.
        shared_capacity: whether each decision sees the replicas that the others add. None: only the decisions of
            Berthmaster's scheduler, which deducts the replicas that it adds.
    """

    def __init__(
        self,
        index: PlanIndex,
        changed: ChangedWorkloads,
        now: datetime,
        check: Callable[[], None] = lambda: None,
        progress: ReportProgress = lambda _done, _total: None,
        *,
        everything: bool = False,
        shared_capacity: bool | None = None,
    ) -> None:
        self._everything = everything
        self._shared_capacity = shared_capacity
        self._index = index
        self._changed = changed
        self._check, self._progress = check, progress
        self._now = now
        self._later = now + timedelta(seconds=1)
        world = changed.clusters_world
        self._after = world or index.world
        self.clusters, self.assumptions = self._after.clusters, self._after.assumptions
        self.hosts = hosts_of(self.clusters, self._after.lost, self._after.removed, index.world.clusters)
        before, after = index.peers(), index.peers()
        self._peers = before, after
        self._touched = _touched_clusters(index, changed)
        self._scheduler = index.scheduler
        if world is not None and not everything:
            self._scheduler = Scheduler(Fleet(world.clusters.values()), index.scheduler.profile)
        elif everything:  # the index serves no other plan, so that its fleet needs no copy
            for name in self._touched:
                self._scheduler.fleet.apply(self.clusters[name])
        # A cluster that the change removes has the price that it had.
        clusters = (self.clusters, index.world.clusters)
        self.costs = Costs(
            index.scheduler.profile.prices, lambda name: next((each[name] for each in clusters if name in each), None)
        )

    def stays(self, key: WorkloadKey, settled: WorkloadResult) -> bool:
        """Return whether a workload that needed no decision before the changes needs none after them.

        Its binding does not change, and it names no cluster that changes. Only such a cluster triggers a scheduling
        (``schedule_one``). A move under way, leaders and a missed retry depend on more.
        """
        workload, binding, waits = settled.workload, settled.workload.binding, settled.unscheduled
        if not workload.present or binding is None or settled.trigger is not Trigger.NONE or key in self._changed.after:
            return False
        if settled.companions is not NO_COMPANIONS or binding.spec.required_by or as_moved(binding) is not binding:
            return False
        if waits is not None and waits.reason is NotScheduled.NOT_RETRIED:
            return False
        return self._touched.isdisjoint(clusters_of(binding))

    def decided_of(self) -> dict[WorkloadKey, PlannedWorkload]:
        """Return the workloads that a scheduler may look at because of the change, in the order of the world."""
        keys, decided = self._index.sorted(self._keys()), dict[WorkloadKey, PlannedWorkload]()
        for key, planned in self.deciding(keys):
            decided[key] = planned
            if not len(decided) % _REPORTED:
                self._progress(len(decided), 2 * len(keys))
        return decided

    def concerned(self, decided: dict[WorkloadKey, PlannedWorkload]) -> Iterator[tuple[WorkloadKey, PlannedWorkload]]:
        """Yield those of the decided workloads that the change concerns, with where they would go without it.

        Each one is taken out of ``decided``, so that not all of them are in memory with both results.
        """
        total = len(decided)
        for done, key in enumerate(list(decided), total):
            if not done % _REPORTED:
                self._progress(done, 2 * total)
            planned = self._with_settled(key, decided.pop(key))
            if self.is_concerned(key, planned):
                yield key, planned

    def is_left(self, key: WorkloadKey, planned: PlannedWorkload) -> bool:
        """Return whether the change leaves a decided workload nowhere or short (``losses.is_left``)."""
        # Where it would go without the change is asked only of those that are short beside where they are now.
        if planned.after.failure is None and not is_left(planned, self.hosts):
            return False
        return is_left(self._with_settled(key, planned), self.hosts)

    def decided(
        self, workload: SimulatedWorkload, shared: SharedCapacity | None = None, diagnose: Diagnosed = "none"
    ) -> WorkloadResult:
        """Return where a workload goes after the change. ``shared`` deducts the replicas that the decision adds."""
        self._scheduler.peers = self._peers[1]
        return schedule_one(self._scheduler, workload, self._later, self._after, diagnose=diagnose, shared=shared)

    def dips(self, planned: PlannedWorkload) -> Mapping[str, int]:
        """Return where a workload may have fewer replicas for a while (``dips_of``)."""
        changed = self._changed.after.get(key_of(planned.before.workload.resource))
        if changed is None or planned.is_new or planned.is_deleted:
            return {}

        def decided(workload: SimulatedWorkload) -> Mapping[str, int]:
            self._check()
            self._scheduler.peers = self._index.peers()  # nothing stays of it
            return schedule_one(self._scheduler, workload, self._later, self._after, diagnose="none").assignment

        return dips_of(planned, changed, decided)

    def explained(self, key: WorkloadKey, decided: WorkloadResult) -> WorkloadResult:
        """Return the result for a workload after the change with an explanation, unless no scheduler looks at it.

        If nothing triggers its scheduling, the explanation is what a scheduler would find; the result stays.
        """
        workload = self._changed.after.get(key) or self._index.get(key)
        unscheduled = decided.unscheduled
        if workload is None or (unscheduled is not None and unscheduled.reason is not NotScheduled.NOT_RETRIED):
            return decided
        self._scheduler.peers = self._peers[1]
        return replace(decided, diagnosis=examine(self._scheduler, workload, self._later, self._after).diagnosis)

    def deciding(self, keys: Iterable[WorkloadKey]) -> Generator[tuple[WorkloadKey, PlannedWorkload]]:
        """Decide workloads one after the other. The keys are read one by one.

        The fleet is as it was before, once the iterator is exhausted or closed.
        """
        shared = SharedCapacity(self._scheduler.fleet)
        explained = 0
        try:
            for key in keys:
                self._check()
                explains = self._everything or explained < _MAX_EXPLAINED
                planned = self._planned(key, shared, "failures" if explains else "none")
                explained += planned.after.failure is not None
                yield key, planned
        finally:
            shared.restore()

    def _keys(self) -> Iterator[WorkloadKey]:
        yield from self._changed.after
        if self._changed.clusters_world is not None:
            yield from self._index.keys()
            return
        for edit in self._changed.edits:
            yield from self._index.held_by(edit.reference)

    def _planned(self, key: WorkloadKey, shared: SharedCapacity, diagnose: Diagnosed) -> PlannedWorkload:
        before_workload = self._index.get(key)
        after_workload = self._changed.after.get(key, before_workload)
        if after_workload is None:
            if before_workload is None:
                raise ValueError(f"{key} is neither in the world nor in the change")
            return PlannedWorkload(self._present(before_workload), _absent(before_workload), None, is_deleted=True)
        before = _absent(after_workload) if before_workload is None else self._present(before_workload)
        has_event = self._has_event(before_workload, after_workload)
        if has_event:
            deducts = _deducts(after_workload) if self._shared_capacity is None else self._shared_capacity
            after = self.decided(after_workload, shared if deducts else None, diagnose)
        else:
            after = self._present(after_workload)
        return PlannedWorkload(before, after, None, is_new=before_workload is None, has_event=has_event)

    def _with_settled(self, key: WorkloadKey, planned: PlannedWorkload) -> PlannedWorkload:
        """Add where a workload would go without the change, if the change makes it move or fail."""
        workload = self._index.get(key)
        if workload is None or planned.is_deleted or not (planned.moves or planned.after.failure is not None):
            return planned
        return replace(planned, settled=self._settled(workload))

    def _has_event(self, before: SimulatedWorkload | None, after: SimulatedWorkload) -> bool:
        """Return whether a scheduler looks at a workload: its binding changes, or the clusters do."""
        if self._everything or self._changed.clusters_world is not None or before is None:
            return True
        if after.binding is before.binding:
            return False
        if not before.present:
            return True
        then, now = (each.binding and each.binding.spec for each in (before, after))
        return before.held_by != after.held_by or then != now

    def _settled(self, workload: SimulatedWorkload) -> WorkloadResult:
        scheduler = self._index.scheduler
        scheduler.peers = self._peers[0]
        return schedule_one(scheduler, workload, self._now, self._index.world, diagnose="none")

    def _present(self, workload: SimulatedWorkload) -> WorkloadResult:
        return present_result(workload, self._index.world.schedulers)

    def is_concerned(self, key: WorkloadKey, planned: PlannedWorkload) -> bool:
        """Return whether the change concerns a workload. A change of clusters makes a scheduler look at all."""
        if self._changed.clusters_world is None or key in self._changed.after:
            return True
        if planned.moves or planned.after.failure is not None:
            settled = planned.settled
            if settled is None or not planned.is_due or (settled.failure is None) != (planned.after.failure is None):
                return True
        named = [*planned.before.assignment, *copies(planned.before), *planned.after.assignment]
        if not self._touched.isdisjoint(named):
            return True
        return any(planned.holder_before == edit.reference for edit in self._changed.edits)


def has_companions(index: PlanIndex, decided: Mapping[WorkloadKey, PlannedWorkload]) -> bool:
    """Return whether one of the workloads leads dependencies or follows others, before or after the change."""
    after = (each.after.workload for each in decided.values() if not each.is_deleted)
    workloads = chain(map(index.get, decided), after)
    return any(each is not None and is_companion(each) for each in workloads)


def with_followers(
    index: PlanIndex, decider: PlanDecider, concerned: dict[WorkloadKey, PlannedWorkload]
) -> tuple[list[PlannedWorkload], list[PlannedWorkload]]:
    """Return the concerned workloads as dependencies follow them, and the dependencies that only follow."""
    if not has_companions(index, concerned):
        return list(concerned.values()), []
    schedulers = index.world.schedulers
    known = {key_of(each.resource): present_result(each, schedulers).workload for each in index.world.workloads}
    known = {**{key_of(each.resource): each for each in _unclaimed_dependencies(index, concerned.values())}, **known}
    before = _followed(known)
    after = _followed(_workloads_after(known, concerned))
    names = companions(list(after.values()))
    result, followers = dict(concerned), []
    for position, (key, workload) in enumerate(after.items()):
        known_before = before.get(key)
        if known_before is not None and _required_by(known_before) == _required_by(workload):
            continue
        if known_before is None and not _required_by(workload):
            continue
        decided = _decided_follower(decider, workload, concerned.get(key))
        decided = replace(decided, companions=names.get(position, decided.companions))
        if key in concerned:
            result[key] = replace(concerned[key], after=decided)
        else:
            stored = index.get(key)
            present = present_result(stored, index.world.schedulers) if stored is not None else _absent(workload)
            settled = WorkloadResult(known_before, Trigger.NONE) if known_before is not None else None
            followers.append(PlannedWorkload(present, decided, settled, is_new=known_before is None))
    return list(result.values()), followers


def _decided_follower(
    decider: PlanDecider, workload: SimulatedWorkload, concerned: PlannedWorkload | None
) -> WorkloadResult:
    """Return the result for a dependency. One with a placement is scheduled, unless that just happened."""
    if concerned is not None and not concerned.is_deleted and concerned.has_event:
        return concerned.after.following(workload)
    if workload.binding is not None and workload.binding.spec.placement is not None:
        return decider.decided(workload)
    return WorkloadResult(workload, Trigger.NONE)


def _unclaimed_dependencies(index: PlanIndex, concerned: Iterable[PlannedWorkload]) -> Iterator[SimulatedWorkload]:
    """Yield the dependencies of the concerned workloads that the world may leave out."""
    for planned in concerned:
        workload = planned.after.workload
        if not planned.is_deleted and workload.binding is not None and workload.binding.spec.propagate_deps:
            for dependency in workload.dependencies or ():
                yield from index.world.unclaimed(dependency)


def _workloads_after(
    known: Mapping[WorkloadKey, SimulatedWorkload], concerned: dict[WorkloadKey, PlannedWorkload]
) -> dict[WorkloadKey, SimulatedWorkload]:
    found, gone = dict(known), set()
    for key, planned in concerned.items():
        if not planned.is_deleted:
            found[key] = planned.after.workload
        elif (binding := found.pop(key).binding) is not None:
            gone.add(binding.metadata.key)
    return {key: _without_leaders(each, gone) for key, each in found.items()} if gone else found


def _without_leaders(workload: SimulatedWorkload, gone: set[tuple[str, str]]) -> SimulatedWorkload:
    """Return a dependency that does not follow the workloads that are deleted, by namespace and name of a binding."""
    binding = workload.binding
    if binding is None or not binding.spec.required_by:
        return workload
    kept = tuple(each for each in binding.spec.required_by if (each.namespace, each.name) not in gone)
    return replace(workload, binding=with_spec(binding, required_by=kept))


def _followed(workloads: dict[WorkloadKey, SimulatedWorkload]) -> dict[WorkloadKey, SimulatedWorkload]:
    return dict(zip(workloads, follow(list(workloads.values())), strict=True))


def _absent(workload: SimulatedWorkload) -> WorkloadResult:
    return WorkloadResult(replace(workload, binding=None, present=False), Trigger.NONE)


def _deducts(workload: SimulatedWorkload) -> bool:
    return workload.binding is not None and workload.binding.scheduler != DEFAULT_SCHEDULER


def _required_by(workload: SimulatedWorkload) -> object:
    return workload.binding.spec.required_by if workload.binding is not None else ()


def _touched_clusters(index: PlanIndex, changed: ChangedWorkloads) -> frozenset[str]:
    """Return the names of the clusters that the change adds, changes or removes."""
    if changed.clusters_world is None:
        return frozenset()
    before, after = index.world.clusters, changed.clusters_world.clusters
    return frozenset(name for name in {**before, **after} if before.get(name) is not after.get(name))


_FORMAT: Final = 1
"""Raised when the definition changes, so that ids of different definitions differ."""
_DIGITS: Final = 16


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
    seen: ReportRow | None = None,
) -> plan_answer.Plan:
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
        seen: called with each workload before and after the changes, also with those that they do not concern.

    Raises:
        InputError: a deleted cluster does not exist, or the fleet is full.
    """
    profile = index.scheduler.profile
    if not changes.changes_policies_only:
        done, total = 0, 3 * len(index)

        def step() -> None:
            nonlocal done
            done += 1
            check()
            if not done % _REPORTED:
                progress(min(done, total), total)

        found = simulated(index.world, changes, profile, now, step, shared_capacity=shared_capacity)
        if seen is not None:
            for each in found.rows.values():
                seen(each, found.hosts)
        return plan_of_simulation(
            index, changes, found, gaps=gaps, reader=reader, observed=observed, lists_all=lists_all
        )
    if not observed and index.world.workloads and not index.world.has_bindings:
        index = PlanIndex(first_scheduled(index.world, profile, now), profile)
    changed = changed_workloads(index, changes, now, check)
    decider = PlanDecider(index, changed, now, check, progress)
    decided = decider.decided_of()
    return plan_of(index, changes, changed, decider, decided, gaps=gaps, reader=reader, observed=observed, seen=seen)


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
    scheduler, later = scheduler_of(world, profile), now + timedelta(seconds=1)
    # Beside bindings and changes, no row is about the scheduling that is due.
    diagnose: Diagnosed = "none" if world.has_bindings and changes.edits else "failures"
    base, settled = run(
        world, profile, now, diagnose=diagnose, shared_capacity=shared_capacity, scheduler=scheduler, check=check
    )
    index = PlanIndex(base, profile, scheduler)
    changed = changed_workloads(index, changes, later)
    decider = PlanDecider(index, changed, later, check, everything=True, shared_capacity=shared_capacity)
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
    for (key, stays), result, now_at, due in zip_longest(staying.items(), after, before, settled):
        if stays is not None:
            rows[key] = PlannedWorkload(now_at, result, due, has_event=False)
        elif due is None:
            rows[key] = replace(decided[key], after=result)
        else:
            rows[key] = replace(decided[key], before=now_at, after=result, settled=due)
    clusters = decider.clusters
    if shared_capacity:  # what the first run deducts is no status
        clusters = {name: world.clusters.get(name, each) for name, each in clusters.items()}
    return Simulation(rows, changed, decider, clusters)


def explained_after(
    world: World, workload: SimulatedWorkload, changes: ChangeSet, profile: Profile, now: datetime
) -> tuple[PlannedWorkload, Hosts]:
    """Return one workload of a world before and after changes, the latter with an explanation (``simulated``)."""
    found, key = simulated(world, changes, profile, now), key_of(workload.resource)
    planned = found.rows[key]
    return replace(planned, after=found.decider.explained(key, planned.after)), found.hosts


def plan_of_simulation(
    index: PlanIndex,
    changes: ChangeSet,
    found: Simulation,
    *,
    gaps: Sequence[Gap] = (),
    reader: Reader = ANY_READER,
    observed: bool = True,
    lists_all: bool = False,
) -> plan_answer.Plan:
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
            present.update(pods_of(each.before.workload.binding, each.before.assignment))
    totals = ClusterTotals(found.clusters, present, observed=observed)
    for each in () if index.world.has_bindings else found.rows.values():
        if not each.moves:  # the others are added with their rows
            totals.add(each)
    rows = _Rows(index, found.changed, decider, reader, totals, lists_staying=True)
    concerned = {key: each for key, each in found.rows.items() if decider.is_concerned(key, each)}
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
    decider: PlanDecider,
    decided: dict[WorkloadKey, PlannedWorkload],
    *,
    gaps: Sequence[Gap] = (),
    reader: Reader = ANY_READER,
    lists_staying: bool = True,
    observed: bool = True,
    seen: ReportRow | None = None,
) -> plan_answer.Plan:
    """Return the plan of decided workloads.

    Args:
        decided: the workloads that a scheduler may look at because of the change. It is emptied.
        lists_staying: whether the plan lists the workloads that stay. Its id does not depend on them.
        seen: called with each workload, as by ``plan``.
    """
    totals = ClusterTotals(decider.clusters, index.pods, observed=observed)
    rows = _Rows(index, changed, decider, reader, totals, lists_staying=lists_staying, seen=seen)
    if has_companions(index, decided):
        concerned, followers = with_followers(index, decider, dict(decider.concerned(decided)))
        rows.add(concerned)
        for each in followers:
            rows.add_row(each)
    else:
        rows.add(planned for _, planned in decider.concerned(decided))
    for workload in () if observed and seen is None else index.world.workloads:
        result = present_result(workload, index.world.schedulers)
        unchanged = PlannedWorkload(result, result, None, has_event=False)
        if not observed and not rows.moves(str(workload)):  # the others are added with their rows
            totals.add(unchanged)
        rows.show_other(unchanged)
    return rows.plan(changes, gaps)


_Place = tuple[bool, bool]
"""Where a workload stands among the others: those first that the change leaves, and of them those without a cluster."""


class _Rows:
    """Builds a plan of one workload after the other, and keeps nothing but rows of them."""

    def __init__(
        self,
        index: PlanIndex,
        changed: ChangedWorkloads,
        decider: PlanDecider,
        reader: Reader,
        totals: ClusterTotals,
        *,
        lists_staying: bool,
        seen: ReportRow | None = None,
    ) -> None:
        self._index, self._changed, self._decider, self._reader = index, changed, decider, reader
        self._seen, self._shown = seen, set[str]()
        self._concerned = self._new = 0
        self._effects = plan_rows.PolicyEffects(index, changed.edits)
        self._staying: list[plan_answer.StayingWorkload] | None = [] if lists_staying else None
        self._moves: defaultdict[_Place, list[plan_answer.PlannedMove]] = defaultdict(list)
        self._unplaced: defaultdict[_Place, list[plan_answer.UnplacedWorkload]] = defaultdict(list)
        self._hit: list[PlannedWorkload] = []
        self._unknown: list[Gap] = []
        self._costs: list[Cost] = []
        self._totals = totals
        self._moving: set[str] = set()
        self._changing: set[str] = set()
        """The clusters whose replicas change, or that get copies."""

    def add(self, concerned: Iterable[PlannedWorkload]) -> None:
        """Add workloads that the change concerns, in the order of the world."""
        for found in concerned:
            each = replace(found, dips=dips) if (dips := self._decider.dips(found)) else found
            self._concerned += 1
            self._new += each.is_new
            self._effects.add(each)
            if self._staying is not None and not each.moves and not each.is_deleted:
                self._staying.append(plan_rows.staying_of(each))
            self.add_row(each)

    def add_unconcerned(self, planned: PlannedWorkload) -> None:
        """List a workload that the change does not concern among those that stay, if these are listed."""
        if self._staying is not None:
            self._staying.append(plan_rows.unconcerned_of(planned))

    def add_row(self, planned: PlannedWorkload) -> None:
        """Add a concerned workload, a dependency that only follows one, or a workload that has no place in any case."""
        planned, hosts = plan_rows.seen_by(planned, self._reader), self._decider.hosts
        self._show(planned)
        left = is_left(planned, hosts)
        place = not left, bool(planned.after.assignment)
        if planned.moves:
            self._moving.add(planned.resource)
            self._moves[place].append(plan_rows.move_of(planned, hosts))
            self._totals.add(planned)
            self._costs.append(plan_rows.cost_of(planned, self._decider.costs))
            self._changing.update(planned.moves)
            if not planned.is_deleted and planned.after.workload.dependencies is None:
                self._unknown.append(Gap(GapKind.DEPENDENCIES, (planned.resource,)))
        if planned.after.workload.components_are_old and not planned.is_deleted:
            self._unknown.append(Gap(GapKind.COMPONENTS, (planned.resource,)))
        if left or planned.after.has_no_place:
            self._unplaced[place].append(plan_rows.unplaced_of(planned, hosts))
        if hosts.stopping and is_hit(planned, hosts):
            self._hit.append(planned)

    def show_other(self, planned: PlannedWorkload) -> None:
        """Show a workload to the caller, unless it has a row."""
        if planned.resource not in self._shown:
            self._show(planned)

    def _show(self, planned: PlannedWorkload) -> None:
        if self._seen is not None:
            self._shown.add(planned.resource)
            self._seen(planned, self._decider.hosts)

    def moves(self, resource: str) -> bool:
        """Return whether a workload that was added moves."""
        return resource in self._moving

    def plan(self, changes: ChangeSet, gaps: Sequence[Gap]) -> plan_answer.Plan:
        changed, decider, hosts = self._changed, self._decider, self._decider.hosts
        unplaced = [
            row for place in sorted(self._unplaced) for row in sorted(self._unplaced[place], key=attrgetter("resource"))
        ]
        moves = [row for place in sorted(self._moves) for row in self._moves[place]]
        moves.sort(key=lambda each: (-each.replicas, -len(each.deleted), each.resource))
        totals = self._totals.results(self._changing)
        self._hit.sort(key=lambda each: (not is_left(each, hosts), bool(each.after.assignment), each.resource))
        all_gaps = sorted(texts([*gaps, *changed.gaps, *self._unknown], self._reader))
        blocked = changed.blocked.values() if self._staying is not None else ()
        answer = plan_answer.Plan(
            id="",
            summary=plan_rows.summary_of(
                len(self._index) + self._new,
                [(each.replicas, each.due) for each in moves],
                [(each.resource, each.nowhere, each.by_change, each.keeps) for each in unplaced],
                change_of(self._costs),
            ),
            concerned=self._concerned,
            deleted_copies=sum(len(each.deleted) for each in moves),
            complete=not all_gaps,
            gaps=all_gaps,
            policies=self._effects.results(),
            unplaced=unplaced,
            moves=moves,
            overcommitted=[each.cluster for each in totals if each.overcommitted],
            clusters=totals,
            staying=[
                *(self._staying or ()),
                *(
                    plan_answer.StayingWorkload(str(workload), str(policy), plan_answer.StayReason.HELD, reason)
                    for workload, policy, reason in blocked
                ),
            ],
            overrides=list(changes.overrides),
            assumptions=decider.assumptions,
            preemption_matters=changed.preemption_matters,
            evicting_taints=_gains_no_execute(self._index.world.clusters, decider),
            loss=loss_of(self._hit, hosts) if hosts.stopping else None,
        )
        return replace(answer, id=plan_id(changes, answer))


def _gains_no_execute(before: Mapping[str, Cluster], decider: PlanDecider) -> bool:
    return any(
        taint.effect == NO_EXECUTE and (name not in before or taint not in before[name].spec.taints)
        for name, cluster in decider.clusters.items()
        if before.get(name) is not cluster and name not in decider.hosts.lost
        for taint in cluster.spec.taints
    )


def first_scheduled(world: World, profile: Profile, now: datetime) -> World:
    """Return a world of manifests without bindings after a first scheduling, as if a control plane ran it."""
    scheduled, _ = run(world, profile, now)
    workloads = [
        replace(each, present=each.binding is not None and each.unscheduled is None) for each in scheduled.workloads
    ]
    return replace(scheduled, workloads=workloads)


def plan_id(changes: ChangeSet, answer: plan_answer.Plan) -> str:
    """Return the id of a plan: a hash of the change and of its effect.

    The change enters with everything that affects decisions, but without the rest of its metadata. The effect is: which
    policy holds what before and after, from where to where each workload moves, which copies are deleted, which
    workloads cannot be scheduled, and which clusters are overcommitted. Amounts, messages, the rest of the world, and
    workloads that do not move do not enter. ``docs/plan.md`` has the table. ``answer``: the plan. Its own id does not
    count.
    """
    content = [_FORMAT, changes.digest_input(), _effect(answer)]
    encoded = msgspec.json.encode(content, order="sorted")
    return hashlib.sha256(encoded).hexdigest()[:_DIGITS]


def _effect(answer: plan_answer.Plan) -> dict[str, Any]:
    moves = [
        [each.resource, each.policy_before, each.policy, each.group_before, each.group, each.before, each.after,
         each.deleted, each.preserved, each.evicting, each.removed]
        for each in answer.moves
    ]  # fmt: skip
    policies = [
        [each.policy, each.action, each.gains, each.takes, each.loses, each.unclaimed] for each in answer.policies
    ]
    return {
        "moves": sorted(moves, key=lambda each: str(each[0])),
        "policies": sorted(policies, key=lambda each: str(each[0])),
        "unplaced": sorted([each.resource, each.nowhere, each.by_change] for each in answer.unplaced),
        "overcommitted": sorted([each.cluster, each.overcommitted] for each in answer.clusters if each.overcommitted),
        "complete": answer.complete,
    }
