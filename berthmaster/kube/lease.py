"""A Lease (``coordination.k8s.io/v1``) that at most one process holds.

The official client has an election too (``kubernetes.leaderelection``). It judges others by the time of day that they
wrote, so that a clock that is wrong elects two; it cannot be stopped; and it never gives the lease back, so that each
update waits for it to run out.

Here others are judged as in client-go: by how long *this* process has seen their record unchanged, on its own monotonic
clock. Times in the record are for people. Every write carries the ``resourceVersion`` that was looked at.
"""

import socket
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from berthmaster.kube.client import APIClient, ask
from berthmaster.kube.requests import APIRequest, Collection, Key, create, delete, get, micro_time, replace
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import ApiError, FieldError, InputError
from berthmaster.runtime.clock import Clock

LEASES: Final = Collection.of("coordination.k8s.io/v1", "leases")
_RELEASED_S: Final = 1
"""How long a lease is said to last that nobody holds; the API server takes no zero."""
_SLACK: Final = 1.2
_NEVER_S: Final = float("-inf")


@dataclass(frozen=True, slots=True)
class LeaseOptions:
    """Which lease, and how it is held.

    Attributes:
        namespace, name: where it is.
        identity: who we are; nobody else's, also not that of an earlier process here.
        lease_s: how long others wait after the last sign of the holder's, in whole seconds.
        renew_s: how long the holder goes on without having renewed. What is left of ``lease_s`` is for what it has
            sent and the API server has not finished.
        retry_s: how often it is renewed, and how often others look.
    """

    namespace: str
    name: str
    identity: str
    lease_s: int = 15
    renew_s: float = 10.0
    retry_s: float = 2.0

    def check(self) -> None:
        """See that the times fit together.

        Raises:
            InputError: they do not.
        """
        if not self.lease_s > self.renew_s:
            raise InputError(
                f"the lease ({self.lease_s:g} s) must last longer than the renew deadline: {self.renew_s:g} s"
            )
        if not self.renew_s > _SLACK * self.retry_s > 0:
            raise InputError(
                f"the renew deadline ({self.renew_s:g} s) must be more than {_SLACK:g} times the retry period: "
                f"{self.retry_s:g} s"
            )


def own_identity() -> str:
    """A name for this process that nobody else has: ``hostname_uuid``."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class Lease:
    """A candidate's view of the lease, and its tries to hold it. One thread tries; any may ask ``leading``.

    Attributes:
        until_s: up to when this process leads unless it renews, on the monotonic clock.
    """

    def __init__(self, client: APIClient, options: LeaseOptions, clock: Clock) -> None:
        self.options = options
        self.until_s = _NEVER_S
        self._client = client
        self._clock = clock
        self._key = options.namespace, options.name
        self._seen: dict[str, Any] = {}
        self._seen_s = _NEVER_S

    @property
    def leading(self) -> bool:
        """Whether this process holds the lease and has renewed it in time."""
        return self._clock.monotonic_s() < self.until_s

    @property
    def holder(self) -> str:
        """Who held it when it was looked at last; empty for nobody."""
        return str(self._spec.get("holderIdentity") or "")

    @property
    def lapses_in_s(self) -> float:
        """How long until others may take it, if its holder gives no sign until then; not above 0 if they may now."""
        if not self.holder:
            return 0.0
        duration_s = self._spec.get("leaseDurationSeconds")
        if not isinstance(duration_s, int) or duration_s <= 0:
            duration_s = self.options.lease_s
        return self._seen_s + duration_s - self._clock.monotonic_s()

    def attempt(self) -> bool:
        """Try once to acquire or to renew it; whether it is ours now.

        Raises:
            ApiError: it could not be read or written; how it stands is not known.
        """
        if self._ours:
            # Nobody else writes as long as it is ours: what was seen last is most likely what there is.
            try:
                return self._renew()
            except ApiError as error:
                if not (error.conflict or error.not_found):
                    raise
        if not self._look():
            self._make()
            return True
        if self._ours:
            return self._renew()
        self.until_s = _NEVER_S
        if self.lapses_in_s > 0:
            return False
        return self._take()

    def release(self) -> None:
        """Give it back, so that the next one need not wait. This process leads no more, whatever comes of it.

        Raises:
            ApiError: the API server did not take it; the lease will run out.
        """
        self.until_s = _NEVER_S
        if not self._ours:
            return
        try:
            self._write(self._released())
        except ApiError as error:
            if not error.conflict:
                raise
            if self._look() and self._ours:
                self._write(self._released())

    @property
    def _spec(self) -> dict[str, Any]:
        spec = self._seen.get("spec")
        return spec if isinstance(spec, dict) else {}

    @property
    def _ours(self) -> bool:
        return self.holder == self.options.identity

    @property
    def _transitions(self) -> int:
        count = self._spec.get("leaseTransitions")
        return count if isinstance(count, int) else 0

    def _renew(self) -> bool:
        self._hold({"renewTime": self._now(), "leaseDurationSeconds": self.options.lease_s})
        return True

    def _take(self) -> bool:
        now = self._now()
        self._hold(
            {
                "holderIdentity": self.options.identity,
                "leaseDurationSeconds": self.options.lease_s,
                "acquireTime": now,
                "renewTime": now,
                "leaseTransitions": self._transitions + 1,
            }
        )
        return True

    def _make(self) -> None:
        now = self._now()
        options = self.options
        content = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": options.name, "namespace": options.namespace},
            "spec": {
                "holderIdentity": options.identity,
                "leaseDurationSeconds": options.lease_s,
                "acquireTime": now,
                "renewTime": now,
                "leaseTransitions": 0,
            },
        }
        started_s = self._clock.monotonic_s()
        self._take_in(self._ask(create(LEASES, options.namespace, content)))
        self.until_s = started_s + options.renew_s

    def _released(self) -> dict[str, Any]:
        now = self._now()
        return {"holderIdentity": "", "leaseDurationSeconds": _RELEASED_S, "acquireTime": now, "renewTime": now}

    def _hold(self, changes: dict[str, Any]) -> None:
        """Write that it is ours; others count from no earlier than when this was sent, and so do we."""
        started_s = self._clock.monotonic_s()
        self._write(changes)
        self.until_s = started_s + self.options.renew_s

    def _write(self, changes: dict[str, Any]) -> None:
        content = {**self._seen, "spec": {**self._spec, **changes}}
        self._take_in(self._ask(replace(LEASES, self._key, content)))

    def _look(self) -> bool:
        """See how it stands; whether there is one."""
        try:
            self._take_in(self._ask(get(LEASES, self._key)))
        except ApiError as error:
            if not error.not_found:
                raise
            self._seen = {}
            return False
        return True

    def _ask(self, request: APIRequest) -> dict[str, Any]:
        # Half of the deadline: one answer that never comes must leave time for another try.
        body = ask(self._client, request._replace(silence_s=self.options.renew_s / 2))
        try:
            return decode_json(dict[str, Any], body)
        except FieldError as error:
            raise ApiError(0, "", f"the lease is not readable: {error}") from None

    def _take_in(self, content: dict[str, Any]) -> None:
        before = self._spec
        self._seen = content
        if self._spec != before:
            self._seen_s = self._clock.monotonic_s()

    def _now(self) -> str:
        return micro_time(self._clock.now())


POLL_S: Final = 1.0
_LONGEST_LEASE_S: Final = 3600

Outcome = Literal["removed", "gone already", "in use"]


def remove_lease(
    client: APIClient, key: Key, clock: Clock, patience_s: float, sleep: Callable[[float], None] = time.sleep
) -> Outcome:
    """Delete a Lease as soon as nobody holds it.

    A holder is judged as candidates judge it: it is gone when its record has not changed for as long as the lease
    lasts, on this process's own clock. A Lease that is still renewed belongs to somebody, and stays.

    Args:
        client: to the API server.
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
        found = _read(client, key)
        if found is None:
            return "gone already"
        now_s = clock.monotonic_s()
        spec = found.get("spec") or {}
        if spec != seen:
            seen, seen_s = spec, now_s
        if not spec.get("holderIdentity") or now_s - seen_s >= _duration_s(spec):
            if _deleted(client, key, found["metadata"]):
                return "removed"
        elif now_s - started_s >= patience_s:
            return "in use"
        sleep(POLL_S)


def _read(client: APIClient, key: Key) -> dict[str, Any] | None:
    try:
        return decode_json(dict[str, Any], ask(client, get(LEASES, key)))
    except ApiError as error:
        if error.not_found:
            return None
        raise


def _deleted(client: APIClient, key: Key, metadata: dict[str, Any]) -> bool:
    """Whether it is gone; somebody may have taken it meanwhile."""
    request = delete(LEASES, key, uid=metadata["uid"], resource_version=metadata["resourceVersion"])
    try:
        ask(client, request)
    except ApiError as error:
        if error.conflict:
            return False
        if not error.not_found:
            raise
    return True


def _duration_s(spec: dict[str, Any]) -> float:
    duration_s = spec.get("leaseDurationSeconds")
    return min(duration_s, _LONGEST_LEASE_S) if isinstance(duration_s, int) and duration_s > 0 else 0.0
