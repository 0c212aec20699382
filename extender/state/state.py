"""The cache of the fleet and its bindings that all requests share, and its lock.

A decision takes some tens of microseconds and a scheduler is not safe for several threads, so one lock around each
decision is cheap: Python runs one thread at a time anyway. A long task, such as a simulation, takes the immutable world
and works on it without the lock.
"""

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any, Final

from msgspec import structs
from msgspec.structs import replace

from berthmaster.deciding.config import DEFAULT_MOVES
from berthmaster.deciding.rules import OWN
from berthmaster.deciding.storm_brake import DEFAULT_BRAKE
from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.gaps import MOST_NAMED, Gap, GapKind, texts
from berthmaster.model.policy import Policy
from berthmaster.model.readers import NO_NAMES, Reader
from berthmaster.native_api.wire import Staleness
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.profile import Profile
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster.simulation.overriding import overridden
from berthmaster.simulation.plan_answer import Switch, assumptions, evicting_policies
from berthmaster.simulation.workload import SimulatedWorkload
from berthmaster.simulation.world import World, peers_of
from extender.state.controllers_lease import DEFAULT_LEASE, LeaseReading, no_lease
from extender.state.copy_counts import CopyCounts, OverriddenWorkloads
from extender.state.events import AskForEvents
from extender.state.fingerprint import Fingerprint, text_of
from extender.state.placed_index import PlacedIndex
from extender.state.placed_workload import placed_workload
from extender.state.workloads import BindingKey, ObservedWorkloads, WatchedWorkload

NO_SOURCE: Final = (
    "the extender has no fleet: it runs without manifests (-f) and without --watch, and answers only requests that "
    "contain clusters"
)


class FleetCache:
    """The data behind the lock. The caller holds the lock.

    Attributes:
        workloads: the workloads of a source that has all objects. Another sequence after each change.
    """

    def __init__(self, profile: Profile) -> None:
        self.scheduler = Scheduler(Fleet(), profile)
        self._world: World | None = World({}, ())
        self.workloads: Sequence[SimulatedWorkload] = ()
        self.policies: Sequence[Policy] = ()
        self._by_binding: Mapping[BindingKey, SimulatedWorkload] = {}

    @property
    def fleet(self) -> Fleet:
        return self.scheduler.fleet

    @property
    def bindings(self) -> int:
        return len(self._by_binding)

    @property
    def world(self) -> World:
        if self._world is None:
            clusters = {each.name: each for each in self.fleet}
            self._world = World(clusters, self.workloads, self.policies)
        return self._world

    def workload(self, key: BindingKey) -> SimulatedWorkload | None:
        return self._by_binding.get(key)

    def replace(self, world: World) -> None:
        """Replace all data. Only clusters that differ are updated. Raises ``InputError`` if the fleet is full."""
        for name in self.fleet.row_of.keys() - world.clusters.keys():
            self.fleet.remove(name)
        for name, cluster in world.clusters.items():
            if self.fleet.get(name) != cluster:
                self.fleet.apply(cluster)
        self.scheduler.peers = peers_of(world)
        self._by_binding = {each.binding.metadata.key: each for each in world.workloads if each.binding is not None}
        self.workloads, self.policies, self._world = world.workloads, world.policies, world

    def apply_cluster(self, cluster: Cluster) -> None:
        self.fleet.apply(cluster)
        self._world = None

    def remove_cluster(self, name: str) -> None:
        self.fleet.remove(name)
        self._world = None

    def apply_binding(self, key: BindingKey, binding: Binding | None) -> None:
        """Record where the peers of workload affinity groups are. None removes the binding."""
        if binding is None:
            self.scheduler.peers.remove(*key)
        else:
            self.scheduler.peers.place(Request.of(binding), [target.name for target in binding.spec.clusters])

    def restore_peers(self, workload: SimulatedWorkload) -> None:
        """Record where a workload is now, after an examination that recorded where it would be."""
        if workload.binding is not None:
            self.apply_binding(workload.binding.metadata.key, workload.binding)

    def replace_policies(self, policies: Sequence[Policy]) -> None:
        self.policies = policies
        self._world = None


class State:
    """The cache, shared among threads.

    Attributes:
        watched: the kinds that a source watches; None if the source has all objects that it can have.
        observed: the workloads of a watched control plane; None if the cache has them, or they are not watched.
        has_source: whether a source updates the state. Without one there is never a fleet.
        stale_by_objects: whether it is stale because of the objects in the source, which users cause. The source itself
            can be reached.
        unread: returns the objects whose present state is not read.
        events: reads the events of a binding; None without a control plane.
        owner: the annotation of a template that names who owns the workload; empty for none.
        fingerprint: the fingerprint of what the source has. It changes after the objects that it stands for.
    """

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.watched: Collection[str] | None = None
        self.observed: ObservedWorkloads | None = None
        self.has_source = True
        self.file_gaps: Sequence[Gap] = ()
        self.fingerprint = Fingerprint()
        self.fingerprints: list[Callable[[], int]] = []
        self.unread: Callable[[], Sequence[Gap]] = lambda: ()
        self.lease: Callable[[], LeaseReading] = lambda: no_lease(DEFAULT_LEASE)
        self.events: AskForEvents | None = None
        self._lock = threading.Lock()
        self._cache = FleetCache(profile)
        self.staleness = Staleness(None, None, "")
        self.stale_by_objects = False
        self._overridden = OverriddenWorkloads()
        self._placing = threading.Lock()
        self._placed: tuple[Sequence[SimulatedWorkload], PlacedIndex] | None = None
        self.owner = ""
        self._evicting: tuple[Sequence[SimulatedWorkload], list[Binding]] = ((), [])

    @property
    def version(self) -> str:
        """The version of the state: another text after each change of an object, the same for the same objects.

        Read it before the data of an answer. A change in between then belongs to a later version.
        """
        return text_of(self.fingerprint.value, *(each() for each in self.fingerprints))

    def watches(self, kind: str) -> bool:
        """Return whether the objects of a kind are known."""
        return self.watched is None or kind in self.watched

    @property
    def own_scheduler(self) -> str:
        """The ``spec.schedulerName`` of the bindings that Berthmaster's controllers schedule, as their Lease says."""
        record = self.lease().record
        return (record.scheduler if record is not None else "") or OWN

    @property
    def bindings(self) -> int:
        return len(self.observed) if self.observed is not None else self._cache.bindings

    def gaps(self, reader: Reader) -> list[str]:
        """Return what is not known, one sentence each, for a reader."""
        known = self.observed.gaps() if self.observed is not None else self.file_gaps
        return list(dict.fromkeys((*texts(known, reader), *_few(texts(self.objects_left_out(), reader)))))

    def objects_left_out(self) -> list[Gap]:
        """Return the objects that are invalid, or too large to be read."""
        return [*(self.observed.invalid() if self.observed is not None else ()), *self.unread()]

    def world(self, check: Callable[[], None] = lambda: None, claimants: Sequence[Policy] = ()) -> World:
        """Return the clusters, policies and workloads as an immutable value, which needs no lock.

        ``check`` is called regularly while workloads are built. ``claimants`` are policies, with their defaults, that
        may select resources which no other policy does.
        """
        with self._lock:
            world = self._cache.world
        if self.observed is None:
            return world
        counts = self.copy_counts()
        workloads = self.observed.workloads(world.policies, check, claimants)
        return replace(
            world,
            workloads=self._overridden.of(workloads, counts),
            overrides=counts.overrides,
            workload_affinity=self.observed.workload_affinity,
            existing=self.observed.existing((*world.policies, *claimants)),
            taint_policies=self.observed.taint_policies(),
            unclaimed=partial(self.observed.unclaimed, world.policies),
        )

    def copy_counts(self) -> CopyCounts:
        """Return how many replicas copies have: what overrides set."""
        with self._lock:
            world = self._cache.world
        overrides = self.observed.overrides() if self.observed is not None else world.overrides
        return CopyCounts(overrides, world.clusters, self.metadata_of)

    def assuming(
        self, world: World, now: datetime, failover: Switch = Switch.AUTO, preemption: Switch = Switch.AUTO
    ) -> World:
        """Return a world with the switches that an answer assumes, as far as the Lease of the controllers says."""
        record = self.lease().record
        running = record.running(now) if record is not None else None
        braked = record is not None and bool(record.brake.reason)
        workloads, evicting = self._evicting
        if not world.workloads:
            evicting = []
        elif workloads is not world.workloads:
            bindings = (each.binding for each in world.workloads if each.binding is not None)
            evicting = [each for each in bindings if each.spec.graceful_eviction_tasks]
            self._evicting = world.workloads, evicting
        assumed = assumptions(
            failover,
            preemption,
            running,
            evicting,
            braked=braked,
            brake=record.brake_limits if record is not None else DEFAULT_BRAKE,
            tainted_by=evicting_policies(world.taint_policies, world.clusters.values()),
            scheduler=self.own_scheduler,
        )
        schedulers = world.schedulers | {assumed.scheduler}
        moves = record.moves if record is not None else DEFAULT_MOVES
        return replace(world, assumptions=assumed, schedulers=schedulers, moves=moves)

    def workload(self, key: BindingKey) -> WatchedWorkload | None:
        """Return the workload of a binding; None if there is no such binding."""
        with self._lock:
            known, policies = self._cache.workload(key), self._cache.policies
        if self.observed is not None:
            found, counts = self.observed.workload(key, policies), self.copy_counts()
            if found is None or not counts.overrides:
                return found
            return found._replace(workload=overridden(found.workload, counts.overrides, counts.clusters))
        return WatchedWorkload(known, None) if known is not None else None

    def metadata_of(self, binding: Binding) -> Mapping[str, Any]:
        """Return the metadata of the resource template of a binding; empty if it is not known."""
        if self.observed is not None:
            template = self.observed.template_of(binding)
        else:
            known = self._cache.workload(binding.metadata.key)
            template = None if known is None else known.template
        return {} if template is None else template.get("metadata") or {}

    @contextmanager
    def placed(self) -> Iterator[PlacedIndex]:
        """Return the bindings by place. The index is up to date and does not change until the end of the context."""
        if self.observed is not None:
            with self.observed.placed.reading() as index:
                yield index
            return
        with self._lock:
            workloads = self._cache.workloads
        with self._placing:
            if self._placed is None or self._placed[0] is not workloads:
                self._placed = workloads, _index_of(workloads)
            yield self._placed[1]

    def prepare(self) -> None:
        """Build the index of bindings by place, or update it, so that the next question about them is quick."""
        if self.staleness.synced:
            with self.placed():
                pass

    @contextmanager
    def reading(self) -> Iterator[FleetCache]:
        with self._lock:
            yield self._cache

    @contextmanager
    def updating(self, now: datetime, *, stays_stale: bool = False) -> Iterator[FleetCache]:
        """Hold the lock to update the cache. A part of a source ``stays_stale`` until ``mark_current``."""
        with self._lock:
            yield self._cache
            known = self.staleness if stays_stale else Staleness(None, None, "")
            self.staleness = structs.replace(known, loaded_at=now)

    def mark_stale(self, problem: str, since: datetime, *, by_objects: bool = False) -> None:
        """Mark the state as stale since the earliest failure until ``mark_current``. The cache stays unchanged."""
        with self._lock:
            self.stale_by_objects = by_objects
            known = self.staleness
            since = min(since, known.stale_since or since)
            # Updates of a part of the source, or out of a server's memory, do not make the state younger.
            loaded_at = known.loaded_at and min(known.loaded_at, since)
            self.staleness = Staleness(loaded_at, since, problem)

    def mark_current(self, now: datetime) -> None:
        """Mark the state as current: the source has no changes."""
        with self._lock:
            self.staleness = Staleness(now, None, "")
            self.stale_by_objects = False


def _few(sentences: Sequence[str]) -> list[str]:
    more = len(sentences) - MOST_NAMED
    rest = [Gap(GapKind.MORE_INVALID_OBJECTS, facts={"number": str(more)})] if more > 0 else []
    return [*sentences[:MOST_NAMED], *texts(rest, NO_NAMES)]


def _index_of(workloads: Sequence[SimulatedWorkload]) -> PlacedIndex:
    return PlacedIndex(
        (each.binding.metadata.key, placed_workload(each.binding, each.held_by, present=each.present))
        for each in workloads
        if each.binding is not None
    )
