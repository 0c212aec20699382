"""Reads a live control plane into documents: the whole fleet, or what concerns one workload."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from berthmaster.kube.http_client import connect
from berthmaster.kube.kubeconfig import ClusterAccess
from berthmaster.kube.served_types import ServedTypes, discover_types
from berthmaster.manifests.document import Document, FleetSnapshot
from berthmaster.simulation.workload import ResourceName
from berthmaster_cli.live.collections import CollectionReader, ReadLimits
from berthmaster_cli.live.existence import read_dependencies, read_waited_for
from berthmaster_cli.live.fleet import FleetRead, joined, read_fleet, read_lease, read_policies
from berthmaster_cli.live.progress import ListingBars
from berthmaster_cli.live.workload import read_workload, resolved

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
