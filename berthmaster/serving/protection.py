"""Whether a server may listen on an address: beyond loopback it needs TLS and authentication."""

import ipaddress
from typing import Final

from berthmaster.model.errors import InputError
from berthmaster.serving.server import ServerOptions

_TLS: Final = "TLS"
_AUTHENTICATION: Final = "authentication"


def require_protection(server: ServerOptions, *, authenticates: bool, remedy: str) -> None:
    """Refuse to serve beyond loopback without TLS and authentication.

    Args:
        authenticates: whether the service authenticates clients, by client certificates or otherwise.

    Raises:
        InputError: TLS or authentication is missing.
    """
    if is_loopback(server.host) or (server.tls is not None and authenticates):
        return
    missing = _TLS if server.tls is None else _AUTHENTICATION
    raise InputError(f"{server.host} is not a loopback address, and {missing} is not configured: {remedy}")


def is_loopback(host: str) -> bool:
    """Return whether a host name or an address is that of this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
