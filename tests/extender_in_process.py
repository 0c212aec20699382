"""An extender without a socket: it watches a control plane in memory, and clients call its WSGI application."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from fake_clock import FakeClock
from fake_metrics import FakeMetrics
from flask.testing import FlaskClient
from kube_in_memory import KubeInMemory

from berthmaster.kube.kinds import KARMADA_CLUSTERS, KARMADA_POLICIES
from berthmaster.ledger.records import HistorySource
from berthmaster.native_api.client import Client
from berthmaster.native_api.connection import Answer
from berthmaster.scheduling.karmada.profile import karmada_profile
from extender.app import Middleware, create_app
from extender.protocols import native
from extender.protocols.services import Services
from extender.state.state import State
from extender.state.watch import BindingOptions, WatchSource

_LIMIT_S = 30.0


class _AppClient:
    """A ``WebClient`` of a WSGI application in this process."""

    def __init__(self, app: FlaskClient) -> None:
        self._app = app

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        found = self._app.open(path, method=method, data=body, headers=headers)
        return Answer(found.status_code, found.status, found.data)

    def within(self, _timeout_s: float) -> "_AppClient":
        """Return this client: there is no socket that could be slow."""
        return self

    def close(self) -> None:
        """Do nothing: there is no socket."""


class ExtenderInProcess:
    """An extender that watches a control plane in memory.

    Attributes:
        state: what it knows.
    """

    def __init__(self, api: KubeInMemory, ledger: HistorySource | None = None) -> None:
        """Start to watch, and wait until all objects are known. ``ledger`` is the one to answer from."""
        self._api, clock = api, FakeClock()
        self.state = State(karmada_profile())
        options = BindingOptions(templates=True)
        self._source = WatchSource(lambda: api, KARMADA_CLUSTERS, KARMADA_POLICIES, options, clock=clock)
        log = logging.getLogger("test")
        services = Services(self.state, metrics=FakeMetrics(), log=log, clock=clock, ledger=ledger)
        middleware = Middleware(services, request_timeout_s=_LIMIT_S, stream_timeout_s=_LIMIT_S)
        self._app = create_app(middleware, native.routes(native.Planner()))
        self._source.start(self.state)
        self.wait(lambda: self.state.freshness.synced)

    def wait(self, check: Callable[[], Any]) -> None:
        """Wait until a condition holds."""
        deadline_s = time.monotonic() + _LIMIT_S
        while not check():
            assert time.monotonic() < deadline_s, self.state.freshness
            time.sleep(0.005)

    def client(self) -> Client:
        """Return a client of its native API, as ``ExtenderClients`` does."""
        client = Client("http://127.0.0.1:1")
        client._connection._client = _AppClient(self._app.test_client())  # noqa: SLF001 - type: ignore[assignment]
        return client

    def stop(self) -> None:
        self._api.cut_watches()
        self._source.stop()
