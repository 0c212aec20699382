"""The one way to an API server: the official client's configuration, and connections that are kept."""

import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, cast
from urllib.parse import urlencode

import yaml
from kubernetes import client, config

from berthmaster.kube.client import APIResponse
from berthmaster.kube.dialing import Dialing, told
from berthmaster.kube.link import HungUpError, Link, Reading
from berthmaster.kube.requests import APIRequest
from berthmaster.kube.responses import decode_status
from berthmaster.model.errors import ApiError, InputError
from berthmaster.version import __version__

MAX_IDLE_CONNECTIONS: Final = 64
"""How many connections are kept for the next request."""
_MAX_PROBLEM_BYTES: Final = 64 * 1024
_USER_AGENT: Final = f"berthmaster/{__version__}"
_FINE: Final = (200, 201, 202)
_LONGEST_RETRY_AFTER_S: Final = 60.0
# The client walks through a file that may hold anything, and complains of it in all these ways.
_UNUSABLE: Final = (
    config.ConfigException, yaml.YAMLError, OSError, ValueError, TypeError, KeyError, AttributeError,
)  # fmt: skip


class HTTPClient:
    """A connection with the official client's configuration. Safe for several threads.

    The client's pool is not used: each request would cost six times as much, most of it for locks and looks at sockets
    that make threads wait for each other.
    """

    def __init__(self, configuration: client.Configuration) -> None:
        configuration.keep_alive = True  # so that a host that vanished is noticed
        self._configuration = configuration
        self._dialing = Dialing(configuration)
        self._idle: deque[Link] = deque()
        weakref.finalize(self, _close, self._idle)

    def send(self, request: APIRequest) -> APIResponse:
        """Send a request; see ``APIClient``."""
        message = self._message(request)
        try:
            link, reading = self._asked(request, message)
        except ApiError as error:
            raise ApiError(0, "", f"{_name(request)}: {error}") from None
        if reading.status not in _FINE:
            raise self._refused(request, link, reading)
        return _Streamed(self, request, link, reading)

    def release(self, link: Link, reading: Reading) -> None:
        """An answer is not read any further: keep the connection for the next request if that is possible."""
        if reading.whole and reading.reusable and len(self._idle) < MAX_IDLE_CONNECTIONS:
            link.rest()
            self._idle.append(link)
        else:
            link.close()

    def _asked(self, request: APIRequest, message: bytes) -> tuple[Link, Reading]:
        """Send a message over a connection that is there, or a new one.

        What changes nothing is asked once more if the server has hung up since it was asked last.
        """
        link = self._kept()
        if link is not None:
            try:
                return link, link.ask(message, request.read_timeout_s)
            except HungUpError:
                if not request.is_read:
                    raise
        link = Link(self._dialing.open(request.read_timeout_s))
        return link, link.ask(message, request.read_timeout_s)

    def _kept(self) -> Link | None:
        while self._idle:
            try:
                link = self._idle.pop()
            except IndexError:
                return None  # another thread was quicker
            if link.usable:
                return link
            link.close()
        return None

    def _message(self, request: APIRequest) -> bytes:
        """A request as it goes over the wire."""
        target = self._dialing.prefix + request.path
        if request.query:
            target = f"{target}?{urlencode(request.query)}"
        lines = [f"{request.method} {target} HTTP/1.1", f"Host: {self._dialing.host}"]
        lines += [f"{name}: {value}" for name, value in self._headers(request).items()]
        if any("\r" in line or "\n" in line for line in lines):
            raise InputError(f"{_name(request)}: a line break in a header, which is not shown: it may be a token")
        head = "\r\n".join([*lines, "", ""])
        return head.encode("latin-1", "replace") + request.body

    def _headers(self, request: APIRequest) -> dict[str, str]:
        """Who asks, and in which language; tokens are read anew by the client when they are old."""
        headers = {"Accept": request.accept, "User-Agent": _USER_AGENT}
        if request.body:
            headers["Content-Type"] = request.content_type
        if request.body or not request.is_read:
            headers["Content-Length"] = str(len(request.body))
        try:
            settings = cast("dict[str, dict[str, str]]", self._configuration.auth_settings())
        except _UNUSABLE as error:
            raise ApiError(0, "", f"{_name(request)}: there is no new token: {told(error)}") from None
        headers |= {each["key"]: each["value"] for each in settings.values() if each["value"]}
        return headers | dict(request.headers)

    def _refused(self, request: APIRequest, link: Link, reading: Reading) -> ApiError:
        """An error status; a body that is a ``v1.Status`` says more."""
        body = b""
        try:
            for part in reading.chunks():
                body += part
                if len(body) > _MAX_PROBLEM_BYTES:
                    break
        except ApiError:
            pass  # what has come of it has to do
        self.release(link, reading)
        status = decode_status(body)
        message = f"{_name(request)}: {reading.status} {status.message or reading.reason}".rstrip()
        return ApiError(reading.status, status.reason, message, _retry_after_s(reading))


def load_client(kubeconfig: Path | None, context: str | None = None) -> HTTPClient:
    """A connection to the API server of a kubeconfig file, or, without one, of the cluster that this runs in.

    Raises:
        InputError: the file cannot be used, or this runs in no cluster.
    """
    configuration = client.Configuration()
    try:
        if kubeconfig is None:
            config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call] # it has none
        else:
            config.load_kube_config(  # type: ignore[no-untyped-call] # it has none
                str(kubeconfig), context=context, client_configuration=configuration, persist_config=False
            )
    except _UNUSABLE as error:
        where = kubeconfig or "the configuration inside a cluster"
        raise InputError(f"{where}: {told(error)}; name a kubeconfig file with access to the API server") from None
    return HTTPClient(configuration)


class _Streamed(AbstractContextManager["_Streamed"]):
    """An answer, read over a connection that goes back to where it came from."""

    def __init__(self, owner: HTTPClient, request: APIRequest, link: Link, reading: Reading) -> None:
        self._owner = owner
        self._request = request
        self._link = link
        self._reading = reading
        self._over = False

    def __exit__(self, *_: object) -> None:
        self._over = True
        self._owner.release(self._link, self._reading)

    def chunks(self) -> Iterator[bytes]:
        try:
            yield from self._reading.chunks()
        except ApiError as error:
            raise ApiError(0, "", f"{_name(self._request)}: {error}") from None

    def header(self, name: str) -> list[str]:
        return self._reading.header(name)

    def abort(self) -> None:
        if not self._over:  # else the connection is for others by now
            self._link.interrupt()


def _close(idle: deque[Link]) -> None:
    """Nobody sends anything any more."""
    for link in idle:
        link.close()


def _retry_after_s(reading: Reading) -> float:
    """How long the server wants to be left alone; a date, which API servers never send, counts as silence."""
    text = next(iter(reading.header("Retry-After")), "")
    return min(float(text), _LONGEST_RETRY_AFTER_S) if text.isascii() and text.isdigit() else 0.0


def _name(request: APIRequest) -> str:
    return f"{request.method} {request.path}"
