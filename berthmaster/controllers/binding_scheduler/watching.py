"""Which changes make which bindings be looked at (karmada ``event_handler.go``, and what it lacks)."""

import threading
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from berthmaster.controllers.binding_scheduler.bindings import Bindings
from berthmaster.controllers.binding_scheduler.desk import Desk
from berthmaster.controllers.binding_scheduler.eligibility import eligible, named
from berthmaster.controllers.binding_scheduler.plan import effective
from berthmaster.controllers.binding_scheduler.queue import SchedulingQueue
from berthmaster.kube.requests import Key
from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster, ResourceSummary
from berthmaster.model.placement import AffinityTerm, ClusterAffinity
from berthmaster.scheduling.resources import amount_of

_HEALTHY: Final = "Healthy"
_AFFINITIES_KEPT: Final = 4096


class IncomingMeter(Protocol):
    """Counts why bindings come into the queue."""

    def incoming(self, event: str) -> None:
        """One came, by the event's name in karmada-scheduler's metrics."""


class Watching:
    """Hears of bindings and clusters, and fills the queue."""

    def __init__(
        self, bindings: Bindings, desk: Desk, queue: SchedulingQueue, meter: IncomingMeter, scheduler_name: str
    ) -> None:
        self._bindings = bindings
        self._desk = desk
        self._queue = queue
        self._meter = meter
        self._scheduler_name = scheduler_name
        self._terms: dict[int, tuple[ClusterAffinity, AffinityTerm]] = {}
        self._gained: set[str] = set()
        self._gaining = threading.Lock()

    def binding_changed(self, key: Key, before: Binding | None, after: Binding | None) -> None:
        """See ``Handler``."""
        if before is not None and after is not None and before.metadata.uid != after.metadata.uid:
            # It was deleted and made anew between two looks.
            self.binding_changed(key, before, None)
            before = None
        if after is None:
            if before is not None:
                self._desk.gone(key, before)
            self._queue.add(key)  # to clear up what waits to be told of it
            return
        own = self._bindings.is_own(key, after)
        if not own:  # else all of this was counted when it was decided
            latest = self._bindings.get(key) or after
            self._desk.placed(latest)
            if before is not None:
                self._desk.moved(key, before, latest)
            if named(after, self._scheduler_name):
                self._desk.assigned(key, before, latest)
        if before is not None:
            self._desk.arrived(key, _became_healthy(before, after))
        if not eligible(after, self._scheduler_name):
            if before is not None and eligible(before, self._scheduler_name):
                self._queue.add(key)  # what was done for it may still have to be told
        elif before is None or not eligible(before, self._scheduler_name):
            self._push(key, "BindingAdd")
        elif before.metadata.generation != after.metadata.generation and not own:
            self._push(key, "BindingUpdate")

    def cluster_changed(self, _key: Key, before: Cluster | None, after: Cluster | None) -> None:
        """See ``Handler``."""
        if after is None:
            if before is not None:
                self._desk.cluster_gone(before.name)
                self._push_assigned(before.name)
            return
        self._desk.cluster_changed(after)
        if before is None or gains(before, after):
            with self._gaining:
                self._gained.add(after.name)
        if before is not None and _moves(before, after):
            self._push_affected((before, after))
        if before is not None and before.ready and not after.ready:
            self._push_assigned(after.name)

    def wake(self) -> None:
        """Have those that fit nowhere tried again, if a cluster they could go to has gained something."""
        with self._gaining:
            gained, self._gained = self._gained, set()
        gained |= self._desk.freed()
        if gained:
            self._queue.wake(list(self._concerned(self._queue.asleep(), gained)))
        self._queue.wake_old()

    def _concerned(self, keys: Iterable[Key], clusters: set[str]) -> Iterator[Key]:
        for key in keys:
            binding = self._bindings.get(key)
            placement = binding.spec.placement if binding is not None else None
            if placement is not None and self._desk.could_go_to(placement, clusters):
                yield key

    def _push(self, key: Key, event: str) -> None:
        self._meter.incoming(event)
        self._queue.add(key)

    def _push_affected(self, versions: Iterable[Cluster]) -> None:
        """Push every binding whose affinity means one of a cluster's two versions."""
        for key, binding in self._bindings.items():
            if eligible(binding, self._scheduler_name) and any(self._affects(binding, each) for each in versions):
                self._push(key, "ClusterChanged")

    def _push_assigned(self, cluster: str) -> None:
        for key, binding in self._bindings.items():
            if named(binding, self._scheduler_name) and any(each.name == cluster for each in binding.spec.clusters):
                self._push(key, "ClusterChanged")

    def _affects(self, binding: Binding, cluster: Cluster) -> bool:
        """Whether a change of a cluster may move a binding: overflow plays no part (``enqueueAffectedBindings``)."""
        placement = binding.spec.placement
        if placement is None:
            return False
        affinity: ClusterAffinity | None = placement.cluster_affinity
        if placement.cluster_affinities is not None:
            if binding.status.scheduler_observed_generation != binding.metadata.generation:
                return True
            observed = effective(binding).status.scheduler_observing_affinity_name
            terms = placement.cluster_affinities
            affinity = next((each for each in terms if each.affinity_name == observed), terms[0] if terms else None)
        return affinity is None or self._term(affinity).matches(cluster)

    def _term(self, affinity: ClusterAffinity) -> AffinityTerm:
        known = self._terms.get(id(affinity))
        if known is None:
            if len(self._terms) >= _AFFINITIES_KEPT:
                self._terms.clear()
            # The affinity is kept with its term: as long as it is, no other has its identity.
            known = self._terms[id(affinity)] = affinity, AffinityTerm(affinity)
        return known[1]


def gains(before: Cluster, after: Cluster) -> bool:
    """Whether a cluster may hold now what it could not hold before."""
    if before.spec != after.spec or before.metadata.labels != after.metadata.labels:
        return True
    if before.status.api_enablements != after.status.api_enablements or (after.ready and not before.ready):
        return True
    old, new = before.status.resource_summary, after.status.resource_summary
    if new is None or old == new:
        return False
    if old is None or old.allocatable_modelings != new.allocatable_modelings:
        return True
    return any(_free(new, name) > _free(old, name) for name in new.allocatable)


def _free(summary: ResourceSummary, name: str) -> int:
    """What is left of a resource, in its column's unit; negative where more is given away than there is."""
    amounts = (summary.allocatable, summary.allocated, summary.allocating)
    have, *used = (amount_of(name, part[name]) if name in part else 0 for part in amounts)
    return have - sum(used)


def _moves(before: Cluster, after: Cluster) -> bool:
    """Whether a change of a cluster is one that Karmada looks at its bindings for."""
    return (
        (after.deleting and not before.deleting)
        or before.metadata.labels != after.metadata.labels
        or before.metadata.generation != after.metadata.generation
    )


def _became_healthy(before: Binding, after: Binding) -> list[str]:
    """The clusters that report the workload healthy, and did not report just the same before."""
    known = {each.cluster_name: each for each in before.status.aggregated_status}
    return [
        each.cluster_name
        for each in after.status.aggregated_status
        if each.health == _HEALTHY and known.get(each.cluster_name) != each
    ]
