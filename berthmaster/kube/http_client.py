"""The client of a real API server: the official client's configuration over persistent HTTP/1.1 connections.

Tokens and certificates expire, and a kubelet or a controller replaces their files before. The official client reads
most of these files only once. This client reads them again when the API server refuses its credentials, and when it
cannot connect and the files have changed: a renewed authority and a new address of the server make connections fail.
"""

import http.client
import logging
import os
import shutil
import socket
import ssl
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import unquote, urlencode

import urllib3
import yaml
from kubernetes import client, config
from kubernetes.client import Configuration
from kubernetes.client.rest import is_socks_proxy_url
from kubernetes.config import ConfigException
from kubernetes.config.dateutil import parse_rfc3339
from kubernetes.config.exec_provider import ExecProvider
from kubernetes.config.kube_config import FileOrData, KubeConfigLoader, KubeConfigMerger
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.response import BaseHTTPResponse
from urllib3.util import SKIP_HEADER, Url, parse_url

from berthmaster.kube.client import APIClient, APIResponse
from berthmaster.kube.kubeconfig import ClusterAccess, find_access, named_files
from berthmaster.kube.manner import ManneredClient, RequestManner
from berthmaster.kube.requests import APIRequest, decode_status
from berthmaster.model.errors import ApiError, InputError, shown
from berthmaster.model.foreign_texts import without_urllib3_object
from berthmaster.runtime.clock import Clock, SystemClock
from berthmaster.runtime.file_states import file_states
from berthmaster.runtime.logs import inner_span, trace_headers
from berthmaster.version import __version__

_CERTIFICATE: Final = {"clientCertificateData": "cert_file", "clientKeyData": "key_file"}


def load_credentials(access: ClusterAccess, configuration: Configuration) -> None:
    """Set the server and the credentials. Raises ``ConfigException`` and, as the official client, other errors."""
    merged = KubeConfigMerger(os.pathsep.join(map(str, access.files)))  # type: ignore[no-untyped-call] # no types
    loader = _CredentialLoader(merged.config, active_context=access.context, config_base_path=None)  # type: ignore[no-untyped-call]
    loader.load_and_set(configuration)  # type: ignore[no-untyped-call]
    if "proxy" in vars(loader):  # proxy-url of the kubeconfig: like kubectl, use it whatever NO_PROXY says
        configuration.no_proxy = None


class _CredentialLoader(KubeConfigLoader):
    """The official loader, without silence about credentials that it could not read."""

    def _load_authentication(self) -> None:
        context: Any = self._current_context
        user: Any = self._user
        named = context["context"].safe_get("user")
        if named and user is None:
            raise ConfigException(f"there is no user {shown(named)}, which the context names")
        super()._load_authentication()  # type: ignore[no-untyped-call] # it has no types
        if user and "auth-provider" in user and "token" not in self.__dict__:
            name = user["auth-provider"].safe_get("name")
            raise ConfigException(f"the auth-provider {shown(name)} gave no token; use the exec plugin of the provider")

    def _load_from_exec_plugin(self) -> bool | None:
        user: Any = self._user
        cluster: Any = self._cluster
        if "exec" not in user:
            return None
        plugin = user["exec"]
        folder = self._get_base_path(cluster.path)  # type: ignore[no-untyped-call]
        try:
            status = ExecProvider(plugin, folder, cluster).run()  # type: ignore[no-untyped-call]
            self._use(status, folder)
        except (ConfigException, OSError, AttributeError, KeyError, TypeError, ValueError) as error:
            raise ConfigException(_plugin_problem(plugin, folder, error)) from None
        return True

    def _use(self, status: Any, folder: str) -> None:  # noqa: ANN401 - the plugin's JSON
        """Take over the credentials that the plugin printed (client.authentication.k8s.io ExecCredentialStatus)."""
        if "token" in status:
            self.token = f"Bearer {status['token']}"
        elif not _CERTIFICATE.keys() <= status.keys():
            raise ConfigException("it printed neither a token nor a certificate with its key")
        if _CERTIFICATE.keys() <= status.keys():
            for key, attribute in _CERTIFICATE.items():
                data = FileOrData(
                    status, None, data_key_name=key, file_base_path=folder, base64_file_content=False,
                    temp_file_path=self._temp_file_path,
                )  # type: ignore[no-untyped-call] # fmt: skip
                setattr(self, attribute, data.as_file())  # type: ignore[no-untyped-call]
        if "expirationTimestamp" in status:
            self.expiry = parse_rfc3339(status["expirationTimestamp"])  # type: ignore[no-untyped-call]


def _plugin_problem(plugin: Any, folder: str, error: Exception) -> str:  # noqa: ANN401 - the official client's node
    command = str(plugin.safe_get("command"))
    path = str(Path(folder or ".") / command) if os.sep in command else command
    missing = shutil.which(path) is None
    problem = "is not installed, or is not on the PATH" if missing else f"failed: {describe(error).rstrip('.')}"
    hint = " ".join(str(plugin.safe_get("installHint") or "").split()).rstrip(".")
    return f"the credential plugin {shown(command)} {problem}{f'; {hint}' if hint and missing else ''}"


_LOG: Final = logging.getLogger("berthmaster.kube")
_INTERVAL_S: Final = 10.0
"""The shortest time between two reads of the credentials. A server may refuse new ones, too."""


class UnconnectedError(ApiError):
    """There is no connection to the API server. It has received nothing of the request."""


class ReloadingClient:
    """An ``APIClient`` that replaces itself when its access does not work any more. Safe for several threads."""

    def __init__(
        self,
        load: Callable[[], APIClient],
        clock: Clock | None = None,
        state: Callable[[], object] = lambda: None,
    ) -> None:
        """Load the first client.

        Args:
            load: makes a client. It raises ``InputError`` if the present credentials are not usable.
            state: returns a value that differs after the access has changed. It raises ``InputError`` or ``OSError`` if
                the access cannot be read.
        """
        self._load = load
        self._clock = clock or SystemClock()
        self._state = state
        self._lock = threading.Lock()
        self._again_s = 0.0
        self._loaded = self._present()
        self._client = load()

    def send(self, request: APIRequest) -> APIResponse:
        """Send a request. It is sent once more, with a new client, if the API server has not processed it."""
        client = self._client
        try:
            return client.send(request)
        except UnconnectedError as error:
            if not self._has_changed(client) or not self._reload(client, str(error)):
                raise
        except ApiError as error:
            if error.status != HTTPStatus.UNAUTHORIZED:
                raise
            if not self._reload(client, "the API server refused the credentials"):
                raise
        return self._client.send(request)

    def _has_changed(self, failed: APIClient) -> bool:
        """Return whether the access has changed since the client was made that failed."""
        if self._client is not failed:
            return True
        present = self._present()
        return present is not None and present != self._loaded

    def _present(self) -> object:
        """Return the present state of the access; None if it cannot be read."""
        try:
            return self._state()
        except (InputError, OSError):
            return None

    def _reload(self, refused: APIClient, why: str) -> bool:
        """Return whether there is another client than the refused one."""
        with self._lock:
            if self._client is not refused:
                return True  # another thread has reloaded
            now_s = self._clock.monotonic_s()
            if now_s < self._again_s:
                return False
            self._again_s = now_s + _INTERVAL_S
            # Asked before the files are read: a change in between is found after the next failure.
            loaded = self._present()
            try:
                self._client = self._load()
            except InputError as error:
                _LOG.warning("%s, and the access cannot be read again: %s", why, error)
                return False
            self._loaded = loaded
            _LOG.info("%s; the access was read again", why)
            return True


MAX_IDLE_CONNECTIONS: Final = 64
CONNECT_TIMEOUT_S: Final = 10.0
_MAX_ERROR_BYTES: Final = 64 * 1024
_USER_AGENT: Final = f"berthmaster/{__version__}"
_SUCCESS: Final = (200, 201, 202)
_MAX_RETRY_AFTER_S: Final = 60.0
# What the official client raises for an unusable kubeconfig.
_UNUSABLE: Final = (
    config.ConfigException, yaml.YAMLError, OSError, ValueError, TypeError, KeyError, AttributeError,
)  # fmt: skip
_PIECE_BYTES: Final = 16 * 1024  # the size of a TLS record


def load_client(kubeconfig: Path | None, context: str | None = None) -> APIClient:
    """Make a client with the access that ``find_access`` finds. Raises ``InputError`` if there is none."""
    return connect(find_access(kubeconfig, context))


def connect(access: ClusterAccess) -> APIClient:
    """Make a client, which sends nothing yet. Raises ``InputError`` if the access is not usable."""
    client = ReloadingClient(
        lambda: HTTPClient(_configuration(access), access), state=lambda: file_states(named_files(access))
    )
    return client if access.manner == RequestManner() else ManneredClient(client, access.manner)


def _configuration(access: ClusterAccess) -> client.Configuration:
    configuration = client.Configuration()
    try:
        if not access.files:
            config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call] # no types
        else:
            load_credentials(access, configuration)
    except _UNUSABLE as error:
        raise InputError(
            f"{access}: {describe(error).rstrip('.')}; specify a kubeconfig file with access to the API server"
        ) from None
    return configuration


class HTTPClient:
    """An ``APIClient`` with the official client's configuration. Safe for several threads."""

    def __init__(self, configuration: client.Configuration, access: ClusterAccess | None = None) -> None:
        configuration.keep_alive = True  # TCP keep-alives detect a host that is gone
        configuration.connection_pool_maxsize = MAX_IDLE_CONNECTIONS
        self._configuration = configuration
        self._source = f" ({access})" if access is not None else ""
        server = parse_url(configuration.host)
        if server.scheme not in {"http", "https"} or not server.host:
            raise InputError(f"{shown(configuration.host)} is not the URL of an API server")
        self._host = server.netloc or server.host
        self._url = f"{server.scheme}://{self._host}"
        self._prefix = (server.path or "").rstrip("/")
        self._fixed = {"Accept-Encoding": SKIP_HEADER, "Host": self._host, "User-Agent": _USER_AGENT}
        manager = _pool_manager(configuration)
        if isinstance(manager, urllib3.ProxyManager) and server.scheme == "http":
            self._prefix = f"{self._url}{self._prefix}"  # a proxy forwards plain HTTP
            self._fixed |= manager.proxy_headers
        self._pool = manager.connection_from_url(self._url)
        self._watches = _pool_manager(configuration)

    def send(self, request: APIRequest) -> APIResponse:
        with inner_span(request.method, path=request.path):
            return self._send(request)

    def _send(self, request: APIRequest) -> APIResponse:
        headers = self._headers(request)
        try:
            response = self._exchange(request, headers)
        except _NotConnectedError as error:
            problem = without_urllib3_object(describe(error.cause))
            text = f"no connection to the API server {self._host}{self._source}: {problem}; {_remedy(error.cause)}"
            raise UnconnectedError(0, "", f"{request}: {text}") from None
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ApiError(0, "", f"{request}: {_problem(error, 'before it responded')}") from None
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
            if not request.is_read or not _is_closed(error):
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
            # The official client refreshes expired tokens here.
            settings = cast("dict[str, dict[str, str]]", self._configuration.auth_settings())
        except _UNUSABLE as error:
            raise ApiError(0, "", f"{request}: failed to refresh the token: {describe(error)}") from None
        headers |= {each["key"]: each["value"] for each in settings.values() if each["value"]}
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
            problem = _problem(error, "in the middle of the response")
            raise ApiError(0, "", f"{self._request}: {problem}") from None

    def header(self, name: str) -> list[str]:
        return self._response.headers.getlist(name)

    def abort(self) -> None:
        if self._response.connection is not None:  # else another request may use the connection by now
            # Bypass the TLS layer: its state belongs to the thread that receives.
            with suppress(OSError):  # it is closed already
                plain: Any = getattr(self._socket, "socket", self._socket)
                socket.socket.shutdown(plain, socket.SHUT_RDWR)


def describe(error: Exception) -> str:
    """Describe a transport error in one line of bounded length."""
    return " ".join(str(error).split())[:512] or type(error).__name__


def _problem(error: Exception, when: str) -> str:
    """Say what went wrong on a connection, and when the server closed it."""
    if isinstance(error, urllib3.exceptions.TimeoutError | TimeoutError):
        return "the server sent nothing before the read timeout"
    if _is_closed(error):
        return f"the server closed the connection {when}"
    invalid = any(isinstance(each, http.client.HTTPException) for each in _causes(error))
    problem = without_urllib3_object(describe(error))
    return f"the server does not speak HTTP: {problem}" if invalid else problem


def _is_closed(error: Exception) -> bool:
    """Return whether the server closed the connection. urllib3 names no cause if that ends a chunked body."""
    causes = _causes(error)
    if any(isinstance(each, urllib3.exceptions.InvalidChunkLength) for each in causes):
        return False
    closed = (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError, http.client.IncompleteRead)
    ended = isinstance(error, urllib3.exceptions.ProtocolError) and len(causes) == 1
    return ended or any(isinstance(each, closed) for each in causes)


def _causes(error: Exception) -> list[Exception]:
    """Return an error of urllib3 and the errors that it stands for."""
    return [error, *(each for each in error.args if isinstance(each, Exception))]


def _remedy(error: Exception) -> str:
    causes = _causes(error)
    if any(isinstance(each, ssl.SSLCertVerificationError) for each in causes):
        return "check the certificate authority and the tls-server-name of the kubeconfig"
    if any(isinstance(each, ssl.SSLError | urllib3.exceptions.SSLError) for each in causes):
        return "check that the port speaks TLS, and the server URL of the kubeconfig"
    return "check that it runs, and the server URL of the kubeconfig"


class _NotConnectedError(Exception):
    """No connection could be made."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(cause)
        self.cause = cause


class _KeepsSocket(HTTPConnection):
    """A connection whose socket is known while a response is read, also if the server closes it afterwards."""

    used: Any = None

    def connect(self) -> None:
        with _connecting():
            super().connect()
        self.used = self.sock


class _TLSConnection(_KeepsSocket, HTTPSConnection):
    """The same with TLS."""


class _HTTPPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _KeepsSocket


class _HTTPSPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _TLSConnection


@contextmanager
def _connecting() -> Iterator[None]:
    """Tell errors before a request is sent from later ones, for which urllib3 has the same types."""
    try:
        yield
    except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        raise _NotConnectedError(error) from None


def _pool_manager(configuration: client.Configuration) -> urllib3.PoolManager:
    """Return connections with the options of the official client: certificates, server names, proxies, keep-alives."""
    try:
        if not is_socks_proxy_url(configuration.proxy):  # type: ignore[no-untyped-call] # it has no types
            manager: urllib3.PoolManager = client.ApiClient(configuration).rest_client.pool_manager
            if not configuration.verify_ssl:  # the kubeconfig says so
                urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
            manager.pool_classes_by_scheme = {"http": _HTTPPool, "https": _HTTPSPool}
            if isinstance(manager, urllib3.ProxyManager):
                manager.proxy_headers = {**_proxy_authorization(manager.proxy), **manager.proxy_headers}
                manager.connection_pool_kw["_proxy_headers"] = manager.proxy_headers
            return manager
    except urllib3.exceptions.ProxySchemeUnknown:
        pass
    named = parse_url(configuration.proxy or "")._replace(auth=None).url
    raise InputError(f"the proxy {shown(named)} is not supported; use an http or https proxy")


def _proxy_authorization(proxy: Url | None) -> dict[str, str]:
    """Return the header with the user and the password that the URL of a proxy names, as kubectl sends it."""
    if proxy is None or not proxy.auth:
        return {}
    named = unquote(proxy.auth)
    text = named if ":" in named else f"{named}:"
    return {"Proxy-Authorization": f"Basic {b64encode(text.encode()).decode()}"}


def _retry_after_s(text: str | None) -> float:
    """Return the seconds of ``Retry-After``. A date, which API servers never send, counts as 0."""
    return min(float(text), _MAX_RETRY_AFTER_S) if text and text.isascii() and text.isdigit() else 0.0
