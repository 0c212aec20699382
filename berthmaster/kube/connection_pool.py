"""The pool of connections to an API server, with the options of the official client."""

from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

import urllib3
from kubernetes import client
from kubernetes.client.rest import is_socks_proxy_url
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.util import Url, parse_url

from berthmaster.model.errors import InputError, shown


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


def pool_manager(configuration: client.Configuration) -> urllib3.PoolManager:
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
