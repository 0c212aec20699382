"""Where an API server is and how to get there: the official client's decisions, carried out by urllib3.

Certificates, server names, proxies and keep-alives of sockets are theirs; what goes over the socket is not.
"""

import socket
from typing import Any, Final

import urllib3
from kubernetes import client
from kubernetes.client.rest import is_socks_proxy_url
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.util import Url, parse_url

from berthmaster.model.errors import ApiError, InputError, shown

CONNECT_TIMEOUT_S: Final = 10.0
_OF_A_CONNECTION: Final = frozenset({
    "assert_hostname", "ca_cert_data", "ca_certs", "cert_file", "cert_reqs", "key_file", "server_hostname",
    "socket_options",
})  # fmt: skip
_OF_ANY_SCHEME: Final = frozenset({"socket_options"})


class Dialing:
    """Opens connections to the API server of a configuration.

    Attributes:
        host: what the ``Host`` header says.
        prefix: what stands before the path of a request: the path that the server's URL has of its own and, where a
            proxy forwards requests, the server itself.
    """

    def __init__(self, configuration: client.Configuration) -> None:
        """Read a configuration.

        Raises:
            InputError: the server's URL, or its proxy, is none that can be used.
        """
        server = parse_url(configuration.host)
        if server.scheme not in {"http", "https"} or not server.host:
            raise InputError(f"{shown(configuration.host)} is not the URL of an API server")
        self._server = server
        self._proxy: Url | None = None
        manager = _manager(configuration)
        self._options = manager.connection_pool_kw
        if isinstance(manager, urllib3.ProxyManager):
            self._proxy, self._proxy_config = manager.proxy, manager.proxy_config
            self._proxy_headers = manager.proxy_headers
        self.host = server.netloc or server.host
        self.prefix = (server.path or "").rstrip("/")
        if self._proxy is not None and server.scheme == "http":
            self.prefix = f"http://{self.host}{self.prefix}"

    def open(self, timeout_s: float) -> socket.socket:
        """A connected socket, through TLS where the URL says so.

        Raises:
            ApiError: nobody is there, or not who should be.
        """
        opening = self._opening(min(timeout_s, CONNECT_TIMEOUT_S))
        try:
            opening.connect()
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            opening.close()
            raise ApiError(0, "", told(error)) from None
        # It stays open: whoever closes the socket closes all there is.
        connected: socket.socket = opening.sock
        return connected

    def _opening(self, timeout_s: float) -> Any:  # noqa: ANN401 - its socket is of any kind to urllib3
        first = self._proxy or self._server
        options: dict[str, Any] = {"port": first.port, "timeout": timeout_s}
        if self._proxy is not None:
            options |= {"proxy": self._proxy, "proxy_config": self._proxy_config}
        kind, known = (HTTPConnection, _OF_ANY_SCHEME)
        if "https" in {first.scheme, self._server.scheme}:
            kind, known = (HTTPSConnection, _OF_A_CONNECTION)
        options |= {name: value for name, value in self._options.items() if name in known}
        opening = kind(_plain(first), **options)
        if self._proxy is not None and self._server.scheme == "https":
            scheme = self._proxy.scheme or "http"
            opening.set_tunnel(_plain(self._server), self._server.port or 443, self._proxy_headers, scheme)
        return opening


def told(error: Exception) -> str:
    """A transport's error in a line."""
    return " ".join(str(error).split())[:512] or type(error).__name__


def _manager(configuration: client.Configuration) -> urllib3.PoolManager:
    """What the official client would send requests through, for all that it knows of the way."""
    try:
        if not is_socks_proxy_url(configuration.proxy):  # type: ignore[no-untyped-call] # it has none
            return client.ApiClient(configuration).rest_client.pool_manager
    except urllib3.exceptions.ProxySchemeUnknown:
        pass  # the same to whoever wrote it
    raise InputError(f"the proxy {shown(configuration.proxy)} cannot be used; accepted are http and https proxies")


def _plain(url: Url) -> str:
    """A host as sockets want it: IPv6 addresses without brackets."""
    return (url.host or "").strip("[]")
