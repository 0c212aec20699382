"""Reads what the explanation of one workload needs: not the fleet's other workloads."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from berthmaster.kube.served_types import ServedType, ServedTypes
from berthmaster.manifests.document import Document, ListRecord
from berthmaster.model.binding import binding_name
from berthmaster.model.errors import ApiError, InputError, shown
from berthmaster.model.gaps import Gap
from berthmaster.model.kinds import metadata_suffices
from berthmaster.model.meta import Key
from berthmaster.simulation.workload import ResourceName
from berthmaster_cli.live.collections import CollectionReader, Listing
from berthmaster_cli.live.fleet import (
    BINDING_GROUP,
    FleetRead,
    concurrently,
    forbidden,
    list_allowed,
    read_clusters,
)

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
