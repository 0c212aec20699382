"""The client of a real API server, over persistent HTTP/1.1 connections."""

import http.client
import socket
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import urllib3
from urllib3.response import BaseHTTPResponse
from urllib3.util import SKIP_HEADER, parse_url

from berthmaster.kube.client import APIClient, APIResponse
from berthmaster.kube.connection_pool import NotConnectedError, pool_manager, tls_context
from berthmaster.kube.connection_settings import ConnectionSettings, CredentialsError
from berthmaster.kube.credentials import connection_settings
from berthmaster.kube.kubeconfig import ClusterAccess, find_access, named_files
from berthmaster.kube.manner import ManneredClient, RequestManner
from berthmaster.kube.reloading_client import ReloadingClient, UnconnectedError
from berthmaster.kube.requests import APIRequest
from berthmaster.kube.responses import decode_status
from berthmaster.kube.transport_errors import describe, is_closed, transport_problem, transport_remedy
from berthmaster.model.errors import ApiError, InputError, shown
from berthmaster.model.foreign_texts import without_urllib3_object
from berthmaster.runtime.file_states import file_states
from berthmaster.runtime.traces import inner_span, trace_headers
from berthmaster.version import __version__

CONNECT_TIMEOUT_S: Final = 10.0
_MAX_ERROR_BYTES: Final = 64 * 1024
_USER_AGENT: Final = f"berthmaster/{__version__}"
_SUCCESS: Final = (200, 201, 202)
_MAX_RETRY_AFTER_S: Final = 60.0
_PIECE_BYTES: Final = 16 * 1024  # the size of a TLS record


def load_client(kubeconfig: Path | None, context: str | None = None) -> APIClient:
    """Make a client with the access that ``find_access`` finds. Raises ``InputError`` if there is none."""
    return connect(find_access(kubeconfig, context))


def connect(access: ClusterAccess) -> APIClient:
    """Make a client, which sends nothing yet. Raises ``InputError`` if the access is not usable."""
    client = ReloadingClient(
        lambda: HTTPClient(connection_settings(access), access), state=lambda: file_states(named_files(access))
    )
    return client if access.manner == RequestManner() else ManneredClient(client, access.manner)


class HTTPClient:
    """An ``APIClient`` of one server. Safe for several threads."""

    def __init__(self, settings: ConnectionSettings, access: ClusterAccess | None = None) -> None:
        self._authorization = settings.authorization
        self._source = f" ({access})" if access is not None else ""
        server = parse_url(settings.server)
        if server.scheme not in {"http", "https"} or not server.host:
            raise InputError(f"{shown(settings.server)} is not the URL of an API server")
        self._host = server.netloc or server.host
        self._url = f"{server.scheme}://{self._host}"
        self._prefix = (server.path or "").rstrip("/")
        self._fixed = {"Accept-Encoding": SKIP_HEADER, "Host": self._host, "User-Agent": _USER_AGENT}
        tls = tls_context(settings) if server.scheme == "https" else None
        manager = pool_manager(settings, tls)
        if isinstance(manager, urllib3.ProxyManager) and server.scheme == "http":
            self._prefix = f"{self._url}{self._prefix}"  # a proxy forwards plain HTTP
            self._fixed |= manager.proxy_headers
        self._pool = manager.connection_from_url(self._url)
        self._watches = pool_manager(settings, tls)

    def send(self, request: APIRequest) -> APIResponse:
        with inner_span(request.method, path=request.path):
            return self._send(request)

    def _send(self, request: APIRequest) -> APIResponse:
        headers = self._headers(request)
        try:
            response = self._exchange(request, headers)
        except NotConnectedError as error:
            problem = without_urllib3_object(describe(error.cause))
            text = f"no connection to the API server {self._host}{self._source}: {problem}"
            raise UnconnectedError(0, "", f"{request}: {text}; {transport_remedy(error.cause)}") from None
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ApiError(0, "", f"{request}: {transport_problem(error, 'before it responded')}") from None
        if response.status not in _SUCCESS:
            raise self._error(request, response)
        if not response.chunked and "Content-Length" not in response.headers:
            # urllib3 takes a head that ends early for a complete one. API servers send one of the two.
            response.close()
            raise ApiError(0, "", f"{request}: the response says neither its length nor that it is chunked")
        return _StreamedResponse(request, response)

    def _exchange(self, request: APIRequest, headers: Mapping[str, str]) -> BaseHTTPResponse:
        """Send a request over an idle connection or a new one, and read the head of the response.

        A read is sent once more if the server has closed the idle connection. A write is not: the server may have
        processed it. A watch takes a new connection, which a load balancer gives to a server that is healthy now.
        """
        if request.verb == "watch":
            self._watches.clear()
            return self._ask(self._watches.connection_from_url(self._url), request, headers)
        try:
            return self._ask(self._pool, request, headers)
        except (urllib3.exceptions.ProtocolError, urllib3.exceptions.SSLError) as error:
            if not request.is_read or not is_closed(error):
                raise
        return self._ask(self._pool, request, headers)

    def _ask(
        self, pool: urllib3.HTTPConnectionPool, request: APIRequest, headers: Mapping[str, str]
    ) -> BaseHTTPResponse:
        target = f"{self._prefix}{request.path}"
        timeout = urllib3.Timeout(connect=min(request.read_timeout_s, CONNECT_TIMEOUT_S), read=request.read_timeout_s)
        return pool.urlopen(
            request.method,
            f"{target}?{urlencode(request.query)}" if request.query else target,
            body=request.body or None,
            headers=headers,
            retries=False,
            redirect=False,
            assert_same_host=False,
            preload_content=False,
            timeout=timeout,
        )

    def _headers(self, request: APIRequest) -> Mapping[str, str]:
        headers = {"Accept": request.accept, **self._fixed}
        if request.body:
            headers["Content-Type"] = request.content_type
        if request.body or not request.is_read:
            headers["Content-Length"] = str(len(request.body))
        try:
            authorization = self._authorization()
        except (CredentialsError, OSError) as error:
            raise ApiError(0, "", f"{request}: failed to refresh the token: {describe(error)}") from None
        if authorization:
            headers["Authorization"] = authorization
        found = urllib3.HTTPHeaderDict({**headers, **trace_headers()})
        for name, value in request.headers:  # a name can have several values
            found.add(name, value)
        if any("\r" in value or "\n" in value for value in found.values()):
            raise InputError(f"{request}: a header has a line break; its value may be a token and is not shown")
        return found

    def _error(self, request: APIRequest, response: BaseHTTPResponse) -> ApiError:
        """Make the error of a response that is not a success. A ``v1.Status`` in its body has the details."""
        body = b""
        with _StreamedResponse(request, response) as streamed, suppress(ApiError):  # a part is better than none
            for part in streamed.chunks():
                body += part
                if len(body) > _MAX_ERROR_BYTES:
                    break
        status = decode_status(body)
        reason = http.client.responses.get(response.status, "")
        message = f"{request}: {response.status} {status.message or reason}".rstrip()
        if response.status == HTTPStatus.UNAUTHORIZED:
            message += f"{self._source}; the credentials are not accepted: log in again, or use another context"
        return ApiError(response.status, status.reason, message, _retry_after_s(response.headers.get("Retry-After")))


class _StreamedResponse(AbstractContextManager["_StreamedResponse"]):
    def __init__(self, request: APIRequest, response: BaseHTTPResponse) -> None:
        self._request = request
        self._response = response
        connection: Any = response.connection
        self._socket = connection.used if connection is not None else None

    def __exit__(self, *_: object) -> None:
        if self._response.connection is not None:
            self._response.close()  # not read completely
            self._response.release_conn()

    def chunks(self) -> Iterator[bytes]:
        response = self._response
        try:
            if response.chunked:
                yield from response.read_chunked(_PIECE_BYTES, decode_content=False)
                return
            while part := response.read1(_PIECE_BYTES, decode_content=False):
                yield part
        except (urllib3.exceptions.HTTPError, OSError) as error:
            problem = transport_problem(error, "in the middle of the response")
            raise ApiError(0, "", f"{self._request}: {problem}") from None

    def header(self, name: str) -> list[str]:
        return self._response.headers.getlist(name)

    def abort(self) -> None:
        if self._response.connection is not None:  # else another request may use the connection by now
            # Bypass the TLS layer: its state belongs to the thread that receives.
            with suppress(OSError):  # it is closed already
                plain: Any = getattr(self._socket, "socket", self._socket)
                socket.socket.shutdown(plain, socket.SHUT_RDWR)


def _retry_after_s(text: str | None) -> float:
    """Return the seconds of ``Retry-After``. A date, which API servers never send, counts as 0."""
    return min(float(text), _MAX_RETRY_AFTER_S) if text and text.isascii() and text.isdigit() else 0.0
