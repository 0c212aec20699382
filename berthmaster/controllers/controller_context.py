"""What all controllers of a process share."""

from collections.abc import Callable
from typing import Any, Literal, TypeVar

from berthmaster.deciding.decision_recorder import DecisionRecorder
from berthmaster.kube.client import APIClient
from berthmaster.kube.events import EventContent, Recorder, Reference
from berthmaster.kube.informer import Informer
from berthmaster.kube.lease import Lease
from berthmaster.kube.requests import Collection
from berthmaster.runtime.clock import Clock

T = TypeVar("T")


class ControllerContext:
    """The API server client, the informers, the event recorder, and the ledger if there is one.

    Attributes:
        lease: the lease of the leader; None without leader election.
        pages: further pages of the port of the probes, by path: each returns its content type and its text.
        informers: one per collection that a controller asked for. They start before the first controller does.
        optional: as ``informers``, for kinds that a control plane need not serve. No controller waits for them.
        without: what works less well without an optional kind, as a sentence without its full stop.
    """

    def __init__(
        self,
        client: APIClient,
        clock: Clock,
        recorder: Recorder,
        decisions: DecisionRecorder | None = None,
        lease: Lease | None = None,
    ) -> None:
        self.client = client
        self.clock = clock
        self.recorder = recorder
        self.decisions = decisions
        self.lease = lease
        self.pages: dict[str, Callable[[], tuple[str, bytes]]] = {}
        self.informers: dict[Collection, Informer[Any]] = {}
        self.optional: dict[Collection, Informer[Any]] = {}
        self.without: dict[Collection, str] = {}

    def informer(self, collection: Collection, read: Callable[[bytes], T]) -> Informer[T]:
        """Return the informer of a collection. All callers share it; ``read`` decodes an object."""
        if collection not in self.informers:
            self.informers[collection] = Informer(collection, read, self.clock)
        return self.informers[collection]

    def optional_informer(self, collection: Collection, read: Callable[[bytes], T], without: str) -> Informer[T]:
        """Return an informer that starts only if the kind is served and this process may list it."""
        self.without[collection] = without
        if collection not in self.optional:
            self.optional[collection] = Informer(collection, read, self.clock)
        return self.optional[collection]

    def record_on_lease(self, kind: Literal["Normal", "Warning"], reason: str, action: str, note: str) -> None:
        """Record an event on the lease of the leader. Without leader election there is no object to record it on."""
        if self.lease is not None:
            options = self.lease.options
            regarding = Reference("coordination.k8s.io/v1", "Lease", options.namespace, options.name)
            self.recorder.record(EventContent(regarding, kind, reason, action, note))
