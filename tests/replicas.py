"""Replicas that go on request by request, and what clients and servers may have at each moment meanwhile."""

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
    """The process ends here."""


class Replica:
    """A process that looks at the certificates, goes on by one request when told to, and may end before any of them.

    Attributes:
        sent: how many requests it has sent.
    """

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._go, self._paused = threading.Semaphore(0), threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        self._ended = self._crashing = False
        self._failure: BaseException | None = None
        self.sent = 0

    @property
    def looking(self) -> bool:
        """Whether it is in the middle of a look."""
        return self._thread is not None

    def send(self, request: APIRequest) -> Any:
        """An ``APIClient``: waits for its turn."""
        self._paused.release()
        self._go.acquire()
        if self._crashing:
            raise CrashedError
        self.sent += 1
        return self._installation.cluster.send(request)

    def begin(self, **wanted: bool) -> None:
        """Start to look, if it is not at it; nothing is sent yet."""
        if self._thread is None:
            self._ended = False
            self._thread = threading.Thread(target=self._run, kwargs=wanted, daemon=True)
            self._thread.start()
            self._wait()

    def go_on(self, requests: int) -> None:
        """Send so many requests, or as many as a look has."""
        self.begin()
        for _ in range(requests):
            if self._thread is None:
                return
            self._go.release()
            self._wait()

    def finish(self) -> None:
        """Look to the end."""
        while self.looking:
            self.go_on(1)

    def crash(self) -> None:
        """End before the next request, if there is one."""
        if self.looking:
            self._crashing = True
            self.go_on(1)
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
        except BaseException as error:  # noqa: BLE001 - told to the test, in its own thread
            self._failure = error
        self._ended = True
        self._paused.release()


class History:
    """What clients may trust and servers may show: what is stored, or was at some moment not longer ago than the lag.

    Every write is checked: each client that may be has to verify each server that may be.
    """

    def __init__(self, installation: Installation, lag: timedelta) -> None:
        self._clock = installation.clock
        self._lag = lag
        self._stored: dict[str, list[tuple[datetime, Any]]] = {}
        for path, content in installation.cluster.objects.items():
            self.written(path, content)
        installation.cluster.heard = self.heard

    def heard(self, change: Change) -> None:
        """Something was stored, or is gone; what is mounted stays."""
        if change.kind != "DELETED":
            self.written(change.path, change.content)

    def written(self, path: str, content: dict[str, Any]) -> None:
        """Something was stored."""
        if path in LEAVES.values():
            data = {name: base64.b64decode(value) for name, value in content["data"].items()}
            self._note(path, StoredLeaf(data["tls.crt"], data["tls.key"]))
        elif path in CONFIGURATIONS.values():
            self._note(path, tuple(map(Bundle.parse, injected_in(content))))
        else:
            return
        self.check()

    def check(self) -> None:
        """Every client verifies every server."""
        now = self._clock.now()
        leaves = [leaf for path in LEAVES.values() for leaf in self._current(path, now)]
        for path in CONFIGURATIONS.values():
            for bundle in {bundle for held in self._current(path, now) for bundle in held}:
                for leaf in leaves:
                    assert any(serves(leaf, each, now) for each in bundle), (
                        f"{now}: {path} trusts {bundle} and meets a leaf of {leaf.certificate.issuer}"
                    )

    def _note(self, path: str, what: Any) -> None:
        versions = self._stored.setdefault(path, [])
        if not versions or versions[-1][1] != what:
            versions.append((self._clock.now(), what))

    def _current(self, path: str, now: datetime) -> Iterator[Any]:
        """The last version, and all that were the last one at some moment of the lag."""
        versions = self._stored.get(path, [])
        for index, (_, what) in enumerate(versions):
            if index + 1 == len(versions) or versions[index + 1][0] > now - self._lag:
                yield what
