"""Values of decoded documents and object metadata (``meta/v1``)."""

import re
from datetime import datetime
from typing import Annotated, Final

import msgspec

INT32_MIN: Final = -(2**31)
INT32_MAX: Final = 2**31 - 1
INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1

Int32 = Annotated[int, msgspec.Meta(ge=INT32_MIN, le=INT32_MAX)]
Int64 = Annotated[int, msgspec.Meta(ge=INT64_MIN, le=INT64_MAX)]
Count = Annotated[int, msgspec.Meta(ge=0, le=INT32_MAX)]
"""A number of replicas or pods: an int32 that is not negative."""

Timestamp = Annotated[datetime, msgspec.Meta(tz=True)]
"""An RFC 3339 time with its offset, as the API server writes it."""

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")


class Value(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """A decoded object of an API: immutable, camelCase outside, absent fields at their default.

    Made from its parts upwards and never changed, it cannot be part of a cycle: the garbage collector, which would
    look at every one of a fleet's again and again, is not told of it.
    """


def int64_of(text: str) -> int | None:
    """An int64 as Go's ParseInt reads it, or None."""
    number = int(text) if _INTEGER.fullmatch(text) else None
    return number if number is not None and INT64_MIN <= number <= INT64_MAX else None


_MAX_NAME: Final = 253


def is_valid_name(text: str) -> bool:
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
