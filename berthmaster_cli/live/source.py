"""Reads a live control plane into documents: the whole fleet, or what concerns one workload."""

import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple, Self

import msgspec.structs
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from berthmaster.kube.http_client import connect
from berthmaster.kube.kubeconfig import ClusterAccess
from berthmaster.kube.served_types import ServedType, ServedTypes, discover_types
from berthmaster.manifests.document import Document, FleetSnapshot, ListRecord
from berthmaster.manifests.redaction import redacted
from berthmaster.model.binding import Binding, binding_name
from berthmaster.model.claims import WaitedFor, waited_for
from berthmaster.model.decode import convert, encode_json
from berthmaster.model.errors import ApiError, FieldError, InputError, shown
from berthmaster.model.gaps import Gap
from berthmaster.model.interpretation import Dependency, dependencies_of, recorded_dependencies
from berthmaster.model.kinds import group_of, metadata_suffices
from berthmaster.model.meta import Key
from berthmaster.model.policy import Policy, defaulted
from berthmaster.simulation.workload import ResourceName
from berthmaster_cli.live.collections import CollectionReader, Listing, ReadLimits
from berthmaster_cli.live.fleet import (
    BINDING_GROUP,
    FleetRead,
    concurrently,
    forbidden,
    joined,
    list_allowed,
    read_clusters,
    read_fleet,
    read_lease,
    read_policies,
)
from berthmaster_cli.output import stderr

_MOST: Final = 200
"""The most objects that are looked up, each by its name. The existence of others is not known."""


def read_waited_for(reader: CollectionReader, types: ServedTypes, read: FleetRead, over: Sequence[Document]) -> None:
    """Record whether the overrides and priority classes exist that policies name.

    Args:
        read: what was read; gets what exists, and the gaps.
        over: objects that will be laid over the stored ones.
    """
    names = list(dict.fromkeys(waited_for(_policies(read.policies(over)))))[:_MOST]

    def look(name: str) -> bool | Gap | None:
        return _exists(reader, types, WaitedFor.of(name))

    for name, answer in zip(names, concurrently(look, names), strict=True):
        if isinstance(answer, bool):
            read.existing[name] = answer
        elif answer is not None and answer not in read.gaps:
            read.gaps.append(answer)


def read_dependencies(reader: CollectionReader, types: ServedTypes, read: FleetRead, workload: Key, kind: str) -> None:
    """Add the metadata of the resources that follow a workload (``propagateDeps``), so that their names are known."""
    known = {(each.kind, each.namespace, each.name) for each in read.documents}

    def look(each: Dependency) -> Document | Gap | None:
        served = types.find(each.api_version, each.kind)
        if served is None:
            return None
        try:
            return reader.get(served, (each.namespace, each.name), metadata_only=True)
        except ApiError as error:
            if not error.forbidden:
                raise
            return forbidden(served, each.namespace, "get")

    wanted = [
        each
        for each in _needed(read, workload, kind)[:_MOST]
        if each.name and (each.kind, each.namespace, each.name) not in known
    ]
    for found in concurrently(look, wanted):
        if isinstance(found, Document):
            read.documents.append(found)
        elif found is not None and found not in read.gaps:
            read.gaps.append(found)


def _exists(reader: CollectionReader, types: ServedTypes, wanted: WaitedFor) -> bool | Gap | None:
    served = types.find(wanted.api_version, wanted.kind)
    if served is None:
        return None
    try:
        return reader.get(served, wanted.key, metadata_only=True) is not None
    except ApiError as error:
        if not error.forbidden:
            raise
        return forbidden(served, wanted.key[0], "get")


def _needed(read: FleetRead, workload: Key, kind: str) -> Sequence[Dependency]:
    """Return the dependencies of a workload: those on its binding, or else those of its template."""
    found: dict[tuple[str, str], Dependency] = {}
    for document in read.documents:
        needed: Sequence[Dependency] | None = None
        if group_of(document.api_version) == BINDING_GROUP:
            needed = _recorded(document, workload, kind)
        elif (document.kind, document.namespace, document.name) == (kind, *workload):
            needed = dependencies_of(document.raw)
        found |= {(each.kind, each.name): each for each in needed or ()}
    return list(found.values())


def _recorded(document: Document, workload: Key, kind: str) -> Sequence[Dependency] | None:
    try:
        binding = convert(Binding, document.raw)
    except FieldError:
        return None
    resource = binding.spec.resource
    same = (resource.kind, resource.namespace, resource.name) == (kind, *workload)
    return recorded_dependencies(binding.metadata.annotations) if same else None


def _policies(documents: Iterable[Document]) -> Iterable[Policy]:
    for document in documents:
        try:
            yield defaulted(convert(Policy, document.raw))
        except FieldError:
            continue


_BINDINGS: Final = ("ResourceBinding", "ClusterResourceBinding")


def resolved(types: ServedTypes, name: ResourceName, namespace: str) -> tuple[ServedType, ResourceName]:
    """Return the type that a name means, and the name with its kind and namespace."""
    served = types.resolve(name.kind)
    if served is None:
        raise InputError(f"the API server has no resource type {shown(name.kind)}; `kubectl api-resources` lists them")
    return served, ResourceName(name.namespace or namespace if served.namespaced else "", served.kind, name.name)


def read_workload(
    reader: CollectionReader,
    types: ServedTypes,
    served: ServedType,
    name: ResourceName,
    *,
    over: Sequence[Document] = (),
    with_peers: bool = False,
) -> FleetRead:
    """Read one workload, its binding, the policies that may claim it, and the clusters."""
    read = FleetRead()
    types_of_planes = read_clusters(reader, types, read)
    listed = [each for each in types_of_planes if _is_listed(each, name, with_peers=with_peers)]
    for result in concurrently(lambda each: list_allowed(reader, each, name.namespace), listed):
        read.take(result)
    key = (name.namespace, name.name)
    template = _get(reader, served, key, metadata_only=metadata_suffices(served.api_version, served.kind))
    binding = None if with_peers else _binding(reader, types, name)
    for found in (binding, template):
        read.take(found)
    identities = {(each.namespace, each.kind, each.name) for each in (*read.documents, *over)}
    bound = any(each.api_version.startswith(BINDING_GROUP) for each in read.documents)
    if (name.namespace, served.kind, name.name) not in identities and not bound and not read.gaps:
        where = f" in the namespace {name.namespace}" if name.namespace else ""
        raise InputError(f"{reader.server}: there is no {served} {shown(name.name)}{where}")
    return read


def _is_listed(each: ServedType, name: ResourceName, *, with_peers: bool) -> bool:
    """Return whether all objects of a type of the control plane matter for one workload."""
    if each.kind in _BINDINGS:
        return with_peers and each.namespaced and bool(name.namespace)
    return not each.namespaced or bool(name.namespace)


def _binding(reader: CollectionReader, types: ServedTypes, name: ResourceName) -> Listing | Gap | None:
    kind = _BINDINGS[0] if name.namespace else _BINDINGS[1]
    served = types.find("work.karmada.io/v1alpha2", kind)
    return _get(reader, served, (name.namespace, binding_name(name.kind, name.name))) if served is not None else None


def _get(
    reader: CollectionReader, served: ServedType, key: Key, *, metadata_only: bool = False
) -> Listing | Gap | None:
    """Get one object. Return None if it does not exist, and the gap if the user may not read it."""
    try:
        found = reader.get(served, key, metadata_only=metadata_only)
    except ApiError as error:
        if not error.forbidden:
            raise
        return forbidden(served, key[0], "get")
    if found is None:
        return None
    version = str(found.raw["metadata"].get("resourceVersion") or "")
    now = datetime.now(UTC).replace(microsecond=0)
    return Listing([found], ListRecord(str(served), key[0], version, 1, now, metadata_only))


class ListingBars:
    """One bar for each list. The bars vanish at the end of the ``with`` block. See ``ListingProgress``."""

    def __init__(self) -> None:
        columns = (TextColumn("reading {task.description}"), BarColumn(), MofNCompleteColumn())
        self._progress = Progress(*columns, console=stderr(), transient=True, disable=not sys.stderr.isatty())
        self._lock = threading.Lock()
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def listed(self, resource: str, objects: int, expected: int) -> None:
        with self._lock:
            if resource not in self._tasks:
                self._tasks[resource] = self._progress.add_task(resource)
            self._progress.update(self._tasks[resource], completed=objects, total=max(expected, 1))


if TYPE_CHECKING:
    from berthmaster.kube.client import APIClient


class LiveDocuments(NamedTuple):
    """What was read from a control plane.

    Attributes:
        documents: the objects in a fixed order, the same for the same state.
    """

    documents: list[Document]
    snapshot: FleetSnapshot
    name: ResourceName | None = None

    def all(self) -> list[Document]:
        """Return the objects and the record of the read, as a dump holds them."""
        record = Document(self.snapshot.name, 0, "", self.snapshot.manifest())
        return [record, *self.documents]


def live_fleet(
    access: ClusterAccess, limits: ReadLimits, namespace: str = "", over: Sequence[Document] = ()
) -> LiveDocuments:
    """Read everything that a simulation needs; see ``read_fleet``."""

    def read(reader: CollectionReader, types: ServedTypes) -> tuple[FleetRead, None]:
        found = read_fleet(reader, types, namespace, over)
        read_waited_for(reader, types, found, over)
        return found, None

    return _read(access, limits, read)


def live_policies(access: ClusterAccess, limits: ReadLimits) -> LiveDocuments:
    """Read clusters and policies; see ``read_policies``."""
    return _read(access, limits, lambda reader, types: (read_policies(reader, types), None))


def live_workload(
    access: ClusterAccess,
    limits: ReadLimits,
    name: ResourceName,
    namespace: str,
    over: Sequence[Document] = (),
    *,
    with_peers: bool = False,
    with_others: bool = False,
) -> LiveDocuments:
    """Read what the explanation of one workload needs; see ``read_workload``.

    Args:
        namespace: the namespace if the name has none; empty for that of the context.
        with_peers: whether workload affinity refers to other bindings.
        with_others: whether changes can move workloads that it follows. Then all of its namespace are read.
    """

    def read(reader: CollectionReader, types: ServedTypes) -> tuple[FleetRead, ResourceName]:
        served, found = resolved(types, name, namespace or access.namespace)
        result = read_workload(reader, types, served, found, over=over, with_peers=with_peers)
        if with_others and found.namespace:
            result = joined(read_fleet(reader, types, found.namespace, over), result)
        read_waited_for(reader, types, result, over)
        read_dependencies(reader, types, result, (found.namespace, found.name), found.kind)
        return result, found

    return _read(access, limits, read)


def _read(
    access: ClusterAccess,
    limits: ReadLimits,
    read: Callable[[CollectionReader, ServedTypes], tuple[FleetRead, ResourceName | None]],
) -> LiveDocuments:
    started = datetime.now(UTC).replace(microsecond=0)
    client: APIClient = connect(access)
    with ListingBars() as bars:
        reader = CollectionReader(client, str(access), limits, bars)
        types = discover_types(client)
        found, name = read(reader, types)
        if limits.lease is not None:
            read_lease(reader, types, limits.lease, found)
    snapshot = FleetSnapshot(access.context or "pod", started, tuple(found.records), tuple(found.gaps), found.existing)
    return LiveDocuments(found.documents, snapshot, name)


def write_dump(live: LiveDocuments, path: Path, *, redact: bool) -> None:
    """Write a ``v1`` ``List`` as JSON, which is YAML as well, with one object in each line.

    Only the user can read the file. It appears under its name when it is complete.
    """
    snapshot = msgspec.structs.replace(live.snapshot, redacted=redact)
    items = (redacted(each.raw) if redact else each.raw for each in live.documents)
    name = ""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # with mode 0600
        with os.fdopen(handle, "wb") as file:
            _write(file, [snapshot.manifest()], items)
        Path(name).replace(path)
    except OSError as error:
        with suppress(OSError):
            Path(name).unlink()
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None


def _write(file: BinaryIO, *groups: Iterable[dict[str, Any]]) -> None:
    file.write(b'{"apiVersion": "v1", "kind": "List", "items": [')
    separator = b"\n"
    for group in groups:
        for item in group:
            file.write(separator + encode_json(item))
            separator = b",\n"
    file.write(b"\n]}\n")
