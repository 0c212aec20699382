"""Probe endpoints, where they can be reached from here."""

import http.client
from contextlib import closing
from typing import Final
from urllib.parse import urlsplit

from berthmaster_cli.doctor.facts import Probe

_MAX_BYTES: Final = 64 * 1024
_PLAIN_PORT: Final = 80


def probe(url: str, limit_s: float) -> Probe:
    """What ``/readyz`` of a server says.

    Args:
        url: ``http://HOST[:PORT]``; a path in it takes the place of ``/readyz``.
        limit_s: how long the server may be silent.
    """
    try:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            return Probe(url, 0, "it is no URL as http://127.0.0.1:9080")
        path = parts.path if parts.path not in {"", "/"} else "/readyz"
        with closing(http.client.HTTPConnection(parts.hostname, parts.port or _PLAIN_PORT, timeout=limit_s)) as link:
            link.request("GET", path)
            answer = link.getresponse()
            return Probe(url, answer.status, _line(answer.read(_MAX_BYTES)))
    except (OSError, http.client.HTTPException, ValueError) as error:
        return Probe(url, 0, str(error) or type(error).__name__)


def _line(body: bytes) -> str:
    return " ".join(body.decode(errors="replace").split())[:200]
