"""One object of a file or of a control plane, as dicts and lists."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from berthmaster.model.decode import convert
from berthmaster.model.errors import FieldError, ManifestError
from berthmaster.model.kinds import Scope, group_of, is_namespaced, scope_of
from berthmaster.model.meta import Value, object_name
from berthmaster.model.policy_defaults import DEFAULT_NAMESPACE

T = TypeVar("T", bound=Value)

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
        return object_name(self.namespace, self.kind, self.name)

    def with_namespace(self, namespace: str = DEFAULT_NAMESPACE) -> "Document":
        """Return the document with the namespace that ``kubectl apply -n NAMESPACE`` would set if it has none.

        An API server sets a namespace and a UID for each namespaced object. An object of an unknown kind with a UID
        and without a namespace is therefore cluster-scoped.
        """
        metadata = self.raw["metadata"]
        scope = scope_of(self.api_version, self.kind)
        if self.namespace or scope is Scope.CLUSTER or (scope is None and metadata.get("uid")):
            return self
        return replace(self, raw={**self.raw, "metadata": {**metadata, "namespace": namespace}})

    def error(self, error: FieldError) -> ManifestError:
        placed = error.below(self.prefix) if self.prefix else error
        return ManifestError(self.source, self.number or None, placed.problem, placed.path)

    def decode(self, kind: type[T], api_version: str) -> T:
        """Return the object as a value. Raises ``ManifestError`` for another version, or an invalid field."""
        if self.api_version != api_version:
            problem = f"{self.api_version!r} is not accepted; accepted is {api_version!r}"
            raise self.error(FieldError("apiVersion", problem))
        try:
            return convert(kind, self.raw)
        except FieldError as error:
            raise self.error(error) from None

    def reject(self, errors: Iterable[FieldError]) -> None:
        """Raise the first of the errors in the object as a ``ManifestError``, if there is one."""
        for error in errors:
            raise self.error(error)
