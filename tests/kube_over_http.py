"""The API server of ``fake_kube`` over real HTTP (pytest-httpserver), with lists, watches, and storms of faults."""

import json
import random
import re
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fake_kube import FakeApi
from kubernetes.client import Configuration
from pytest_httpserver import HTTPServer
from werkzeug import Request as HttpRequest
from werkzeug import Response

from fleet.errors import ApiError
from fleet.kube.connection import OfficialConnection
from fleet.kube.requests import Request

OBJECT = re.compile(r"(?P<group>/api/v1|/apis/[^/]+/[^/]+)(/namespaces/[^/]+)?/(?P<plural>[a-z]+)/[^/]+")
Storm = Callable[[str], str]
"""What befalls the next request of a verb: nothing (empty), a status, ``cut`` before anything happened, or ``half`` an
answer after it did."""


def no_storm(_verb: str) -> str:
    return ""


def storm_of(seed: int, shares: Mapping[str, float]) -> Storm:
    """Faults at random, each with its share of all requests."""
    draw = random.Random(seed)

    def storm(_verb: str) -> str:
        return draw.choices([*shares, ""], [*shares.values(), 1 - sum(shares.values())])[0]

    return storm


class KubeOverHttp:
    """A server on loopback.

    Attributes:
        api: what it serves.
        storm: what befalls requests.
        befallen: how often what did.
        retry_after_s: how long clients are asked to leave it alone with a 429.
        oldest: from which version on watches are remembered; older ones are told 410.
    """

    def __init__(self, api: FakeApi | None = None) -> None:
        self.api = api or FakeApi()
        self.storm: Storm = no_storm
        self.befallen: dict[str, int] = {}
        self.retry_after_s = 0
        self.oldest = 0
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._http = HTTPServer(threaded=True)
        self._http.expect_request(re.compile(".*")).respond_with_handler(self._answer)
        self._http.start()

    def connection(self) -> OfficialConnection:
        """A connection of its own to it."""
        configuration = Configuration()
        configuration.host = self._http.url_for("").rstrip("/")
        return OfficialConnection(configuration)

    def cut_watches(self, *, forget: bool = False) -> None:
        """End all watches in the middle; with ``forget``, what was before is not remembered either."""
        with self.api.changed:
            self._closing.set()
            self._closing = threading.Event()
            self.oldest = self.api.version if forget else self.oldest
            self.api.changed.notify_all()

    def close(self) -> None:
        self.cut_watches()
        self._http.stop()

    def _answer(self, http: HttpRequest) -> Response:
        request = Request(
            http.path,
            tuple(http.args.items()),
            method=http.method,
            body=http.get_data(),
            content_type=http.content_type,
        )
        listing = http.method == "GET" and OBJECT.fullmatch(http.path) is None
        verb = "watch" if "watch" in http.args else "list" if listing else request.verb
        with self._lock:
            fault = self.storm(verb)
            self.befallen[fault] = self.befallen.get(fault, 0) + 1
        if fault.isdigit():
            return _status(int(fault), {"Retry-After": str(self.retry_after_s)} if fault == "429" else {})
        if fault == "cut":
            http.environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            return Response()
        if verb == "watch":
            return self._watch(http)
        try:
            body = self._list(http.path) if verb == "list" else b"".join(self.api.send(request).chunks())
        except ApiError as error:
            return _status(error.status)
        if fault == "half":
            # Of a body that is no list, werkzeug does not correct the length.
            return Response(iter([body[: len(body) // 2]]), headers={"Content-Length": str(len(body))})
        return Response(body, content_type="application/json")

    def _list(self, collection: str) -> bytes:
        with self.api.changed:
            items = [found for path, found in self.api.objects.items() if _belongs(path, collection)]
            return json.dumps({"metadata": {"resourceVersion": str(self.api.version)}, "items": items}).encode()

    def _watch(self, http: HttpRequest) -> Response:
        since, closing = int(http.args["resourceVersion"]), self._closing
        if since < self.oldest:
            return _status(410)

        def lines() -> Iterator[bytes]:
            seen = since
            yield b"\n"  # sends the head, as an API server does before there are news
            while not closing.is_set():
                with self.api.changed:
                    news = [each for each in self.api.log if each[0] > seen and _belongs(each[2], http.path)]
                    if not news:
                        self.api.changed.wait(0.05)
                for version, kind, _, content in news:
                    seen = version
                    yield json.dumps({"type": kind, "object": content}).encode() + b"\n"
            http.environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)

        return Response(lines(), content_type="application/json", direct_passthrough=True)


def _belongs(path: str, collection: str) -> bool:
    match = OBJECT.fullmatch(path)
    return match is not None and f"{match['group']}/{match['plural']}" == collection


def _status(status: int, headers: dict[str, Any] | None = None) -> Response:
    body = json.dumps({"kind": "Status", "code": status, "reason": "Told", "message": "as told"})
    return Response(body, status, headers, content_type="application/json")
