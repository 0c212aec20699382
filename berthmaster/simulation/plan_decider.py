"""Decide where workloads go after changes: what is due happens first, and the changes one second later.

Only workloads whose binding changes are scheduled again, as in a control plane: nothing else makes a scheduler look at
them. A change of clusters concerns all workloads.
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from berthmaster.deciding.running import hosts_of
from berthmaster.model.move import intact_move
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.scheduling.peers import Peers
from berthmaster.scheduling.prices import Costs
from berthmaster.simulation.change_set import ChangedWorkloads, PlanIndex, WorkloadKey, key_of
from berthmaster.simulation.dips import dips_of
from berthmaster.simulation.not_scheduled import why_not_scheduled
from berthmaster.simulation.results import PlannedWorkload, WorkloadResult
from berthmaster.simulation.scheduling_cycle import Diagnosed, examine, present_result, schedule_one
from berthmaster.simulation.shared_capacity import SharedCapacity
from berthmaster.simulation.workload import NO_COMPANIONS, NotScheduled, SimulatedWorkload, clusters_of
from berthmaster.simulation.world import peers_of

STEP: Final = timedelta(seconds=1)
"""How long after what is due the changes happen, and how long after that the schedulers look at them."""
_DECIDED_AT_ONCE: Final = 10
"""How many workloads are looked at between two checks of the time. Nothing is due for most, which takes little time."""
_MAX_EXPLAINED: Final = 20
"""How many failures get the reasons of each filter. The others name the failure only."""


class DueWorkloads:
    """Where workloads are once what is due has happened: each is decided when it is asked for.

    An index makes the question cheap. ``planner.simulated`` decides all workloads, with the same answer.

    Args:
        index: the world as it is now.
        known: the results of all workloads, if these have been decided already.
        check: called now and then; an exception that it raises ends the plan.
    """

    def __init__(
        self,
        index: PlanIndex,
        now: datetime,
        known: Mapping[WorkloadKey, WorkloadResult] | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._index, self._now, self._check = index, now, check
        self._results: dict[WorkloadKey, WorkloadResult] = dict(known or {})
        self._peers = Peers()
        if known is None and index.world.workload_affinity:  # where one goes depends on where the others are
            self._peers = peers_of(index.world)
            self.decide(index.workloads)

    def decide(self, keys: Iterable[WorkloadKey]) -> None:
        """Decide workloads now, before the decisions of a change deduct replicas from the clusters."""
        for number, key in enumerate(keys):
            if not number % _DECIDED_AT_ONCE:
                self._check()
            self.result(key)

    def peers(self) -> Peers:
        """Return where the workloads of affinity groups are, for decisions that may change it."""
        world = self._index.world
        if not world.workload_affinity:
            return Peers()
        workloads = [found for key in self._index.workloads if (found := self.workload(key)) is not None]
        return peers_of(replace(world, workloads=workloads))

    def result(self, key: WorkloadKey) -> WorkloadResult | None:
        """Return the result for a workload; None if the world does not have it."""
        found, workload = self._results.get(key), self._index.get(key)
        if found is None and workload is not None:
            index = self._index
            index.scheduler.peers = self._peers
            found = schedule_one(index.scheduler, workload, self._now, index.world, diagnose="none")
            self._results[key] = found
        return found

    def workload(self, key: WorkloadKey) -> SimulatedWorkload | None:
        """Return a workload as changes find it; None if the world does not have it."""
        found = self.result(key)
        return found.started if found is not None else None


class PlanDecider:
    """Decides the workloads of one plan.

    If clusters change, the fleet of the index gets the changed ones, so that the index serves no other plan.

    Args:
        changed: the workloads after the changes, before any scheduler looks at them.
        due: where the workloads are once what is due has happened.
        now: the time of the changes.
        explains_all: whether each failure is explained, or only the first ones.
        shared_capacity: whether each decision sees the replicas that those before it add. Otherwise only the decisions
            of schedulers that deduct them do.
    """

    def __init__(
        self,
        index: PlanIndex,
        changed: ChangedWorkloads,
        due: DueWorkloads,
        now: datetime,
        check: Callable[[], None] = lambda: None,
        *,
        explains_all: bool = False,
        shared_capacity: bool = False,
    ) -> None:
        self._index, self._changed, self._due = index, changed, due
        self._explains_all, self._shared_capacity = explains_all, shared_capacity
        self._check = check
        self._later = now + STEP
        self._after = changed.clusters_world or index.world
        self.clusters, self.assumptions = self._after.clusters, self._after.assumptions
        self.hosts = hosts_of(self.clusters, self._after.lost, self._after.removed, index.world.clusters)
        self._peers = due.peers()
        self._scheduler = index.scheduler
        self._touched = _touched_clusters(index, changed)
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
        if settled.companions is not NO_COMPANIONS or binding.spec.required_by or intact_move(binding) is not None:
            return False
        if waits is not None and waits.reason is NotScheduled.NOT_RETRIED:
            return False
        return self._touched.isdisjoint(clusters_of(binding))

    def concerns(self, key: WorkloadKey, planned: PlannedWorkload) -> bool:
        """Return whether the changes concern a workload. A change of clusters makes a scheduler look at all."""
        if key in self._changed.after:
            return True
        if self._changed.clusters_world is not None:
            if planned.moves or planned.caused or planned.after.failure is not None:
                settled = planned.settled
                if (
                    settled is None
                    or not planned.is_due
                    or (settled.failure is None) != (planned.after.failure is None)
                ):
                    return True
            binding = planned.before.workload.binding
            evicting = clusters_of(binding) if binding is not None else ()
            if not self._touched.isdisjoint([*planned.before.assignment, *evicting, *planned.after.assignment]):
                return True
        return any(planned.holder_before == edit.reference for edit in self._changed.edits)

    def decided(
        self, workload: SimulatedWorkload, shared: SharedCapacity | None = None, diagnose: Diagnosed = "none"
    ) -> WorkloadResult:
        """Return where a workload goes after the change. ``shared`` deducts the replicas that decisions add."""
        self._scheduler.peers = self._peers
        return schedule_one(self._scheduler, workload, self._later, self._after, diagnose=diagnose, shared=shared)

    def dips(self, planned: PlannedWorkload) -> Mapping[str, int]:
        """Return where a workload may have fewer replicas for a while (``dips_of``)."""
        changed = self._changed.after.get(key_of(planned.before.workload.resource))
        if changed is None or planned.is_new or planned.is_deleted:
            return {}

        def decided(workload: SimulatedWorkload) -> Mapping[str, int]:
            self._check()
            self._scheduler.peers = self._due.peers()  # nothing stays of it
            return schedule_one(self._scheduler, workload, self._later, self._after, diagnose="none").assignment

        return dips_of(planned, changed, decided)

    def explained(self, key: WorkloadKey, planned: PlannedWorkload) -> WorkloadResult:
        """Return the result for a workload after the changes with an explanation, unless no scheduler looks at it.

        What is due is explained if the changes let no scheduler look again. If nothing triggers its scheduling, the
        explanation is what a scheduler would find; the result stays.
        """
        decided, peers = planned.after, self._peers
        workload = self._changed.after.get(key) or self._due.workload(key)
        if not planned.has_event and decided.trigger is not Trigger.NONE:
            workload, peers = self._index.get(key), self._index.peers()
        unscheduled = decided.unscheduled
        if workload is None or (unscheduled is not None and unscheduled.reason is not NotScheduled.NOT_RETRIED):
            return decided
        self._scheduler.peers = peers
        return replace(decided, diagnosis=examine(self._scheduler, workload, self._later, self._after).diagnosis)

    def deciding(self, keys: Iterable[WorkloadKey]) -> Generator[tuple[WorkloadKey, PlannedWorkload]]:
        """Decide workloads one after the other. The keys are read one by one.

        The fleet is as it was before, once the iterator is exhausted or closed.
        """
        shared = SharedCapacity(self._scheduler.fleet, everywhere=self._shared_capacity)
        explained = 0
        try:
            for key in keys:
                self._check()
                explains = self._explains_all or explained < _MAX_EXPLAINED
                planned = self._planned(key, shared, "failures" if explains else "none")
                explained += planned.after.failure is not None
                yield key, planned
        finally:
            shared.restore()

    def _planned(self, key: WorkloadKey, shared: SharedCapacity, diagnose: Diagnosed) -> PlannedWorkload:
        present, settled = self._index.get(key), self._due.result(key)
        due = settled.started if settled is not None else None
        workload, schedulers = self._changed.after.get(key, due), self._index.world.schedulers
        if workload is None:
            if present is None:
                raise ValueError(f"{key} is neither in the world nor in the change")
            return PlannedWorkload(present_result(present, schedulers), absent(present), None, is_deleted=True)
        before = absent(workload) if present is None else present_result(present, schedulers)
        if settled is not None and due is not None and not self._has_event(due, workload):
            return PlannedWorkload(before, self._unlooked(settled, workload), settled, has_event=False)
        after = self.decided(workload, shared, diagnose)
        return PlannedWorkload(before, after, settled, is_new=present is None)

    def _unlooked(self, settled: WorkloadResult, workload: SimulatedWorkload) -> WorkloadResult:
        """Return the result for a workload that no scheduler looks at because of the changes."""
        if workload is settled.started:
            return settled
        if settled.begun is not None:
            workload = replace(workload, binding=settled.workload.binding)
        unscheduled = why_not_scheduled(workload, self._index.world.schedulers)
        return replace(settled, workload=workload, unscheduled=unscheduled or settled.unscheduled)

    def _has_event(self, before: SimulatedWorkload, after: SimulatedWorkload) -> bool:
        """Return whether a scheduler looks at a workload: its binding changes, or the clusters do."""
        if self._changed.clusters_world is not None:
            return True
        if after.binding is before.binding:
            return False
        if not before.present:
            return True
        then, now = (each.binding and each.binding.spec for each in (before, after))
        return before.held_by != after.held_by or then != now


def absent(workload: SimulatedWorkload) -> WorkloadResult:
    """Return the result for a workload that does not exist."""
    return WorkloadResult(replace(workload, binding=None, present=False), Trigger.NONE)


def _touched_clusters(index: PlanIndex, changed: ChangedWorkloads) -> frozenset[str]:
    """Return the names of the clusters that the change adds, changes or removes."""
    if changed.clusters_world is None:
        return frozenset()
    before, after = index.world.clusters, changed.clusters_world.clusters
    return frozenset(name for name in {**before, **after} if before.get(name) is not after.get(name))
