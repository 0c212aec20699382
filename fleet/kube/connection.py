"""The one way to an API server: the official client's configuration and transport, and nothing else of it."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlencode

import urllib3
import yaml
from kubernetes import client, config

from fleet.errors import ApiError, InputError
from fleet.kube.messages import status_of
from fleet.kube.requests import Request
from fleet.kube.transport import Answer
from fleet.version import __version__

CONNECT_TIMEOUT_S: Final = 10.0
MAX_IDLE_CONNECTIONS: Final = 64
"""How many connections are kept for the next request."""
_MAX_PROBLEM_BYTES: Final = 64 * 1024
_USER_AGENT: Final = f"berthmaster/{__version__}"
_FINE: Final = (200, 201, 202)
_LONGEST_RETRY_AFTER_S: Final = 60.0
_ONCE: Final = urllib3.Retry(total=False, redirect=False)
_CHUNK: Final = 64 * 1024
# The client walks through a file that may hold anything, and complains of it in all these ways.
_UNUSABLE: Final = (
    config.ConfigException, yaml.YAMLError, OSError, ValueError, TypeError, KeyError, AttributeError,
)  # fmt: skip


class OfficialConnection:
    """A connection through the official client's configuration and pool of connections. Safe for several threads.

    Requests go to the pool itself: the client's own way there builds and checks each request at five times the cost of
    sending it, which a controller that writes hundreds of times a second feels.
    """

    def __init__(self, configuration: client.Configuration) -> None:
        configuration.retries = False  # whoever asks decides whether to ask again
        configuration.keep_alive = True  # so that a host that vanished is noticed
        configuration.connection_pool_maxsize = MAX_IDLE_CONNECTIONS
        self._configuration = configuration
        self._pool = client.ApiClient(configuration).rest_client.pool_manager

    def send(self, request: Request) -> Answer:
        """Send a request; see ``Connection``."""
        url = self._configuration.host + request.path
        if request.query:
            url = f"{url}?{urlencode(request.query)}"
        try:
            answer = self._pool.request(
                request.method,
                url,
                body=request.body or None,
                headers=self._headers(request),
                timeout=urllib3.Timeout(connect=min(CONNECT_TIMEOUT_S, request.silence_s), read=request.silence_s),
                retries=_ONCE,
                preload_content=False,
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ApiError(0, "", f"{_name(request)}: {_told(error)}") from None
        if answer.status not in _FINE:
            raise _refused(request, answer)
        return _Streamed(request, answer)

    def _headers(self, request: Request) -> dict[str, str]:
        """Who asks, and in which language; tokens are read anew by the client when they are old."""
        headers = {"Accept": request.accept, "User-Agent": _USER_AGENT}
        if request.body:
            headers["Content-Type"] = request.content_type
        for setting in cast("dict[str, dict[str, str]]", self._configuration.auth_settings()).values():
            headers[setting["key"]] = setting["value"]
        return headers | dict(request.headers)


def connect(kubeconfig: Path | None, context: str | None = None) -> OfficialConnection:
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
        raise InputError(f"{where}: {_told(error)}; name a kubeconfig file with access to the API server") from None
    return OfficialConnection(configuration)


class _Streamed(AbstractContextManager["_Streamed"]):
    """An answer of urllib3."""

    def __init__(self, request: Request, answer: urllib3.BaseHTTPResponse) -> None:
        self._request = request
        self._answer = answer

    def __exit__(self, *_: object) -> None:
        self._answer.close()

    def chunks(self) -> Iterator[bytes]:
        try:
            while chunk := self._answer.read1(_CHUNK):
                yield chunk
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise ApiError(0, "", f"{_name(self._request)}: {_told(error)}") from None

    def header(self, name: str) -> list[str]:
        return self._answer.headers.getlist(name)

    def abort(self) -> None:
        try:
            self._answer.shutdown()
        except (ValueError, OSError, RuntimeError):
            self._answer.close()  # it has ended by itself meanwhile


def _refused(request: Request, answer: urllib3.BaseHTTPResponse) -> ApiError:
    """An error status; a body that is a ``v1.Status`` says more."""
    try:
        body = answer.read(_MAX_PROBLEM_BYTES)
    except (urllib3.exceptions.HTTPError, OSError):
        body = b""
    finally:
        answer.close()
    told = status_of(body)
    message = f"{_name(request)}: {answer.status} {told.message or answer.reason or ''}".rstrip()
    return ApiError(answer.status, told.reason, message, _retry_after_s(answer))


def _retry_after_s(answer: urllib3.BaseHTTPResponse) -> float:
    """How long the server wants to be left alone; a date, which API servers never send, counts as silence."""
    text = answer.headers.get("Retry-After", "")
    return min(float(text), _LONGEST_RETRY_AFTER_S) if text.isascii() and text.isdigit() else 0.0


def _name(request: Request) -> str:
    return f"{request.method} {request.path}"


def _told(error: Exception) -> str:
    """A transport's error in a line."""
    reason: Any = getattr(error, "reason", None) or error
    return " ".join(str(reason).split())[:512] or type(error).__name__
