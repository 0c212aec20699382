"""Replicas that stop before each request, and a check of every client against every server after each write."""

import base64
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from certified import CONFIGURATIONS, LEAVES, Installation, injected_in
from kube_store import Change

from berthmaster.kube.requests import APIRequest
from berthmaster.model.errors import BerthmasterError
from certs.bundle import Bundle
from certs.leaf import StoredLeaf, serves

_PATIENCE_S = 20.0


class CrashedError(Exception):
    """The replica crashes here."""


class Replica:
    """A process that reconciles certificates request by request, and may crash before any of them.

    Attributes:
        sent: the number of requests sent so far.
    """

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._go, self._paused = threading.Semaphore(0), threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        self._ended = self._crashing = False
        self._failure: BaseException | None = None
        self.sent = 0

    @property
    def running(self) -> bool:
        return self._thread is not None

    def send(self, request: APIRequest) -> Any:
        """Send a request of the replica once the test allows it."""
        self._paused.release()
        self._go.acquire()
        if self._crashing:
            raise CrashedError
        self.sent += 1
        return self._installation.cluster.send(request)

    def begin(self, **wanted: bool) -> None:
        """Start a reconciliation unless one is in progress. It stops before its first request."""
        if self._thread is None:
            self._ended = False
            self._thread = threading.Thread(target=self._run, kwargs=wanted, daemon=True)
            self._thread.start()
            self._wait()

    def send_requests(self, requests: int) -> None:
        """Send a number of requests, or as many as the reconciliation has left."""
        self.begin()
        for _ in range(requests):
            if self._thread is None:
                return
            self._go.release()
            self._wait()

    def finish(self) -> None:
        while self.running:
            self.send_requests(1)

    def crash(self) -> None:
        """Crash before the next request."""
        if self.running:
            self._crashing = True
            self.send_requests(1)
            self._crashing = False

    def _wait(self) -> None:
        assert self._paused.acquire(timeout=_PATIENCE_S), "the replica hangs"
        if self._ended and self._thread is not None:
            self._thread.join()
            self._thread = None
            if self._failure is not None:
                raise self._failure

    def _run(self, **wanted: bool) -> None:
        try:
            self._installation.replica(self).reconcile(**wanted)
        except (CrashedError, BerthmasterError):
            pass
        except BaseException as error:  # noqa: BLE001 - raised again in the thread of the test
            self._failure = error
        self._ended = True
        self._paused.release()


class History:
    """The bundles that clients may use and the leaves that servers may present.

    These are the stored versions and all versions that were stored within the lag. After every write, each such bundle
    must verify each such leaf.
    """

    def __init__(self, installation: Installation, lag: timedelta) -> None:
        self._clock = installation.clock
        self._lag = lag
        self._stored: dict[str, list[tuple[datetime, Any]]] = {}
        for path, content in installation.cluster.objects.items():
            self.record(path, content)
        installation.cluster.on_change = self.observe

    def observe(self, change: Change) -> None:
        """Handle a change. A mounted Secret survives its deletion."""
        if change.kind != "DELETED":
            self.record(change.path, change.content)

    def record(self, path: str, content: dict[str, Any]) -> None:
        if path in LEAVES.values():
            data = {name: base64.b64decode(value) for name, value in content["data"].items()}
            self._note(path, StoredLeaf(data["tls.crt"], data["tls.key"]))
        elif path in CONFIGURATIONS.values():
            self._note(path, tuple(map(Bundle.parse, injected_in(content))))
        else:
            return
        self.check()

    def check(self) -> None:
        """Check that every client verifies every server."""
        now = self._clock.now()
        leaves = [leaf for path in LEAVES.values() for leaf in self._current(path, now)]
        for path in CONFIGURATIONS.values():
            for bundle in {bundle for held in self._current(path, now) for bundle in held}:
                for leaf in leaves:
                    assert any(serves(leaf, each, now) for each in bundle), (
                        f"{now}: {path} trusts {bundle} but is served a leaf of {leaf.certificate.issuer}"
                    )

    def _note(self, path: str, what: Any) -> None:
        versions = self._stored.setdefault(path, [])
        if not versions or versions[-1][1] != what:
            versions.append((self._clock.now(), what))

    def _current(self, path: str, now: datetime) -> Iterator[Any]:
        """Yield the current version, and all that were current within the lag."""
        versions = self._stored.get(path, [])
        for index, (_, what) in enumerate(versions):
            if index + 1 == len(versions) or versions[index + 1][0] > now - self._lag:
                yield what
