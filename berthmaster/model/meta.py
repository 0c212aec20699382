"""Object metadata (``meta/v1``)."""

from typing import Final

from berthmaster.model.base import Int64, Timestamp, Value

_MAX_NAME: Final = 253


def may_be_name(text: str) -> bool:
    """Whether an object can be called so (apimachinery ``path.IsValidPathSegmentName``).

    What cannot must never become part of a request's path, where it would lead to something else.
    """
    return 0 < len(text) <= _MAX_NAME and text not in {".", ".."} and "/" not in text and "%" not in text


class OwnerReference(Value, frozen=True):
    """Who an object belongs to."""

    api_version: str
    kind: str
    name: str
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Value, frozen=True):
    """The part of ``metadata`` that decisions read; the rest survives in the raw document."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int64 = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()
    creation_timestamp: Timestamp | None = None
    deletion_timestamp: Timestamp | None = None
