"""What an API server answers: pages of a list, events of a watch, and statuses."""

from typing import Final

import msgspec

from berthmaster.model.decode import decode_json
from berthmaster.model.errors import ApiError, FieldError

MAX_MESSAGE_BYTES: Final = 64 * 2**20
"""The largest page or event that is read: a page of objects as large as etcd stores them is smaller."""


Key = tuple[str, str]
"""Namespace, empty for cluster-scoped objects, and name."""


class Status(msgspec.Struct, frozen=True):
    """``meta/v1.Status``: why something was not done."""

    code: int = 0
    reason: str = ""
    message: str = ""


class ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    """Where a page ends."""

    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class Page(msgspec.Struct, frozen=True):
    """A page of a list, its objects as they came."""

    metadata: ListMeta
    items: list[msgspec.Raw] | None = None


class Event(msgspec.Struct, frozen=True):
    """A line of a watch."""

    type: str
    object: msgspec.Raw


class Identity(msgspec.Struct, frozen=True, rename="camel"):
    """What tells objects of a kind, and their versions, apart."""

    name: str = ""
    namespace: str = ""
    resource_version: str = ""

    @property
    def key(self) -> Key:
        """What stays the same over all versions."""
        return self.namespace, self.name


class _Identified(msgspec.Struct, frozen=True):
    metadata: Identity


def status_of(body: bytes) -> Status:
    """The status in the body of an error; an empty one where somebody else answered, a proxy for instance."""
    try:
        return decode_json(Status, body)
    except FieldError:
        return Status()


def page_of(body: bytes) -> Page:
    """A page of a list.

    Raises:
        ApiError: it is none.
    """
    try:
        return decode_json(Page, body)
    except FieldError as error:
        raise ApiError(0, "", f"a page of a list is not readable: {error}") from None


def event_of(line: bytes) -> Event:
    """An event of a watch.

    Raises:
        ApiError: it is none, or the server's word that the watch has failed.
    """
    try:
        event = decode_json(Event, line)
        if event.type != "ERROR":
            return event
        status = decode_json(Status, bytes(event.object))
    except FieldError as error:
        raise ApiError(0, "", f"an event is not readable: {error}") from None
    raise ApiError(
        status.code, status.reason, f"the watch has failed: {status.message or status.reason or status.code}"
    )


def identity_of(raw: bytes) -> Identity:
    """Who an object is.

    Raises:
        ApiError: it does not say.
    """
    try:
        identity = decode_json(_Identified, raw).metadata
    except FieldError as error:
        raise ApiError(0, "", f"an object is not readable: {error}") from None
    return identity
