"""A document with its source, and the limits of reading.

The record in a dump of what was read from an API server, when, and what is missing.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

from berthmaster.model.decode import builtins, convert
from berthmaster.model.errors import FieldError, ManifestError
from berthmaster.model.gaps import Gap, GapKind
from berthmaster.model.kinds import group_of, is_namespaced
from berthmaster.model.policy import DEFAULT_NAMESPACE

STDIN: Final = "<stdin>"


class ManifestLimits(NamedTuple):
    """The limits that guard against mistakes and attacks.

    Attributes:
        aliased_nodes: the largest number of values that the aliases of a YAML file may expand to, in total.
        documents: the largest number of documents in all files. Each item of a ``List`` counts.
    """

    file_bytes: int = 64 * 2**20
    depth: int = 100
    aliased_nodes: int = 100_000
    documents: int = 200_000


DEFAULT_LIMITS: Final = ManifestLimits()

Identity = tuple[str, str, str, str]
"""The API group, kind, namespace and name of an object. The namespace of a cluster-scoped object is empty."""


@dataclass(frozen=True, slots=True)
class Document:
    """One API object as written in a manifest or stored by an API server.

    Attributes:
        source: the path of the file, or ``<stdin>``; for an object of an API server, the server and the object.
        number: the number of the document in the file, from 1; empty documents count. 0 without a file.
        prefix: the path of the object in the document: ``items[2]`` in a List, else empty.
        raw: the object. ``apiVersion``, ``kind`` and ``metadata.name`` are non-empty strings.
        applied: the object comes from a file beside stored objects: it would be applied to the control plane.
        replaced: the stored object that it replaces; None without one.
    """

    source: str
    number: int
    prefix: str
    raw: dict[str, Any]
    applied: bool = False
    replaced: dict[str, Any] | None = None

    @property
    def api_version(self) -> str:
        return str(self.raw["apiVersion"])

    @property
    def kind(self) -> str:
        return str(self.raw["kind"])

    @property
    def name(self) -> str:
        return str(self.raw["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """``metadata.namespace``; empty if absent."""
        return str(self.raw["metadata"].get("namespace") or "")

    @property
    def stored(self) -> bool:
        """Whether an API server has stored the object as it is written: it has a UID, and no file changes it."""
        return bool(self.raw["metadata"].get("uid")) and not self.applied

    @property
    def is_live(self) -> bool:
        """Whether the object was read from an API server, not from a file."""
        return self.number == 0

    @property
    def place(self) -> str:
        place = f"{self.source}: document {self.number}" if self.number else self.source
        return f"{place}: {self.prefix}" if self.prefix else place

    @property
    def identity(self) -> Identity:
        """What distinguishes the object from all others, in any version of its API group."""
        namespace = self.namespace if is_namespaced(self.api_version, self.kind) else ""
        return group_of(self.api_version), self.kind, namespace, self.name

    @property
    def resource(self) -> str:
        """``NAMESPACE/KIND/NAME``, or ``KIND/NAME`` for an object without a namespace."""
        return "/".join(filter(None, (self.namespace, self.kind, self.name)))

    def with_namespace(self) -> "Document":
        """Return the document with the namespace that ``kubectl apply`` would set.

        An API server sets a namespace and a UID for each namespaced object. An object with a UID and without a
        namespace is therefore cluster-scoped, even if its kind is not known.
        """
        metadata = self.raw["metadata"]
        if self.namespace or metadata.get("uid") or not is_namespaced(self.api_version, self.kind):
            return self
        return replace(self, raw={**self.raw, "metadata": {**metadata, "namespace": DEFAULT_NAMESPACE}})

    def error(self, error: FieldError) -> ManifestError:
        placed = error.below(self.prefix) if self.prefix else error
        return ManifestError(self.source, self.number or None, placed.problem, placed.path)


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
        resource_version: the version of the list; empty if single objects were read.
        read_at: when the last page arrived.
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
        read_at: when reading started. Simulations of the dump start at this time.
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
        """Decode the record. Raises ``ManifestError`` if the document has another form or version."""
        if document.api_version != _API_VERSION:
            problem = f"{document.api_version!r} is not accepted; accepted is {_API_VERSION!r}"
            raise document.error(FieldError("apiVersion", problem))
        try:
            return convert(cls, {**document.raw, "name": document.name, "gaps": _gaps(document.raw.get("gaps"))})
        except FieldError as error:
            raise document.error(error) from None

    def manifest(self) -> dict[str, Any]:
        fields = builtins(self)
        name = fields.pop("name")
        return {"apiVersion": _API_VERSION, "kind": type(self).__name__, "metadata": {"name": name}, **fields}


def _gaps(raw: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return the gaps of a dump. Earlier versions wrote sentences."""
    if not isinstance(raw, list):
        return raw
    return [{"kind": GapKind.OTHER.value, "facts": {"text": each}} if isinstance(each, str) else each for each in raw]
