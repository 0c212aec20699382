"""A model of Karmada's controllers, driven step by step.

It reads and writes an API server in memory, or a real one, and does what karmada-controller-manager and the member
clusters would do. Nothing happens by itself: ``step`` runs one reconcile, ``settle`` all that are due, and the clock
moves only if the caller moves it. With a source of randomness, the controllers take turns in any order.
"""

import random
from collections.abc import Collection
from datetime import datetime
from typing import Final, NamedTuple, Protocol

from karmada_model.agenda import MAX_STEPS, Agenda, Controller
from karmada_model.clusters import ClusterController
from karmada_model.dependencies import DependenciesDistributor
from karmada_model.detector import Detector
from karmada_model.evictions import TIMEOUT_S, EvictionController
from karmada_model.garbage import GarbageCollector
from karmada_model.members import Delays, Members
from karmada_model.objects import Objects, ObjectsInMemory
from karmada_model.rebalancer import RebalancerController
from karmada_model.replicas import ReplicasSyncer
from karmada_model.status import StatusController
from karmada_model.taints import TaintManager
from karmada_model.works import BindingController, WorkIndex
from kube_in_memory import KubeInMemory

ALL: Final = (
    "garbage",
    "detector",
    "bindings",
    "evictions",
    "dependencies",
    "clusters",
    "taints",
    "members",
    "status",
    "rebalancer",
    "replicas",
)
"""The names of the controllers. A test that plays only some of them names those."""


class Time(Protocol):
    """The part of a clock that the model reads."""

    def now(self) -> datetime:
        """Return the time of day."""

    def monotonic_s(self) -> float:
        """Return the monotonic time."""


class Settings(NamedTuple):
    """How the modelled Karmada is configured.

    Attributes:
        preemption: the gate PropagationPolicyPreemption.
        eviction_timeout_s: ``--graceful-eviction-timeout``.
        delays: how long members take.
        status_delay_s: how long the status controllers take.
        reports_resources: whether members report the resources that their copies use.
        prefix: how the names of the clusters start whose agents are played.
        evicts: whether NoExecute taints evict: the gate Failover, and ``--enable-no-execute-taint-eviction``.
    """

    preemption: bool = False
    eviction_timeout_s: float = TIMEOUT_S
    delays: Delays = Delays()
    status_delay_s: float = 2.0
    reports_resources: bool = False
    prefix: str = ""
    evicts: bool = False


class KarmadaModel:
    """The controllers of a Karmada control plane, and its members.

    Attributes:
        objects: what the controllers read and write.
        members: the member clusters. Tests break and mend them.
    """

    def __init__(
        self,
        objects: Objects,
        clock: Time,
        settings: Settings | None = None,
        *,
        only: Collection[str] = ALL,
        chance: random.Random | None = None,
    ) -> None:
        """Make a model that knows nothing yet; its first step sees all objects as new.

        Args:
            objects: the API server.
            clock: the time.
            settings: how Karmada is configured.
            only: the controllers that work, of ``ALL``.
            chance: chooses whose turn it is; None lets the task go first that waits longest.
        """
        settings = settings or Settings()
        agenda = self._agenda = Agenda(clock.monotonic_s, chance)
        works = WorkIndex(objects)
        self.objects = objects
        self.members = Members(
            objects,
            agenda,
            clock.now,
            settings.delays,
            reports_resources=settings.reports_resources,
            prefix=settings.prefix,
        )
        self._status = StatusController(objects, agenda, works, clock.now, settings.status_delay_s)
        controllers: dict[str, Controller] = {
            "garbage": GarbageCollector(objects, agenda),
            "detector": Detector(objects, agenda, preemption=settings.preemption),
            "bindings": BindingController(objects, agenda, works),
            "evictions": EvictionController(objects, agenda, clock.now, settings.eviction_timeout_s),
            "dependencies": DependenciesDistributor(objects, agenda),
            "clusters": ClusterController(objects, agenda),
            "taints": TaintManager(objects, agenda, clock.now, enabled=settings.evicts),
            "members": self.members,
            "status": self._status,
            "rebalancer": RebalancerController(objects, agenda, clock.now),
            "replicas": ReplicasSyncer(objects, agenda),
        }
        self._controllers = [works, *(controllers[name] for name in ALL if name in only)]

    def restart_controllers(self) -> None:
        """Restart Karmada's controllers: what members report is missing from bindings until it is collected again."""
        self._status.restart()

    def hold(self, *controllers: str) -> None:
        """Let these controllers do nothing until the next call. They do the rest then."""
        self._agenda.held = {*controllers}

    def observe(self) -> int:
        news = self.objects.news()
        for each in news:
            for controller in self._controllers:
                controller.observe(each)
        return len(news)

    def step(self) -> bool:
        self.observe()
        return self._agenda.step()

    def settle(self) -> int:
        """Step until nothing is due, and return the number of steps."""
        for steps in range(MAX_STEPS):
            if not self.step():
                return steps
        raise AssertionError("the model does not come to rest")

    def next_s(self) -> float | None:
        """Return the seconds until a controller has something to do; None if only a change can bring that about."""
        self.observe()
        return self._agenda.next_s()


def in_memory(
    api: KubeInMemory,
    clock: Time,
    settings: Settings | None = None,
    *,
    only: Collection[str] = ALL,
    chance: random.Random | None = None,
) -> KarmadaModel:
    return KarmadaModel(ObjectsInMemory(api, clock.now), clock, settings, only=only, chance=chance)
