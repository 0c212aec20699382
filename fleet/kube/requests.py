"""Requests to an API server, prepared as values."""

from typing import Final, NamedTuple

PAGE_SIZE: Final = 500


class Collection(NamedTuple):
    """All objects of a kind, in the whole cluster.

    Attributes:
        path: where the API server serves them, as in ``/api/v1/nodes``.
        what: how messages call them.
    """

    path: str
    what: str

    @classmethod
    def of(cls, api_version: str, plural: str) -> "Collection":
        """The collection of a kind by its apiVersion and plural name."""
        root = "apis" if "/" in api_version else "api"
        return cls(f"/{root}/{api_version}/{plural}", plural)


class Get(NamedTuple):
    """A GET.

    Attributes:
        path: with a leading slash.
        query: parameters in their order.
        silence_s: how long the server may say nothing before it is given up.
    """

    path: str
    query: tuple[tuple[str, str], ...]
    silence_s: float


def page(collection: Collection, token: str, silence_s: float) -> Get:
    """A page of a consistent list; an empty token asks for the first."""
    query = (("limit", str(PAGE_SIZE)), *((("continue", token),) if token else ()))
    return Get(collection.path, query, silence_s)


def watch(collection: Collection, resource_version: str, duration_s: int, silence_s: float) -> Get:
    """All changes after a resource version, with bookmarks; the server ends the answer after ``duration_s``."""
    query = (
        ("watch", "true"),
        ("allowWatchBookmarks", "true"),
        ("resourceVersion", resource_version),
        ("timeoutSeconds", str(duration_s)),
    )
    return Get(collection.path, query, silence_s)
