"""What all API objects share: the base type of decoded values, numbers, names and metadata (``meta/v1``)."""

import re
from abc import abstractmethod
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Final, Self, TypeVar

import msgspec

CLUSTER_SCOPED: Final = "-"
"""Stands for the namespace of cluster-scoped objects, in addresses and in lists of namespaces."""
INT32_MIN: Final = -(2**31)
INT32_MAX: Final = 2**31 - 1
INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1

Int32 = Annotated[int, msgspec.Meta(ge=INT32_MIN, le=INT32_MAX)]
Int64 = Annotated[int, msgspec.Meta(ge=INT64_MIN, le=INT64_MAX)]
Count = Annotated[int, msgspec.Meta(ge=0, le=INT32_MAX)]
"""A number of replicas or pods: a non-negative int32."""

Timestamp = Annotated[datetime, msgspec.Meta(tz=True)]
"""An RFC 3339 time with its offset, as API servers write it."""

Key = tuple[str, str]
"""The namespace (empty for cluster-scoped objects) and the name of an object."""

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_MAX_NAME: Final = 253


def moment_of(text: str) -> datetime | None:
    """Return the time that a text says with its offset; None if it says none."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


def timestamp_text(moment: datetime) -> str:
    """Return a time as API servers write it: in UTC and whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Value(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """A decoded API object: immutable, camelCase in JSON, absent fields at their defaults.

    A value cannot be part of a reference cycle, because it is created after its parts and never changes.
    The garbage collector therefore does not track values (``gc=False``), which matters for large fleets.
    """


class ParsedText:
    """A value that documents have as a text: ``parse`` reads it, and ``text`` writes it."""

    __slots__ = ()

    @classmethod
    @abstractmethod
    def parse(cls, text: str) -> Self:
        """Read a value. Raises ``InputError`` if the text is not accepted."""

    @abstractmethod
    def text(self) -> str: ...


def int64_of(text: str) -> int | None:
    """Parse an int64 as Go's ``ParseInt`` does; return None if the text is not one."""
    number = int(text) if _INTEGER.fullmatch(text) else None
    return number if number is not None and INT64_MIN <= number <= INT64_MAX else None


def object_name(*parts: str | None) -> str:
    """Return an object as people name it, such as ``NAMESPACE/KIND/NAME``. Empty parts are left out."""
    return "/".join(filter(None, parts))


def is_valid_name(text: str) -> bool:
    """Return whether an object can have this name (apimachinery ``path.IsValidPathSegmentName``).

    An invalid name must not become part of a request path, because the path would then address another resource.
    """
    return 0 < len(text) <= _MAX_NAME and text not in {".", ".."} and "/" not in text and "%" not in text


class OwnerReference(Value, frozen=True):
    """An owner of an object."""

    api_version: str
    kind: str
    name: str
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Value, frozen=True):
    """The part of ``metadata`` that decisions read. The raw document keeps the rest."""

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

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name


S = TypeVar("S", bound=msgspec.Struct)


def with_metadata(value: S, **fields: object) -> S:
    return _with_part(value, "metadata", fields)


def with_spec(value: S, **fields: object) -> S:
    return _with_part(value, "spec", fields)


def with_status(value: S, **fields: object) -> S:
    return _with_part(value, "status", fields)


def _with_part(value: S, part: str, fields: Mapping[str, object]) -> S:
    return msgspec.structs.replace(value, **{part: msgspec.structs.replace(getattr(value, part), **fields)})
