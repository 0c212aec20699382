"""Asks the probe endpoints of processes whether they are ready."""

from typing import Final
from urllib.parse import urlsplit

from berthmaster.native_api.connection import UnansweredError, WebClient
from berthmaster_cli.doctor.facts import ProbeFacts

_MAX_PROBE_BYTES: Final = 64 * 1024


def ask_probe(url: str, limit_s: float) -> ProbeFacts:
    """Ask ``/readyz`` of a server. ``url`` is ``http://HOST[:PORT]``. A path in it replaces ``/readyz``."""
    try:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            return ProbeFacts(url, 0, "the URL is not like http://127.0.0.1:9080")
        path = parts.path if parts.path not in {"", "/"} else "/readyz"
        with WebClient(url, limit_s) as client:
            answer = client.ask("GET", path, most_bytes=_MAX_PROBE_BYTES)
        return ProbeFacts(url, answer.status, " ".join(answer.content.decode(errors="replace").split())[:200])
    except UnansweredError as error:
        return ProbeFacts(url, 0, error.problem)
    except ValueError as error:
        return ProbeFacts(url, 0, str(error))
