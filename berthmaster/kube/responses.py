"""What an API server sends: lists, watch events, and the reasons for errors."""

from typing import Final, TypeVar

import msgspec

from berthmaster.model.decode import TooDeepError, decode_json
from berthmaster.model.errors import ApiError, FieldError
from berthmaster.model.json_text import without_deep_parts
from berthmaster.model.meta import Key

T = TypeVar("T")
MAX_MESSAGE_BYTES: Final = 64 * 2**20
"""The largest page or watch event that is read. ``kube.listing`` asks for smaller pages above it."""
MAX_DEPTH: Final = 100
"""The levels of an object whose deeper parts cannot be decoded, and of an object that is read as dicts and lists."""


class APIStatus(msgspec.Struct, frozen=True):
    """``meta/v1.Status``: the reason for an error."""

    code: int = 0
    reason: str = ""
    message: str = ""


class ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    """The metadata of a list page. ``continue_`` is the token of the next page; empty for the last one."""

    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")
    remaining_item_count: int = 0


class ListPage(msgspec.Struct, frozen=True):
    """One page of a list with raw objects."""

    metadata: ListMeta
    items: list[msgspec.Raw] | None = None


class ProbedList(msgspec.Struct, frozen=True):
    """The answer to ``probe``, without its object."""

    metadata: ListMeta = ListMeta()


class WatchEvent(msgspec.Struct, frozen=True):
    """One line of a watch."""

    type: str
    object: msgspec.Raw


class Identity(msgspec.Struct, frozen=True, rename="camel"):
    """The name and version of an object."""

    name: str = ""
    namespace: str = ""
    resource_version: str = ""

    @property
    def key(self) -> Key:
        """The part that is the same in all versions."""
        return self.namespace, self.name


class _NamedObject(msgspec.Struct, frozen=True):
    metadata: Identity


def decode_response(kind: type[T], body: bytes, what: str) -> T:
    """Decode what an API server sent; ``what`` names it in the ``ApiError`` for anything else."""
    try:
        return decode_json(kind, body)
    except FieldError as error:
        raise ApiError(0, "", f"cannot decode {what}: {error}") from None


def decode_shallow(kind: type[T], body: bytes, what: str) -> T:
    """Decode what an API server sent. If it is nested too deeply, its deep parts become ``CUT``."""
    try:
        return decode_json(kind, body)
    except TooDeepError:
        return decode_response(kind, without_deep_parts(body, MAX_DEPTH), what)
    except FieldError as error:
        raise ApiError(0, "", f"cannot decode {what}: {error}") from None


def decode_status(body: bytes) -> APIStatus:
    """Decode the body of an error. The status is empty if the body is something else, as from a proxy."""
    try:
        return decode_json(APIStatus, body)
    except FieldError:
        return APIStatus()


def decode_watch_event(line: bytes) -> WatchEvent:
    """Decode a watch event. The parts of its object that are nested too deeply become ``CUT``.

    Raises ``ApiError`` if the line is not a watch event, or it is an ``ERROR`` event.
    """
    event = decode_shallow(WatchEvent, line, "a watch event")
    if event.type != "ERROR":
        return event
    status = decode_response(APIStatus, bytes(event.object), "a watch event")
    raise ApiError(status.code, status.reason, f"the watch failed: {status.message or status.reason or status.code}")


def decode_identity(raw: bytes) -> Identity:
    """Decode the identity of an object. Raises ``ApiError`` if the object has no readable metadata."""
    return decode_response(_NamedObject, raw, "an object").metadata
