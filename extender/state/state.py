"""The memory that all requests share, and the lock in front of it.

A decision costs some tens of microseconds and a scheduler is not safe for several threads, so that one lock around each
decision
costs less than any cleverness: Python runs one thread at a time anyway. What takes long, a simulation for one, takes
    the world out - it is immutable - and works on it outside.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from berthmaster.model.cluster import Cluster
from berthmaster.model.policy import Policy
from berthmaster.scheduling.context import Peers
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.profile import Profile
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster.simulation.world import SimulatedWorkload, World

BindingKey = tuple[str, str]
"""Namespace, empty for cluster-scoped ones, and name."""


@dataclass(frozen=True, slots=True)
class Freshness:
    """How far the state can be trusted.

    Attributes:
        loaded_at: when a source last said how things are; None if none ever did.
        stale_since: when the source was lost, or what it offers could not be used any more; None if all is well.
        problem: what is wrong with the source, in words; empty if nothing is.
    """

    loaded_at: datetime | None = None
    stale_since: datetime | None = None
    problem: str = ""

    @property
    def synced(self) -> bool:
        """Whether there is a fleet to decide on."""
        return self.loaded_at is not None


class Memory:
    """What the lock guards. Only to be touched while it is held.

    Attributes:
        scheduler: decides on the fleet; ``scheduler.fleet`` is the fleet.
    """

    def __init__(self, profile: Profile) -> None:
        self.scheduler = Scheduler(Fleet(), profile)
        self._clusters: dict[str, Cluster] = {}
        self._world: World | None = World({}, ())
        self._workloads: Sequence[SimulatedWorkload] = ()
        self._policies: Sequence[Policy] = ()
        self._by_binding: Mapping[BindingKey, SimulatedWorkload] = {}

    @property
    def fleet(self) -> Fleet:
        """The clusters in columns."""
        return self.scheduler.fleet

    @property
    def bindings(self) -> int:
        """How many bindings are known."""
        return len(self._by_binding)

    @property
    def policies(self) -> Sequence[Policy]:
        """The policies, with their defaults."""
        return self._policies

    @property
    def world(self) -> World:
        """Clusters, policies and workloads as an immutable value: it may be kept, and worked on without the lock."""
        if self._world is None:
            self._world = World(dict(self._clusters), self._workloads, self._policies)
        return self._world

    def workload(self, key: BindingKey) -> SimulatedWorkload | None:
        """The workload of a binding."""
        return self._by_binding.get(key)

    def take(self, world: World) -> None:
        """Make this the world. Only clusters that differ are worked on.

        Raises:
            InputError: the fleet is full.
        """
        for name in self._clusters.keys() - world.clusters.keys():
            self.fleet.remove(name)
        for name, cluster in world.clusters.items():
            if self._clusters.get(name) != cluster:
                self.fleet.apply(cluster)
        self.scheduler.peers = _peers(world)
        self._by_binding = {
            (each.binding.metadata.namespace, each.binding.metadata.name): each
            for each in world.workloads
            if each.binding is not None
        }
        self._clusters, self._workloads, self._policies = dict(world.clusters), world.workloads, world.policies
        self._world = world

    def take_cluster(self, cluster: Cluster) -> None:
        """One cluster changed, or is new.

        Raises:
            InputError: the fleet is full.
        """
        self.fleet.apply(cluster)
        self._clusters[cluster.name] = cluster
        self._world = None

    def take_policies(self, policies: Sequence[Policy]) -> None:
        """These are the policies now, with their defaults."""
        self._policies = policies
        self._world = None

    def drop_cluster(self, name: str) -> None:
        """One cluster is gone."""
        self.fleet.remove(name)
        self._clusters.pop(name, None)
        self._world = None


class State:
    """The memory, shared among threads."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self._lock = threading.Lock()
        self._memory = Memory(profile)
        self._freshness = Freshness()

    @property
    def freshness(self) -> Freshness:
        """How far it can be trusted."""
        return self._freshness

    @contextmanager
    def reading(self) -> Iterator[Memory]:
        """Hold the lock; for one decision at a time, so that nobody waits long."""
        with self._lock:
            yield self._memory

    @contextmanager
    def feeding(self, now: datetime) -> Iterator[Memory]:
        """Hold the lock to bring the memory up to date; afterwards it is as fresh as ``now``."""
        with self._lock:
            yield self._memory
            self._freshness = Freshness(now)

    def mark_stale(self, problem: str, now: datetime) -> None:
        """The source is lost, or offers what cannot be used: what was there stays, and is said to be old."""
        with self._lock:
            known = self._freshness
            self._freshness = Freshness(known.loaded_at, known.stale_since or now, problem)

    def mark_current(self, now: datetime) -> None:
        """The source was asked and nothing has changed."""
        with self._lock:
            self._freshness = Freshness(now)


def _peers(world: World) -> Peers:
    peers = Peers()
    for workload in world.workloads:
        if workload.binding is not None:
            peers.place(Request.of(workload.binding), [target.name for target in workload.binding.spec.clusters])
    return peers
