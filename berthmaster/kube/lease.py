"""A Lease (``coordination.k8s.io/v1``) as a lock: at most one process holds it.

A candidate judges the holder as client-go does: by the time for which it has not seen the record change, on its own
monotonic clock. Times in the record are informational. Each write carries the ``resourceVersion`` that was read.
"""

import socket
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from berthmaster.kube.client import APIClient, ask, ask_if_found
from berthmaster.kube.requests import APIRequest, Collection, create, delete, get, micro_time, replace
from berthmaster.kube.responses import decode_response
from berthmaster.model.decode import mapping_of
from berthmaster.model.errors import ApiError, InputError
from berthmaster.model.meta import moment_of
from berthmaster.runtime.clock import Clock

LEASES: Final = Collection.of("coordination.k8s.io/v1", "leases")
POLL_S: Final = 1.0
_RELEASED_S: Final = 1
"""The duration in the record of a released lease. The API server does not accept zero."""
_JITTER_FACTOR: Final = 1.2
_NEVER_S: Final = float("-inf")
RemovalResult = Literal["removed", "gone already", "in use"]


@dataclass(frozen=True, slots=True)
class LeaseOptions:
    """The name and the timing of a lease.

    Attributes:
        identity: the unique identity of this process. An earlier process on this host has another one.
        lease_s: how long other candidates wait after the last change of the record, in whole seconds.
        renew_s: how long the leader goes on without a successful renewal. The rest of ``lease_s`` is for requests that
            the API server has not finished yet.
        retry_s: how often the leader renews. Candidates look at the lease twice as often.
    """

    namespace: str
    name: str
    identity: str
    lease_s: int = 15
    renew_s: float = 10.0
    retry_s: float = 2.0

    def check(self) -> None:
        """Raise ``InputError`` unless ``lease_s`` > ``renew_s`` > 1.2 ``retry_s``, as client-go does."""
        if not self.lease_s > self.renew_s:
            raise InputError(
                f"the lease duration ({self.lease_s:g} s) must be longer than the renew deadline ({self.renew_s:g} s)"
            )
        if not self.renew_s > _JITTER_FACTOR * self.retry_s > 0:
            raise InputError(
                f"the renew deadline ({self.renew_s:g} s) must be more than {_JITTER_FACTOR:g} times the retry period "
                f"({self.retry_s:g} s)"
            )


def own_identity() -> str:
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class Lease:
    """The lease as one candidate sees it. One thread acquires and renews; any thread may read ``leading``.

    Attributes:
        leads_until_s: when the leadership of this process ends unless it renews, on the monotonic clock.
        unled_s: the age of the last renewal when this process took the lease from a holder that had not released it, by
            the clock of the computer; 0 for any other acquisition.
    """

    def __init__(self, client: APIClient, options: LeaseOptions, clock: Clock) -> None:
        self.options = options
        self.leads_until_s = _NEVER_S
        self.unled_s = 0.0
        self._client = client
        self._clock = clock
        self._key = options.namespace, options.name
        self._observed: dict[str, Any] = {}
        self._observed_s = _NEVER_S
        self._annotating = threading.Lock()
        self._annotations: dict[str, str | None] = {}

    def annotation(self, key: str) -> str | None:
        """Return an annotation of the observed record; None if there is none.

        The holder observes a write of another client with its next renewal, which conflicts.
        """
        return self._stored_annotations().get(key)

    def annotate(self, key: str, value: str | None) -> None:
        """Set an annotation, or remove it (None), with the next renewal. It stays when the holder changes.

        Any thread may call it. A value that is stored already causes no write.
        """
        with self._annotating:
            if key in self._annotations or self._stored_annotations().get(key) != value:
                self._annotations[key] = value

    @property
    def leading(self) -> bool:
        """Whether this process holds the lease and has renewed it in time."""
        return self._clock.monotonic_s() < self.leads_until_s

    @property
    def holder(self) -> str:
        return str(self._spec.get("holderIdentity") or "")

    @property
    def expires_in_s(self) -> float:
        """The seconds until other candidates may take the lease unless its record changes. 0 or less means now."""
        if not self.holder:
            return 0.0
        return self._observed_s + (_duration_s(self._spec) or self.options.lease_s) - self._clock.monotonic_s()

    def try_acquire_or_renew(self) -> bool:
        """Try once to acquire or renew. Return whether this process leads; unknown after an ``ApiError``."""
        if self._is_ours:
            # No other process writes while the lease is ours, so the observed record is most likely the latest one.
            try:
                return self._renew()
            except ApiError as error:
                if not (error.conflict or error.not_found):
                    raise
        if not self._read():
            return self._create()
        if self._is_ours:
            return self._renew()
        self.leads_until_s = _NEVER_S
        return self.expires_in_s <= 0 and self._take()

    def release(self) -> None:
        """Release the lease, so that the next leader need not wait. After an ``ApiError`` it will expire."""
        self.leads_until_s = _NEVER_S
        if not self._is_ours:
            return
        try:
            self._write(self._released())
        except ApiError as error:
            if not error.conflict:
                raise
            if self._read() and self._is_ours:
                self._write(self._released())

    def remove(self, patience_s: float, sleep: Callable[[float], None] = time.sleep) -> RemovalResult:
        """Delete the Lease as soon as no process holds it. One that is still renewed after ``patience_s`` stays."""
        deadline_s = self._clock.monotonic_s() + patience_s
        while self._read():
            if self.expires_in_s <= 0:
                if self._delete():
                    return "removed"
            elif self._clock.monotonic_s() >= deadline_s:
                return "in use"
            sleep(POLL_S)
        return "gone already"

    def _delete(self) -> bool:
        """Delete this version of the Lease. Return False if it has changed."""
        uid, version = (self._observed["metadata"][name] for name in ("uid", "resourceVersion"))
        try:
            ask_if_found(self._client, self._timed(delete(LEASES, self._key, uid=uid, resource_version=version)))
        except ApiError as error:
            if error.conflict:
                return False
            raise
        return True

    @property
    def _spec(self) -> Mapping[str, Any]:
        return mapping_of(self._observed.get("spec"))

    @property
    def _is_ours(self) -> bool:
        return self.holder == self.options.identity

    def _stored_annotations(self) -> dict[str, str]:
        found = mapping_of(mapping_of(self._observed.get("metadata")).get("annotations"))
        return {key: value for key, value in found.items() if isinstance(value, str)}

    def _create(self) -> bool:
        options = self.options
        content = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": options.name, "namespace": options.namespace},
            "spec": self._acquired(transitions=0),
        }
        return self._hold(
            lambda: self._observe(ask(self._client, self._timed(create(LEASES, options.namespace, content))))
        )

    def _take(self) -> bool:
        count = self._spec.get("leaseTransitions")
        changes = self._acquired(transitions=count + 1 if isinstance(count, int) else 1)
        self.unled_s = self._age_of_renewal_s() if self.holder else 0.0
        return self._hold(lambda: self._write(changes))

    def _age_of_renewal_s(self) -> float:
        """Return the age of the last renewal in the observed record; 0 if it does not say."""
        renewed = moment_of(str(self._spec.get("renewTime")))
        return 0.0 if renewed is None else max(0.0, (self._clock.now() - renewed).total_seconds())

    def _renew(self) -> bool:
        changes = {"renewTime": self._now(), "leaseDurationSeconds": self.options.lease_s}
        return self._hold(lambda: self._write(changes))

    def _hold(self, write: Callable[[], None]) -> bool:
        """Write that this process is the holder. Its leadership counts from the time before the request was sent."""
        started_s = self._clock.monotonic_s()
        write()
        self.leads_until_s = started_s + self.options.renew_s
        return True

    def _acquired(self, transitions: int) -> dict[str, Any]:
        now = self._now()
        return {
            "holderIdentity": self.options.identity,
            "leaseDurationSeconds": self.options.lease_s,
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }

    def _released(self) -> dict[str, Any]:
        now = self._now()
        return {"holderIdentity": "", "leaseDurationSeconds": _RELEASED_S, "acquireTime": now, "renewTime": now}

    def _write(self, changes: dict[str, Any]) -> None:
        content = {**self._observed, "spec": {**self._spec, **changes}}
        with self._annotating:
            annotations = dict(self._annotations)
        if annotations:
            stored = {**self._stored_annotations(), **annotations}
            kept = {key: value for key, value in stored.items() if value is not None}
            content["metadata"] = {**self._observed["metadata"], "annotations": kept}
        self._observe(ask(self._client, self._timed(replace(LEASES, self._key, content))))
        with self._annotating:
            for key, value in annotations.items():
                if self._annotations.get(key) == value:
                    self._annotations.pop(key, None)

    def _read(self) -> bool:
        body = ask_if_found(self._client, self._timed(get(LEASES, self._key)))
        if body is None:
            self._observed = {}
            return False
        self._observe(body)
        return True

    def _timed(self, request: APIRequest) -> APIRequest:
        # Half of the deadline: a response that never arrives must leave time for another try.
        return request._replace(read_timeout_s=self.options.renew_s / 2)

    def _observe(self, body: bytes) -> None:
        before = self._spec
        self._observed = decode_response(dict[str, Any], body, "the lease")
        if self._spec != before:
            self._observed_s = self._clock.monotonic_s()

    def _now(self) -> str:
        return micro_time(self._clock.now())


def _duration_s(spec: Mapping[str, Any]) -> int:
    duration_s = spec.get("leaseDurationSeconds")
    return duration_s if isinstance(duration_s, int) and duration_s > 0 else 0
