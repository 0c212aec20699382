"""Facts about clusters, bindings and leases. Lists are read page by page up to a bound."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final, Generic, TypeVar

import msgspec

from berthmaster.deciding.lease_record import SOURCES, sources_record
from berthmaster.kube.client import ask_if_found
from berthmaster.kube.kinds import CLUSTER_RESOURCE_BINDINGS, KARMADA_CLUSTERS, RESOURCE_BINDINGS
from berthmaster.kube.lease import LEASES
from berthmaster.kube.requests import APIRequest, Collection, ListMeta, get, page
from berthmaster.model.binding import SCHEDULED
from berthmaster_cli.doctor.facts import BindingFacts, FleetFacts, LeaseFacts
from berthmaster_cli.doctor.gather.client import DoctorClient, decode

T = TypeVar("T")
MAX_PAGES: Final = 20
CLUSTERS: Final = KARMADA_CLUSTERS.collection
BINDINGS: Final = (RESOURCE_BINDINGS, CLUSTER_RESOURCE_BINDINGS)
_SETTLED: Final = timedelta(seconds=60)
"""A younger binding may not have been scheduled yet."""
_MAX_LEASES: Final = 2000


class _ListedMetadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    annotations: dict[str, str] = {}

    @property
    def path(self) -> str:
        return "/".join(filter(None, (self.namespace, self.name)))


class _Condition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""


class _ClusterStatus(msgspec.Struct, frozen=True, rename="camel"):
    conditions: tuple[_Condition, ...] = ()
    resource_summary: dict[str, Any] | None = None


class _Cluster(msgspec.Struct, frozen=True):
    metadata: _ListedMetadata
    status: _ClusterStatus = _ClusterStatus()


class _BindingSpec(msgspec.Struct, frozen=True, rename="camel"):
    scheduler_name: str = ""


class _BindingStatus(msgspec.Struct, frozen=True, rename="camel"):
    conditions: tuple[_Condition, ...] = ()
    scheduler_observed_generation: int = 0


class _Binding(msgspec.Struct, frozen=True):
    metadata: _ListedMetadata
    spec: _BindingSpec = _BindingSpec()
    status: _BindingStatus = _BindingStatus()


class _LeaseSpec(msgspec.Struct, frozen=True, rename="camel"):
    holder_identity: str | None = None
    renew_time: datetime | None = None
    lease_duration_seconds: int | None = None


class _Lease(msgspec.Struct, frozen=True):
    metadata: _ListedMetadata
    spec: _LeaseSpec = _LeaseSpec()

    def facts(self) -> LeaseFacts:
        metadata, spec = self.metadata, self.spec
        holder, duration_s = spec.holder_identity or "", spec.lease_duration_seconds or 0
        sources = sources_record(metadata.annotations.get(SOURCES))
        return LeaseFacts(metadata.namespace, metadata.name, holder, spec.renew_time, duration_s, sources)


class _List(msgspec.Struct, Generic[T], frozen=True):
    metadata: ListMeta = ListMeta()
    items: list[T] = []


def clusters(client: DoctorClient) -> FleetFacts:
    """List the clusters."""
    found, complete = [], True
    for each in _pages(client, CLUSTERS, _List[_Cluster]):
        found += each.items
        complete = not each.metadata.continue_
    return FleetFacts(
        total=len(found),
        not_ready=tuple(each.metadata.name for each in found if not _is_ready(each)),
        unmeasured=tuple(
            each.metadata.name for each in found if not (each.status.resource_summary or {}).get("allocatable")
        ),
        complete=complete,
    )


def bindings(client: DoctorClient, ours: str, now: datetime) -> BindingFacts:
    """List the bindings of both kinds."""
    by_scheduler: Counter[str] = Counter()
    stale, unschedulable, complete = [], [], True
    for collection in BINDINGS:
        last = _List[_Binding]()
        for last in _pages(client, collection, _List[_Binding]):
            for each in last.items:
                by_scheduler[each.spec.scheduler_name] += 1
                if each.spec.scheduler_name != ours or each.metadata.deletion_timestamp:
                    continue
                if _is_stale(each, now):
                    stale.append(each.metadata.path)
                elif (reason := _failure(each)) is not None:
                    unschedulable.append((each.metadata.path, reason))
        complete = complete and not last.metadata.continue_
    return BindingFacts(dict(by_scheduler), tuple(stale), tuple(unschedulable), complete)


def _pages(client: DoctorClient, collection: Collection, kind: type[_List[T]]) -> Iterator[_List[T]]:
    token = ""
    for _ in range(MAX_PAGES):
        found = client.read_as(kind, page(collection, token, client.read_timeout_s))
        yield found
        token = found.metadata.continue_
        if not token:
            return


def _is_ready(cluster: _Cluster) -> bool:
    return any(each.type == "Ready" and each.status == "True" for each in cluster.status.conditions)


def _is_stale(binding: _Binding, now: datetime) -> bool:
    """Whether a binding that is not new changed after the scheduler observed it."""
    created = binding.metadata.creation_timestamp
    settled = created is None or now - created > _SETTLED
    return settled and binding.metadata.generation > binding.status.scheduler_observed_generation


def _failure(binding: _Binding) -> str | None:
    """The reason why a binding could not be scheduled; None if it was."""
    for each in binding.status.conditions:
        if each.type == SCHEDULED and each.status != "True":
            return each.reason or "Unknown"
    return None


def lease(client: DoctorClient, namespace: str, name: str) -> LeaseFacts | None:
    """Read a lease; None if it does not exist."""
    body = ask_if_found(client, get(LEASES, (namespace, name)))
    return decode(_Lease, body).facts() if body is not None else None


def leases_named(client: DoctorClient, name: str) -> list[LeaseFacts]:
    """List the leases of a name in all namespaces."""
    query = (("fieldSelector", f"metadata.name={name}"), ("limit", str(_MAX_LEASES)))
    return [each.facts() for each in client.read_as(_List[_Lease], APIRequest(LEASES.path, query)).items]
