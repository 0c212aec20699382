"""The end of a Lease that nobody needs any more: whoever elects a leader leaves one behind."""

import time
from collections.abc import Callable
from typing import Any, Final, Literal

from berthmaster.kube.lease import LEASES
from berthmaster.kube.messages import Key
from berthmaster.kube.requests import delete, get
from berthmaster.kube.transport import Connection, ask
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import ApiError
from berthmaster.runtime.clock import Clock

POLL_S: Final = 1.0
_LONGEST_LEASE_S: Final = 3600

Outcome = Literal["removed", "gone already", "in use"]


def remove_lease(
    connection: Connection, key: Key, clock: Clock, patience_s: float, sleep: Callable[[float], None] = time.sleep
) -> Outcome:
    """Delete a Lease as soon as nobody holds it.

    A holder is judged as candidates judge it: it is gone when its record has not changed for as long as the lease
    lasts, on this process's own clock. A Lease that is still renewed belongs to somebody, and stays.

    Args:
        connection: to the API server.
        key: the namespace and name.
        clock: tells the time.
        patience_s: how long its holder may take to go.
        sleep: waits.

    Raises:
        ApiError: it cannot be read or deleted.
    """
    started_s = seen_s = clock.monotonic_s()
    seen: dict[str, Any] | None = None
    while True:
        found = _read(connection, key)
        if found is None:
            return "gone already"
        now_s = clock.monotonic_s()
        spec = found.get("spec") or {}
        if spec != seen:
            seen, seen_s = spec, now_s
        if not spec.get("holderIdentity") or now_s - seen_s >= _duration_s(spec):
            if _deleted(connection, key, found["metadata"]):
                return "removed"
        elif now_s - started_s >= patience_s:
            return "in use"
        sleep(POLL_S)


def _read(connection: Connection, key: Key) -> dict[str, Any] | None:
    try:
        return decode_json(dict[str, Any], ask(connection, get(LEASES, key)))
    except ApiError as error:
        if error.absent:
            return None
        raise


def _deleted(connection: Connection, key: Key, metadata: dict[str, Any]) -> bool:
    """Whether it is gone; somebody may have taken it meanwhile."""
    request = delete(LEASES, key, uid=metadata["uid"], resource_version=metadata["resourceVersion"])
    try:
        ask(connection, request)
    except ApiError as error:
        if error.conflicting:
            return False
        if not error.absent:
            raise
    return True


def _duration_s(spec: dict[str, Any]) -> float:
    duration_s = spec.get("leaseDurationSeconds")
    return min(duration_s, _LONGEST_LEASE_S) if isinstance(duration_s, int) and duration_s > 0 else 0.0
