"""The local clock, corrected by the clock of an API server."""

from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from berthmaster.kube import requests
from berthmaster.kube.client import APIClient, ask
from berthmaster.kube.events import EVENTS
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import ApiError, FieldError
from berthmaster.model.meta import ObjectMeta
from berthmaster.runtime.clock import Clock

_MIN_DIFFERENCE: Final = timedelta(seconds=2)
"""Smaller differences come from the round trip and from the whole seconds of the server's timestamps."""


class _Created(msgspec.Struct, frozen=True):
    metadata: ObjectMeta


class ServerTime:
    """The local clock, corrected by the clock of an API server.

    All replicas agree on the current time, even if the clocks of their machines differ. Otherwise a replica with a
    wrong clock would consider valid certificates expired and replace them with unusable ones.
    """

    def __init__(self, client: APIClient, namespace: str, clock: Clock) -> None:
        self._client = client
        self._namespace = namespace
        self._clock = clock
        self._ahead = timedelta(0)

    def now(self) -> datetime:
        return self._clock.now() - self._ahead

    def adjust(self) -> None:
        """Read the server's time by a dry-run creation of an event. Without the right to it, nothing changes."""
        request = requests.create(EVENTS, self._namespace, self._event())
        try:
            answer = ask(self._client, request._replace(query=(("dryRun", "All"),)))
            server_now = decode_json(_Created, answer).metadata.creation_timestamp
        except (ApiError, FieldError):
            return
        if server_now is not None:
            ahead = self._clock.now() - server_now
            self._ahead = ahead if abs(ahead) > _MIN_DIFFERENCE else timedelta(0)

    def _event(self) -> dict[str, Any]:
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"generateName": "berthmaster-time-"},
            "eventTime": requests.micro_time(self._clock.now()),
            "reportingController": "berthmaster.io/certs",
            "reportingInstance": "berthmaster",
            "regarding": {
                "apiVersion": "v1",
                "kind": "Namespace",
                "name": self._namespace,
                "namespace": self._namespace,
            },
            "action": "ReadTime",
            "reason": "ReadTime",
            "type": "Normal",
        }
