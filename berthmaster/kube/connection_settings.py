"""How to reach one API server, and as whom."""

from collections.abc import Callable
from typing import NamedTuple


class CredentialsError(Exception):
    """There are no credentials, and the message says why."""


class ConnectionSettings(NamedTuple):
    """The server of a kubeconfig or of a pod, and the credentials.

    Attributes:
        server: the URL.
        authorization: returns the value of the header ``Authorization``; empty without one. It may renew a token, and
            raises ``CredentialsError`` or ``OSError`` if it cannot.
        authority: the authorities of the server's certificate as PEM; empty for those of the system.
        certificate: the certificate of the client as PEM; empty without one. ``key`` is its private key.
        verify: False trusts any server.
        server_name: the name in the certificate of the server, if it is not the host of the URL.
        proxy: the URL of the proxy that the kubeconfig names; empty if the environment decides.
    """

    server: str
    authorization: Callable[[], str] = str
    authority: str = ""
    certificate: str = ""
    key: str = ""
    verify: bool = True
    server_name: str = ""
    proxy: str = ""
