"""What all controllers of a process share."""

from collections.abc import Callable
from typing import Any, TypeVar

from berthmaster.controllers.controller import Meter
from berthmaster.kube.events import Recorder
from berthmaster.kube.informer import Informer
from berthmaster.kube.requests import Collection
from berthmaster.kube.transport import Connection
from berthmaster.runtime.clock import Clock

T = TypeVar("T")


class Parts:
    """The connection, what is known through it, and who hears of what was done.

    Attributes:
        connection: to the API server.
        clock: tells the time.
        recorder: of events.
        meter: of metrics.
        informers: those that controllers have asked for, by their collection; started before the first controller is.
    """

    def __init__(self, connection: Connection, clock: Clock, recorder: Recorder, meter: Meter) -> None:
        self.connection = connection
        self.clock = clock
        self.recorder = recorder
        self.meter = meter
        self.informers: dict[Collection, Informer[Any]] = {}

    def informer(self, collection: Collection, read: Callable[[bytes], T]) -> Informer[T]:
        """The informer of a collection; the same one for all who ask."""
        if collection not in self.informers:
            self.informers[collection] = Informer(collection, read, self.clock)
        return self.informers[collection]
