"""The addresses that servers listen on. ``::`` are those of both IP families."""

import socket
from typing import Final

ANY: Final = "::"
_ANY_IPV4: Final = "0.0.0.0"  # noqa: S104 - what a machine without IPv6 has of it


def available(host: str) -> str:
    """Return the host, or ``0.0.0.0`` instead of ``::`` if this machine has no IPv6 or does not serve both families."""
    return _ANY_IPV4 if host == ANY and not socket.has_dualstack_ipv6() else host


def listen(host: str, port: int, backlog: int) -> socket.socket:
    """Return a listening socket. Raises ``OSError`` or ``OverflowError`` if the address cannot be bound."""
    host = available(host)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Python's default for IPv6 refuses IPv4, and a kubelet of a dual-stack cluster probes by either family.
    return socket.create_server((host, port), family=family, backlog=backlog, dualstack_ipv6=host == ANY)
