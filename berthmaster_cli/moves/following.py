"""Watches bindings for commands that follow moves."""

import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Final, Self

from berthmaster.deciding.lease_record import BrakeRecord, lease_record
from berthmaster.kube.client import APIClient, ask_if_found
from berthmaster.kube.informer import Informer
from berthmaster.kube.kinds import CLUSTER_RESOURCE_BINDINGS, RESOURCE_BINDINGS
from berthmaster.kube.lease import LEASES
from berthmaster.kube.requests import decode_response, get
from berthmaster.kube.source_check import SourceCheck
from berthmaster.model.binding import Binding
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import ApiError
from berthmaster.model.meta import Key
from berthmaster.runtime.clock import SystemClock

_POLL_S: Final = 0.2


class FollowedBindings:
    """The bindings of a control plane, kept up to date inside a ``with`` block."""

    def __init__(self, client: APIClient, lease: Key) -> None:
        self._client = client
        self._lease = lease
        self._changed = threading.Event()
        self._informers = [
            Informer(each, lambda raw: decode_json(Binding, raw), SystemClock())
            for each in (RESOURCE_BINDINGS, CLUSTER_RESOURCE_BINDINGS)
        ]
        for informer in self._informers:
            informer.on_contact(self._changed.set)
        collections = [each.collection for each in self._informers]
        self._source = SourceCheck(collections, SystemClock(), self._changed.set)
        self._reported = ""

    def __enter__(self) -> Self:
        for informer in self._informers:
            informer.start(self._client)
        self._source.start(self._client)
        while not all(each.listed for each in self._informers):
            self.wait(_POLL_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._source.stop()
        for informer in self._informers:
            informer.stop()

    def bindings(self) -> Iterator[Binding]:
        return (binding for informer in self._informers for _, binding in informer.items())

    def wait(self, timeout_s: float) -> None:
        """Wait for the next message of the server, at most for some seconds."""
        self._changed.wait(timeout_s)
        self._changed.clear()

    def news(self) -> str:
        """Return a message if the bindings became stale or current again since the last call; else an empty text."""
        problem = self._source.problem or next((each.problem for each in self._informers if each.problem), "")
        if problem == self._reported:
            return ""
        self._reported = problem
        return f"the bindings are stale: {problem}" if problem else "the bindings are watched again"

    def brake(self) -> BrakeRecord:
        """Read the state of the storm brake. Without a right or a lease it counts as not engaged."""
        try:
            body = ask_if_found(self._client, get(LEASES, self._lease))
        except ApiError:
            return BrakeRecord()
        if body is None:
            return BrakeRecord()
        return lease_record(decode_response(dict[str, Any], body, "the lease")).brake
