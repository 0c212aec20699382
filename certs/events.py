"""Events that are written at once: certificates change a few times a year, and whoever changes them ends soon after."""

import logging
import uuid
from datetime import UTC
from typing import Any, Final, Literal

from fleet.errors import ApiError
from fleet.kube import requests
from fleet.kube.events import Reference
from fleet.kube.requests import Collection
from fleet.kube.transport import Connection, ask
from fleet.ops.clock import Clock

EVENTS: Final = Collection.of("events.k8s.io/v1", "events")
_REPORTER: Final = "berthmaster.io/certs"
_CLUSTER_SCOPED: Final = "default"
"""Where events about objects without a namespace are, by convention."""
_MAX_NOTE: Final = 1000
_LOG: Final = logging.getLogger("berthmaster.certs")


class DirectRecorder:
    """A ``Recorder`` that writes before it returns. An event that cannot be written is only logged."""

    def __init__(self, connection: Connection, clock: Clock, instance: str) -> None:
        self._connection = connection
        self._clock = clock
        self._instance = instance[:128] or "berthmaster"

    def record(
        self,
        regarding: Reference,
        kind: Literal["Normal", "Warning"],
        reason: str,
        action: str,
        note: str,
        related: Reference | None = None,
    ) -> None:
        """See ``Recorder``."""
        namespace = regarding.namespace or _CLUSTER_SCOPED
        content: dict[str, Any] = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"{regarding.name[:200]}.{uuid.uuid4().hex[:16]}", "namespace": namespace},
            "eventTime": self._clock.now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "type": kind,
            "reason": reason,
            "action": action,
            "note": note[:_MAX_NOTE],
            "regarding": _told(regarding),
            "reportingController": _REPORTER,
            "reportingInstance": self._instance,
        }
        if related is not None:
            content["related"] = _told(related)
        try:
            ask(self._connection, requests.create(EVENTS, namespace, content))
        except ApiError as error:
            _LOG.warning("an event about %s %s is not written: %s", regarding.kind, regarding.name, error)


def _told(thing: Reference) -> dict[str, str]:
    names = ("apiVersion", "kind", "namespace", "name", "uid")
    return {name: value for name, value in zip(names, thing, strict=True) if value}
