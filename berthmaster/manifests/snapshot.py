"""The record of a dump: which control plane it is of, and when it was read."""

from datetime import datetime
from typing import Any, Final

import msgspec

from berthmaster.manifests.document import Document
from berthmaster.model.decode import builtins, convert
from berthmaster.model.errors import FieldError
from berthmaster.model.gaps import Gap

SNAPSHOT_GROUP: Final = "berthmaster.io"


_SCRIPTS: Final = "resourceinterpretercustomizations.config.karmada.io"


_WEBHOOKS: Final = "resourceinterpreterwebhookconfigurations.config.karmada.io"


_API_VERSION: Final = f"{SNAPSHOT_GROUP}/v1alpha1"


def is_snapshot(document: Document) -> bool:
    """Return whether a document is the record of a dump, in any version."""
    return document.identity[:2] == (SNAPSHOT_GROUP, FleetSnapshot.__name__)


class ListRecord(msgspec.Struct, frozen=True, rename="camel"):
    """One list of a resource such as ``deployments.apps``. The lists of a dump are not of one moment."""

    resource: str
    namespace: str
    resource_version: str
    objects: int
    read_at: datetime
    metadata_only: bool = False


class FleetSnapshot(msgspec.Struct, frozen=True, rename="camel"):
    """The record of a dump, one of its objects. Simulations of the dump start at ``read_at``."""

    name: str
    read_at: datetime
    lists: tuple[ListRecord, ...] = ()
    gaps: tuple[Gap, ...] = ()
    existing: dict[str, bool] = {}
    redacted: bool = False

    @property
    def interpreters_complete(self) -> bool:
        """Whether all interpreters of the control plane are known: its scripts were listed, and it has no webhooks."""
        listed = {each.resource: each.objects for each in self.lists}
        return _SCRIPTS in listed and listed.get(_WEBHOOKS) == 0

    @classmethod
    def of(cls, document: Document) -> "FleetSnapshot":
        """Decode the record. Raises ``ManifestError`` if the document has another form or version."""
        if document.api_version != _API_VERSION:
            problem = f"{document.api_version!r} is not accepted; accepted is {_API_VERSION!r}"
            raise document.error(FieldError("apiVersion", problem))
        try:
            return convert(cls, {**document.raw, "name": document.name})
        except FieldError as error:
            raise document.error(error) from None

    def manifest(self) -> dict[str, Any]:
        fields = builtins(self)
        name = fields.pop("name")
        return {"apiVersion": _API_VERSION, "kind": type(self).__name__, "metadata": {"name": name}, **fields}
