"""Lists of a collection, page by page: the one function that all readers share.

What one author stores must not hide the objects of others. A page that is too large is asked for again with fewer
objects, down to one. An object that is too large or nested too deeply is named and not read. Every list ends.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import msgspec

from berthmaster.kube import requests
from berthmaster.kube.requests import APIRequest, Collection
from berthmaster.kube.responses import MAX_DEPTH, MAX_MESSAGE_BYTES, ListPage, decode_identity, decode_shallow
from berthmaster.model.decode import TooDeepError, decode_json
from berthmaster.model.errors import ApiError, BerthmasterError, FieldError, ResponseTooLargeError, UnlistableError
from berthmaster.model.json_text import CUT
from berthmaster.model.meta import Key

MAX_OBJECTS: Final = 2**20
"""The most objects of a collection. ``informer.MAX_IN_NAMESPACE`` is a quarter of it."""
MAX_OBJECT_BYTES: Final = 4 * 2**20
"""The largest object that is read. API servers store objects of at most 1.5 MiB by default, as JSON or as protobuf."""
_FEWER: Final = 4


class Unread(NamedTuple):
    """Stands for an object that is not read. ``problem`` completes a sentence that begins with its name."""

    problem: str


TOO_LARGE: Final = Unread(f"is larger than {MAX_MESSAGE_BYTES} bytes")
TOO_DEEP: Final = Unread(f"is nested more than {MAX_DEPTH} levels deep")
Listed = tuple[Key, msgspec.Raw | Unread]
"""The key of an object, and the object or why it is not read."""


class ObjectPage(NamedTuple):
    """A page of a list.

    Attributes:
        version: the resource version of the whole list.
        remaining: about how many objects follow.
        size: the bytes of the page.
    """

    objects: list[Listed]
    version: str
    remaining: int
    size: int


def pages(
    send: Callable[[APIRequest], bytes],
    collection: Collection,
    *,
    namespace: str = "",
    labels: str = "",
    accept: str = requests.JSON,
    read_timeout_s: float = requests.READ_TIMEOUT_S,
    most: int = MAX_OBJECTS,
) -> Iterator[ObjectPage]:
    """Yield the pages of a consistent list.

    Args:
        send: returns the body of a response. Raises ``ResponseTooLargeError`` for one that is too large.

    Raises:
        ApiError: from ``send``, or the server sent something else than a list.
        UnlistableError: there are more than ``most`` objects, or the server does not name an object that is too large.
    """
    limit, token, asked = requests.PAGE_SIZE, "", 0

    def ask(accepted: str) -> bytes:
        return send(
            requests.page(
                collection, token, read_timeout_s, namespace=namespace, labels=labels, accept=accepted, limit=limit
            )
        )

    while True:
        try:
            body = ask(accept)
            part = _list_page(body, shallow=limit == 1)
            objects = [_listed(each) for each in part.items or ()]
        except (ResponseTooLargeError, TooDeepError) as error:
            if limit > 1:
                limit = max(1, limit // _FEWER)
                continue
            part, objects, body = *_named(ask, collection, error), b""
        yield ObjectPage(objects, part.metadata.resource_version, part.metadata.remaining_item_count, len(body))
        token = part.metadata.continue_
        if not token:
            return
        # Each page counts as full. A server that always names a next page would never end the list.
        asked += max(limit, len(objects))
        if asked > most:
            raise UnlistableError(f"more than {most} {collection.plural}")
        if len(body) < MAX_MESSAGE_BYTES // _FEWER:
            limit = min(requests.PAGE_SIZE, limit * 2)


def _list_page(body: bytes, *, shallow: bool) -> ListPage:
    """Decode a page. Raises ``TooDeepError`` unless ``shallow``, which takes time in proportion to the page."""
    if shallow:
        return decode_shallow(ListPage, body, "a list page")
    try:
        return decode_json(ListPage, body)
    except TooDeepError:
        raise
    except FieldError as error:
        raise ApiError(0, "", f"cannot decode a list page: {error}") from None


def _named(
    ask: Callable[[str], bytes], collection: Collection, error: BerthmasterError
) -> tuple[ListPage, list[Listed]]:
    """Return a page that names the next object, which is too large for a page of its own."""
    try:
        part = _list_page(ask(requests.ONLY_METADATA_LIST), shallow=True)
    except ResponseTooLargeError:
        raise UnlistableError(f"one of the {collection.plural} cannot be listed: {error}") from None
    return part, [(decode_identity(bytes(each)).key, TOO_LARGE) for each in part.items or ()]


def _listed(raw: msgspec.Raw) -> Listed:
    return decode_identity(bytes(raw)).key, bounded(raw)


def bounded(raw: msgspec.Raw) -> msgspec.Raw | Unread:
    """Return an object of a page or of a watch event, or why it is not read."""
    document = bytes(raw)
    if len(document) > MAX_OBJECT_BYTES:
        return Unread(f"has {len(document)} bytes; at most {MAX_OBJECT_BYTES} are read")
    return TOO_DEEP if CUT in document else raw
