"""Links to pages of the console."""

from typing import Final
from urllib.parse import quote, urlsplit

from berthmaster.model.errors import InputError, shown
from berthmaster.model.meta import CLUSTER_SCOPED

_MAX_BASE: Final = 256


class ConsoleLink:
    def __init__(self, url: str) -> None:
        """Take ``http[s]://HOST[:PORT][/PATH]``, the address of the console. Raises ``InputError`` for another text."""
        parts = urlsplit(url)
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and url.isprintable() and " " not in url
        if not valid or parts.query or parts.fragment or parts.username is not None or len(url) > _MAX_BASE:
            raise InputError(
                f"{shown(url)} is not the address of a console; accepted is https://HOST[:PORT][/PATH] with at most "
                f"{_MAX_BASE} characters"
            )
        self._url = url.rstrip("/")

    def workload(self, namespace: str, binding: str) -> str:
        return f"{self._url}/workloads/{quote(namespace or CLUSTER_SCOPED, safe='')}/{quote(binding, safe='')}"
