"""Object metadata (``meta/v1``)."""

from fleet.model.base import Int64, Timestamp, Value


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
