"""Policies with ``preemption: Always`` take over what weaker ones claim (gate ``PolicyPreemption``).

Informers of policies say what is named and by whom, watches of the named kinds say what has changed hands; both put
resources on a queue, and a worker settles one after the other. The records of priority drops go the same way.
"""

from typing import Final

from berthmaster.controllers.controller import Controller, ControllerLoad, QueueController
from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.controllers.preemption.challengers import Challengers
from berthmaster.controllers.preemption.drops import Drops
from berthmaster.controllers.preemption.reconciler import PreemptionReconciler
from berthmaster.controllers.preemption.store import POLICIES, Store
from berthmaster.controllers.preemption.story import Story
from berthmaster.controllers.preemption.takeover import Takeover
from berthmaster.controllers.preemption.triggers import Subject, Triggers
from berthmaster.controllers.preemption.watches import Watches
from berthmaster.controllers.work_queue import WorkQueue
from berthmaster.kube.discovery import Discovery
from berthmaster.model.policy import Policy, PolicyReference

NAME: Final = "preemption"


class PreemptionController:
    """The workers, and the watches of resources that come and go with what policies name; see ``Controller``."""

    def __init__(self, workers: QueueController[Subject], watches: Watches) -> None:
        self.name = workers.name
        self._workers = workers
        self._watches = watches

    def load(self) -> ControllerLoad:
        """See ``Controller``."""
        return self._workers.load()

    def start(self) -> None:
        """See ``Controller``."""
        self._workers.start()

    def stop(self) -> None:
        """See ``Controller``."""
        self._workers.stop()
        self._watches.stop()


def controller(context: ControllerContext, workers: int = 1) -> Controller:
    """The preemption controller. Whether its gate is open is the caller's business.

    Args:
        context: what controllers share; its informers of policies are asked for here.
        workers: how many resources are settled at once.
    """
    queue: WorkQueue[Subject] = WorkQueue(context.clock)
    challengers = Challengers()
    triggers = Triggers(challengers, queue.add)
    informers = {kind: context.informer(watched.collection, watched.read) for kind, watched in POLICIES.items()}
    for informer in informers.values():
        informer.subscribe(triggers)

    def known(policy: PolicyReference) -> Policy | None:
        return informers[policy.kind].get((policy.namespace, policy.name))

    store = Store(context.client, Discovery(context.client, context.clock))
    story = Story(context.recorder)
    takeover = Takeover(store, challengers, known, story, context.metrics)
    watches = Watches(store, context.clock, challengers, queue.add)
    reconciler = PreemptionReconciler(challengers, watches, takeover, Drops(store, challengers, takeover, story))
    return PreemptionController(
        QueueController(NAME, reconciler, queue, context.metrics, context.clock, workers), watches
    )
