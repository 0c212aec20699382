"""Ports for the servers of tests."""

from collections import deque
from random import SystemRandom
from socket import create_server
from typing import Final

_PORTS: Final = range(11_000, 32_768)
"""Linux takes the ports of outgoing connections from those above. Such a connection could take a free port again.

Browsers refuse some ports up to 10,080."""

_RETURNED: Final = deque[int](maxlen=2000)
"""The ports that were returned last. Their servers may not listen yet."""


def free_port() -> int:
    while True:
        port = SystemRandom().choice(_PORTS)
        if port in _RETURNED:
            continue
        try:
            with create_server(("127.0.0.1", port)):
                _RETURNED.append(port)
                return port
        except OSError:
            continue
