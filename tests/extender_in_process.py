"""An extender without a socket: it watches a control plane in memory, and clients call its WSGI application."""

from collections.abc import Mapping
from io import BytesIO

from extender_services import WatchedPlane
from kube_in_memory import KubeInMemory
from urllib3 import HTTPResponse

from berthmaster.ledger.reader import LedgerReader
from berthmaster.native_api.client import Client
from berthmaster.native_api.connection import Answer
from berthmaster.runtime.clock import Clock
from extender.app import Middleware, create_app
from extender.protocols import native

_LIMIT_S = 30.0


class ExtenderInProcess:
    """An extender that watches a control plane in memory.

    Attributes:
        state: what it knows.
        wait: waits until a condition holds.
        stop: ends the watches.
    """

    def __init__(self, api: KubeInMemory, ledger: LedgerReader | None = None, clock: Clock | None = None) -> None:
        """Start to watch, and wait until all objects are known. ``ledger`` is the one to answer from."""
        plane = WatchedPlane(api, clock=clock)
        self.state, self.wait, self.stop = plane.state, plane.wait, plane.stop
        plane.services.ledger = ledger
        middleware = Middleware(plane.services, request_timeout_s=_LIMIT_S, stream_timeout_s=_LIMIT_S)
        self._app = create_app(middleware, native.routes(native.Planner()))
        plane.start()

    def client(self) -> Client:
        """Return a client of its native API, as ``extender_clients`` do."""
        client, app = Client("http://127.0.0.1:1"), self._app.test_client()

        def ask(
            method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None, _most: int = 0
        ) -> Answer:
            found = app.open(path, method=method, data=body, headers=headers or {"Content-Type": "application/json"})
            return Answer(found.status_code, found.status, found.data)

        def begin(method: str, path: str, body: bytes, headers: Mapping[str, str]) -> HTTPResponse:
            found = app.open(path, method=method, data=body, headers=headers)
            return HTTPResponse(BytesIO(found.data), status=found.status_code, preload_content=False)

        client._connection.ask, client._connection.begin = ask, begin  # noqa: SLF001 - no socket
        return client
