"""What an API server answers: pages of a list, events of a watch, and statuses."""

from typing import Final

import msgspec

from berthmaster.kube.requests import Key
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import ApiError, FieldError

MAX_MESSAGE_BYTES: Final = 64 * 2**20
"""The largest page or event that is read: a page of objects as large as etcd stores them is smaller."""


class APIStatus(msgspec.Struct, frozen=True):
    """``meta/v1.Status``: why something was not done."""

    code: int = 0
    reason: str = ""
    message: str = ""


class ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    """Where a page ends."""

    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class ListPage(msgspec.Struct, frozen=True):
    """A page of a list, its objects as they came."""

    metadata: ListMeta
    items: list[msgspec.Raw] | None = None


class WatchEvent(msgspec.Struct, frozen=True):
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


def decode_status(body: bytes) -> APIStatus:
    """The status in the body of an error; an empty one where somebody else answered, a proxy for instance."""
    try:
        return decode_json(APIStatus, body)
    except FieldError:
        return APIStatus()


def decode_page(body: bytes) -> ListPage:
    """A page of a list.

    Raises:
        ApiError: it is none.
    """
    try:
        return decode_json(ListPage, body)
    except FieldError as error:
        raise ApiError(0, "", f"a page of a list is not readable: {error}") from None


def decode_watch_event(line: bytes) -> WatchEvent:
    """An event of a watch.

    Raises:
        ApiError: it is none, or the server's word that the watch has failed.
    """
    try:
        event = decode_json(WatchEvent, line)
        if event.type != "ERROR":
            return event
        status = decode_json(APIStatus, bytes(event.object))
    except FieldError as error:
        raise ApiError(0, "", f"an event is not readable: {error}") from None
    raise ApiError(
        status.code, status.reason, f"the watch has failed: {status.message or status.reason or status.code}"
    )


def decode_identity(raw: bytes) -> Identity:
    """Who an object is.

    Raises:
        ApiError: it does not say.
    """
    try:
        identity = decode_json(_Identified, raw).metadata
    except FieldError as error:
        raise ApiError(0, "", f"an object is not readable: {error}") from None
    return identity
