"""The pool of connections to an API server: certificates, server names, proxies, keep-alives."""

import re
import socket
import ssl
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import NamedTemporaryFile
from typing import Any, Final
from urllib.parse import unquote

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.util import Url, parse_url
from urllib3.util.ssl_ import create_urllib3_context

from berthmaster.kube.connection_settings import ConnectionSettings
from berthmaster.kube.proxies import environment_proxy
from berthmaster.model.errors import InputError, shown

MAX_IDLE_CONNECTIONS: Final = 64
_CERTIFICATES: Final = re.compile("-----BEGIN [A-Z ]*CERTIFICATE-----[^-]*-----END [A-Z ]*CERTIFICATE-----")
# As client-go: 9 probes every 15 s, after 30 s without traffic. macOS has another name for the first option.
_KEEP_ALIVE: Final = {"TCP_KEEPIDLE": 30, "TCP_KEEPALIVE": 30, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 9}


class NotConnectedError(Exception):
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
        raise NotConnectedError(error) from None


def tls_context(settings: ConnectionSettings) -> ssl.SSLContext:
    """Return how the client and the server prove who they are. Raises ``InputError`` if a certificate is unusable."""
    context = create_urllib3_context(cert_reqs=ssl.CERT_REQUIRED if settings.verify else ssl.CERT_NONE)
    try:
        if settings.authority:
            # Bundles have comments with names of authorities. The ssl module takes only ASCII.
            blocks = _CERTIFICATES.findall(settings.authority)
            context.load_verify_locations(cadata="\n".join(blocks) or "none")
        else:
            context.load_default_certs()
    except (ssl.SSLError, ValueError) as error:
        raise InputError(f"the certificate authority of {settings.server} is not usable: {error}") from None
    if settings.certificate:
        _load_certificate(context, settings)
    return context


def _load_certificate(context: ssl.SSLContext, settings: ConnectionSettings) -> None:
    """Load the certificate of the client. The ``ssl`` module reads it from a file, which is removed at once."""
    with NamedTemporaryFile("w", encoding="utf-8", suffix=".pem") as file:  # only its owner may read it
        file.write(f"{settings.key}\n{settings.certificate}\n")
        file.flush()
        try:
            context.load_cert_chain(file.name, password="")  # without one, OpenSSL asks for it
        except (ssl.SSLError, ValueError) as error:
            raise InputError(f"the client certificate for {settings.server} is not usable: {error}") from None


def pool_manager(settings: ConnectionSettings, tls: ssl.SSLContext | None) -> urllib3.PoolManager:
    """Return the connections to a server. Raises ``InputError`` for a proxy of another protocol than HTTP."""
    options: dict[str, Any] = {
        "ssl_context": tls, "socket_options": _socket_options(), "maxsize": MAX_IDLE_CONNECTIONS
    }  # fmt: skip
    if settings.server_name:
        options["server_hostname"] = settings.server_name
    if not settings.verify:  # the kubeconfig says so
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    proxy = settings.proxy or environment_proxy(settings.server)
    manager = _through(proxy, options) if proxy else urllib3.PoolManager(**options)
    manager.pool_classes_by_scheme = {"http": _HTTPPool, "https": _HTTPSPool}
    return manager


def _through(proxy: str, options: dict[str, Any]) -> urllib3.ProxyManager:
    url = parse_url(proxy)
    try:
        return urllib3.ProxyManager(
            proxy, proxy_headers=_proxy_authorization(url), proxy_ssl_context=options["ssl_context"], **options
        )
    except urllib3.exceptions.ProxySchemeUnknown:
        named = url._replace(auth=None).url
        raise InputError(f"the proxy {shown(named)} is not supported; use an http or https proxy") from None


def _socket_options() -> list[tuple[int, int, int]]:
    own = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    for name, value in _KEEP_ALIVE.items():
        option = getattr(socket, name, None)
        if option is not None and not (name == "TCP_KEEPALIVE" and hasattr(socket, "TCP_KEEPIDLE")):
            own.append((socket.IPPROTO_TCP, option, value))
    return [*HTTPConnection.default_socket_options, *own]


def _proxy_authorization(proxy: Url) -> dict[str, str]:
    """Return the header with the user and the password that the URL of a proxy names, as kubectl sends it."""
    if not proxy.auth:
        return {}
    named = unquote(proxy.auth)
    text = named if ":" in named else f"{named}:"
    return {"Proxy-Authorization": f"Basic {b64encode(text.encode()).decode()}"}
