"""The API server of ``kube_in_memory`` over real HTTP (pytest-httpserver), with random faults."""

import json
import random
import re
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from kube_in_memory import KubeInMemory
from kube_store import Place
from pytest_httpserver import HTTPServer
from werkzeug import Request as HttpRequest
from werkzeug import Response

from berthmaster.kube.client import APIResponse
from berthmaster.kube.connection_settings import ConnectionSettings
from berthmaster.kube.http_client import HTTPClient
from berthmaster.kube.requests import APIRequest
from berthmaster.model.errors import ApiError

_POLL_S: Final = 0.02
"""How often a server looks whether it must stop."""

Storm = Callable[[str], str]
"""Chooses the fault of the next request of a verb.

Empty: none; a status; ``cut``: close the connection before the request is processed; ``half``: send half of the
response after it was processed.
"""


def no_storm(_verb: str) -> str:
    return ""


def storm_of(seed: int, shares: Mapping[str, float]) -> Storm:
    """Choose faults at random, each with its share of all requests."""
    draw = random.Random(seed)

    def storm(_verb: str) -> str:
        return draw.choices([*shares, ""], [*shares.values(), 1 - sum(shares.values())])[0]

    return storm


class PromptHTTPServer(HTTPServer):
    """An HTTP server that stops at once, and not after half a second."""

    def thread_target(self) -> None:
        assert self.server is not None
        self.server.serve_forever(_POLL_S)


class KubeOverHTTP:
    """An API server on loopback.

    Attributes:
        api: the API server in memory.
        storm: chooses the faults.
        fault_counts: the number of requests by fault.
        retry_after_s: the ``Retry-After`` of a 429.
    """

    def __init__(self) -> None:
        self.api = KubeInMemory()
        self.storm: Storm = no_storm
        self.fault_counts: dict[str, int] = {}
        self.retry_after_s = 0
        self._lock = threading.Lock()
        self._http = PromptHTTPServer(threaded=True)
        self._http.expect_request(re.compile(".*")).respond_with_handler(self._answer)
        self._http.start()

    @property
    def url(self) -> str:
        """The address, without a slash at the end."""
        return str(self._http.url_for("")).rstrip("/")

    def kubeconfig(self) -> str:
        """Return a kubeconfig of the server, whose context has the namespace shop."""
        context = {"cluster": "karmada", "user": "me", "namespace": "shop"}
        return json.dumps({
            "current-context": "karmada",
            "clusters": [{"name": "karmada", "cluster": {"server": self.url}}],
            "contexts": [{"name": "karmada", "context": context}],
            "users": [{"name": "me", "user": {}}],
        })  # fmt: skip

    def client(self) -> HTTPClient:
        return HTTPClient(ConnectionSettings(self.url))

    def close(self) -> None:
        self.api.cut_watches()
        self._http.stop()

    def _answer(self, http: HttpRequest) -> Response:
        request = APIRequest(
            http.path,
            tuple(http.args.items()),
            method=http.method,
            body=http.get_data(),
            content_type=http.content_type,
            accept=http.headers.get("Accept", ""),
        )
        discovery = request.path in ("/api", "/apis")
        listing = request.is_read and not discovery and not Place.of(request.path).name
        verb = "list" if listing and "watch" not in http.args else request.verb
        fault = self._choose_fault(verb)
        if fault.isdigit():
            return _refused(ApiError(int(fault), "Injected", "injected", self.retry_after_s if fault == "429" else 0))
        if fault == "cut":
            http.environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            return Response()
        try:
            answer = self.api.send(request)
        except ApiError as error:
            return _refused(error)
        if verb == "watch":
            return Response(_cut_off(answer, http), content_type="application/json", direct_passthrough=True)
        body = b"".join(answer.chunks())
        if fault == "half":
            # werkzeug corrects the length of a list, but not of another iterable.
            return Response(iter([body[: len(body) // 2]]), headers={"Content-Length": str(len(body))})
        return Response(body, content_type="application/json")

    def _choose_fault(self, verb: str) -> str:
        with self._lock:
            fault = self.storm(verb)
            self.fault_counts[fault] = self.fault_counts.get(fault, 0) + 1
            return fault


def _cut_off(answer: APIResponse, http: HttpRequest) -> Iterator[bytes]:
    """Stream the events of a watch. Break the connection when the watch ends."""
    yield b"\n"  # sends the head before the first event, as an API server does
    yield from answer.chunks()
    http.environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)


def _refused(error: ApiError) -> Response:
    body = json.dumps({"kind": "Status", "code": error.status, "reason": error.reason, "message": str(error)})
    headers = {"Retry-After": f"{error.retry_after_s:g}"} if error.status == 429 else {}
    return Response(body, error.status, headers, content_type="application/json")
