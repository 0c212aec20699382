"""The client of a real API server: the official client's configuration over persistent HTTP/1.1 connections.

Tokens and certificates expire, and a kubelet or a controller replaces their files before. The official client reads
most of these files only once. This client reads them again when the API server refuses its credentials, and when it
cannot connect and the files have changed: a renewed authority and a new address of the server make connections fail.
"""

import logging
import os
import shutil
import socket
import ssl
import threading
import weakref
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
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
from urllib3.util import Url, parse_url

from berthmaster.kube.client import APIClient, APIResponse
from berthmaster.kube.http1 import ConnectionClosedError, HTTP1Connection, HTTP1Response, describe
from berthmaster.kube.kubeconfig import ClusterAccess, find_access, named_files
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
_CONNECTION_OPTIONS: Final = frozenset({"socket_options"})
_TLS_OPTIONS: Final = _CONNECTION_OPTIONS | {
    "assert_hostname", "ca_cert_data", "ca_certs", "cert_file", "cert_reqs", "key_file", "server_hostname",
}  # fmt: skip


def load_client(kubeconfig: Path | None, context: str | None = None) -> ReloadingClient:
    """Make a client with the access that ``find_access`` finds. Raises ``InputError`` if there is none."""
    return connect(find_access(kubeconfig, context))


def connect(access: ClusterAccess) -> ReloadingClient:
    """Make a client, which sends nothing yet. Raises ``InputError`` if the access is not usable."""
    return ReloadingClient(
        lambda: HTTPClient(_configuration(access), access), state=lambda: file_states(named_files(access))
    )


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
        self._configuration = configuration
        self._source = f" ({access})" if access is not None else ""
        self._dialer = _Dialer(configuration, self._source)
        self._idle: deque[HTTP1Connection] = deque()
        weakref.finalize(self, _close_all, self._idle)

    def send(self, request: APIRequest) -> APIResponse:
        with inner_span(request.method, path=request.path):
            return self._send(request)

    def _send(self, request: APIRequest) -> APIResponse:
        message = self._encode(request)
        try:
            connection, response = self._exchange(request, message)
        except UnconnectedError as error:
            raise UnconnectedError(0, "", f"{request}: {error}") from None
        except ApiError as error:
            raise ApiError(0, "", f"{request}: {error}") from None
        if response.status not in _SUCCESS:
            raise self._error(request, connection, response)
        return _StreamedResponse(self, request, connection, response)

    def release(self, connection: HTTP1Connection, response: HTTP1Response) -> None:
        """Keep a connection for the next request if its response was read completely, else close it."""
        if response.complete and response.reusable and len(self._idle) < MAX_IDLE_CONNECTIONS:
            connection.mark_idle()
            self._idle.append(connection)
        else:
            connection.close()

    def _exchange(self, request: APIRequest, message: bytes) -> tuple[HTTP1Connection, HTTP1Response]:
        """Send a message over an idle connection or a new one.

        A read is sent once more if the server has closed the idle connection. A write is not: the server may have
        processed it. A watch takes a new connection, which a load balancer gives to a server that is healthy now.
        """
        connection = self._take_idle() if request.verb != "watch" else None
        if connection is not None:
            try:
                return connection, connection.ask(message, request.read_timeout_s)
            except ConnectionClosedError:
                if not request.is_read:
                    raise
        connection = HTTP1Connection(self._dialer.connect(request.read_timeout_s))
        return connection, connection.ask(message, request.read_timeout_s)

    def _take_idle(self) -> HTTP1Connection | None:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if connection.usable:
                return connection
            connection.close()

    def _encode(self, request: APIRequest) -> bytes:
        target = self._dialer.prefix + request.path
        if request.query:
            target = f"{target}?{urlencode(request.query)}"
        lines = [f"{request.method} {target} HTTP/1.1", f"Host: {self._dialer.host}"]
        lines += [f"{name}: {value}" for name, value in self._headers(request).items()]
        if any("\r" in line or "\n" in line for line in lines):
            raise InputError(f"{request}: a header has a line break; its value may be a token and is not shown")
        head = "\r\n".join([*lines, "", ""])
        return head.encode("latin-1", "replace") + request.body

    def _headers(self, request: APIRequest) -> dict[str, str]:
        headers = {"Accept": request.accept, "User-Agent": _USER_AGENT, **self._dialer.headers}
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
        return headers | dict(trace_headers()) | dict(request.headers)

    def _error(self, request: APIRequest, connection: HTTP1Connection, response: HTTP1Response) -> ApiError:
        """Make the error of a response that is not a success. A ``v1.Status`` in its body has the details."""
        body = b""
        with suppress(ApiError):  # an incomplete body is better than none
            for part in response.chunks():
                body += part
                if len(body) > _MAX_ERROR_BYTES:
                    break
        self.release(connection, response)
        status = decode_status(body)
        message = f"{request}: {response.status} {status.message or response.reason}".rstrip()
        if response.status == HTTPStatus.UNAUTHORIZED:
            message += f"{self._source}; the credentials are not accepted: log in again, or use another context"
        return ApiError(response.status, status.reason, message, _retry_after_s(response))


class _StreamedResponse(AbstractContextManager["_StreamedResponse"]):
    def __init__(
        self, owner: HTTPClient, request: APIRequest, connection: HTTP1Connection, response: HTTP1Response
    ) -> None:
        self._owner = owner
        self._request = request
        self._connection = connection
        self._response = response
        self._released = False

    def __exit__(self, *_: object) -> None:
        self._released = True
        self._owner.release(self._connection, self._response)

    def chunks(self) -> Iterator[bytes]:
        try:
            yield from self._response.chunks()
        except ApiError as error:
            raise ApiError(0, "", f"{self._request}: {error}") from None

    def header(self, name: str) -> list[str]:
        return self._response.header(name)

    def abort(self) -> None:
        if not self._released:  # another request may use the connection by now
            self._connection.shutdown()


def _remedy(error: Exception) -> str:
    match error:
        case ssl.SSLCertVerificationError():
            return "check the certificate authority and the tls-server-name of the kubeconfig"
        case ssl.SSLError():
            return "check that the port speaks TLS, and the server URL of the kubeconfig"
        case _:
            return "check that it runs, and the server URL of the kubeconfig"


class _Dialer:
    """Opens connections to the API server: urllib3 connects with the options of the official client.

    Certificates, server names, proxies and TCP keep-alives are theirs.

    Attributes:
        host: the ``Host`` header.
        prefix: the first part of each request target: the path of the server's URL, preceded by the URL's scheme and
            host if a proxy forwards plain HTTP.
        headers: the headers of each request for such a proxy. A proxy that tunnels gets its headers once.
    """

    def __init__(self, configuration: client.Configuration, source: str = "") -> None:
        self._source = source
        server = parse_url(configuration.host)
        if server.scheme not in {"http", "https"} or not server.host:
            raise InputError(f"{shown(configuration.host)} is not the URL of an API server")
        manager = _pool_manager(configuration)
        self._server = server
        self._options = manager.connection_pool_kw
        self._proxy: Url | None = None
        if isinstance(manager, urllib3.ProxyManager):
            self._proxy, self._proxy_config = manager.proxy, manager.proxy_config
            self._proxy_headers = {**_proxy_authorization(manager.proxy), **manager.proxy_headers}
        self.host = server.netloc or server.host
        self.prefix = (server.path or "").rstrip("/")
        self.headers: dict[str, str] = {}
        if self._proxy is not None and server.scheme == "http":
            self.prefix = f"http://{self.host}{self.prefix}"
            self.headers = self._proxy_headers

    def connect(self, timeout_s: float) -> socket.socket:
        connection = self._connection(min(timeout_s, CONNECT_TIMEOUT_S))
        try:
            connection.connect()
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            connection.close()
            problem = without_urllib3_object(describe(error))
            text = f"no connection to the API server {self.host}{self._source}: {problem}; {_remedy(error)}"
            raise UnconnectedError(0, "", text) from None
        connected: socket.socket = connection.sock  # urllib3's connection does not close it
        return connected

    def _connection(self, timeout_s: float) -> Any:  # noqa: ANN401 - urllib3 declares its socket as any object
        first = self._proxy or self._server
        options: dict[str, Any] = {"port": first.port, "timeout": timeout_s}
        if self._proxy is not None:
            options |= {"proxy": self._proxy, "proxy_config": self._proxy_config}
        kind, known = HTTPConnection, _CONNECTION_OPTIONS
        if "https" in {first.scheme, self._server.scheme}:
            kind, known = HTTPSConnection, _TLS_OPTIONS
        options |= {name: value for name, value in self._options.items() if name in known}
        connection = kind(_socket_host(first), **options)
        if self._proxy is not None and self._server.scheme == "https":
            connection.set_tunnel(
                _socket_host(self._server), self._server.port or 443, self._proxy_headers, self._proxy.scheme or "http"
            )
        return connection


def _pool_manager(configuration: client.Configuration) -> urllib3.PoolManager:
    try:
        if not is_socks_proxy_url(configuration.proxy):  # type: ignore[no-untyped-call] # it has no types
            return client.ApiClient(configuration).rest_client.pool_manager
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


def _socket_host(url: Url) -> str:
    """Return a host for sockets: IPv6 addresses without brackets."""
    return (url.host or "").strip("[]")


def _close_all(connections: deque[HTTP1Connection]) -> None:
    for connection in connections:
        connection.close()


def _retry_after_s(response: HTTP1Response) -> float:
    """Return the seconds of ``Retry-After``. A date, which API servers never send, counts as 0."""
    text = next(iter(response.header("Retry-After")), "")
    return min(float(text), _MAX_RETRY_AFTER_S) if text.isascii() and text.isdigit() else 0.0
