"""The record in a dump of what was read from an API server, when, and what is missing."""

from datetime import datetime
from typing import Any, Final

import msgspec

from berthmaster.manifests.document import Document
from berthmaster.model.decode import builtins, convert
from berthmaster.model.errors import FieldError
from berthmaster.model.gaps import Gap, GapKind

SNAPSHOT_GROUP: Final = "berthmaster.io"
_SCRIPTS: Final = "resourceinterpretercustomizations.config.karmada.io"
_WEBHOOKS: Final = "resourceinterpreterwebhookconfigurations.config.karmada.io"
_API_VERSION: Final = f"{SNAPSHOT_GROUP}/v1alpha1"


def is_snapshot(document: Document) -> bool:
    """Return whether a document is the record of a dump, in any version."""
    return document.identity[:2] == (SNAPSHOT_GROUP, FleetSnapshot.__name__)


class ListRecord(msgspec.Struct, frozen=True, rename="camel"):
    """One list that was read. Lists of a snapshot have different resource versions: they are not one moment.

    Attributes:
        resource: the plural name with the API group, as in ``deployments.apps``.
        namespace: the namespace; empty for all.
        resource_version: the version of the list; empty if single objects were read.
        objects: the number of objects that the server returned.
        read_at: when the last page arrived.
        metadata_only: whether only metadata was requested.
    """

    resource: str
    namespace: str
    resource_version: str
    objects: int
    read_at: datetime
    metadata_only: bool = False


class FleetSnapshot(msgspec.Struct, frozen=True, rename="camel"):
    """The record of a dump, an object of kind ``FleetSnapshot`` among the others.

    Attributes:
        name: the context that was read.
        read_at: when reading started. Simulations of the dump start at this time.
        existing: whether the objects exist that policies wait for and that a workload needs, by kind and name.
        redacted: whether values were left out.
    """

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
        """Decode the record.

        Raises:
            ManifestError: the document has another form or version.
        """
        if document.api_version != _API_VERSION:
            problem = f"{document.api_version!r} is not accepted; accepted is {_API_VERSION!r}"
            raise document.error(FieldError("apiVersion", problem))
        try:
            return convert(cls, {**document.raw, "name": document.name, "gaps": _gaps(document.raw.get("gaps"))})
        except FieldError as error:
            raise document.error(error) from None

    def manifest(self) -> dict[str, Any]:
        """Return the record as an API object."""
        fields = builtins(self)
        name = fields.pop("name")
        return {"apiVersion": _API_VERSION, "kind": type(self).__name__, "metadata": {"name": name}, **fields}


def _gaps(raw: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return the gaps of a dump. Earlier versions wrote sentences."""
    if not isinstance(raw, list):
        return raw
    return [{"kind": GapKind.OTHER.value, "facts": {"text": each}} if isinstance(each, str) else each for each in raw]
