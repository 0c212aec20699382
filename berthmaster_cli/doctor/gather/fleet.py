"""Member clusters and bindings, read page by page up to a bound, and only what is judged."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

import msgspec

from berthmaster.kube.lease import LEASES
from berthmaster.kube.requests import APIRequest, Collection, get, page
from berthmaster.kube.responses import ListMeta
from berthmaster.model.errors import ApiError
from berthmaster_cli.doctor.facts import Bindings, Fleet, LeaseSeen
from berthmaster_cli.doctor.gather.asker import Asker

MAX_PAGES: Final = 20
CLUSTERS: Final = Collection.of("cluster.karmada.io/v1alpha1", "clusters")
BINDINGS: Final = tuple(
    Collection.of("work.karmada.io/v1alpha2", plural) for plural in ("resourcebindings", "clusterresourcebindings")
)
_SETTLED: Final = timedelta(seconds=60)
"""A binding that was made later than that may well not have been scheduled yet."""
_MAX_LEASES: Final = 2000


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None

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
    metadata: _Metadata
    status: _ClusterStatus = _ClusterStatus()


class _BindingSpec(msgspec.Struct, frozen=True, rename="camel"):
    scheduler_name: str = ""


class _BindingStatus(msgspec.Struct, frozen=True, rename="camel"):
    conditions: tuple[_Condition, ...] = ()
    scheduler_observed_generation: int = 0


class _Binding(msgspec.Struct, frozen=True):
    metadata: _Metadata
    spec: _BindingSpec = _BindingSpec()
    status: _BindingStatus = _BindingStatus()


class _Clusters(msgspec.Struct, frozen=True):
    metadata: ListMeta = ListMeta()
    items: list[_Cluster] = []


class _Bindings(msgspec.Struct, frozen=True):
    metadata: ListMeta = ListMeta()
    items: list[_Binding] = []


_Page = TypeVar("_Page", _Clusters, _Bindings)


def fleet(asker: Asker) -> Fleet:
    """The clusters.

    Raises:
        ApiError: they cannot be listed.
    """
    found, complete = [], True
    for each in _pages(asker, CLUSTERS, _Clusters):
        found += each.items
        complete = not each.metadata.continue_
    return Fleet(
        total=len(found),
        not_ready=tuple(each.metadata.name for each in found if not _holds(each.status.conditions, "Ready")),
        unmeasured=tuple(
            each.metadata.name for each in found if not (each.status.resource_summary or {}).get("allocatable")
        ),
        complete=complete,
    )


def bindings(asker: Asker, ours: str, now: datetime) -> Bindings:
    """The bindings of both kinds.

    Raises:
        ApiError: they cannot be listed.
    """
    by_scheduler: Counter[str] = Counter()
    lagging, unschedulable, complete = [], [], True
    for collection in BINDINGS:
        last = _Bindings()
        for last in _pages(asker, collection, _Bindings):
            for each in last.items:
                by_scheduler[each.spec.scheduler_name] += 1
                if each.spec.scheduler_name != ours or each.metadata.deletion_timestamp:
                    continue
                if _lags(each, now):
                    lagging.append(each.metadata.path)
                elif (reason := _refused(each)) is not None:
                    unschedulable.append((each.metadata.path, reason))
        complete = complete and not last.metadata.continue_
    return Bindings(dict(by_scheduler), tuple(lagging), tuple(unschedulable), complete)


def _pages(asker: Asker, collection: Collection, kind: type[_Page]) -> Iterator[_Page]:
    token = ""
    for _ in range(MAX_PAGES):
        found = asker.read_as(kind, page(collection, token, asker.silence_s))
        yield found
        token = found.metadata.continue_
        if not token:
            return


def _holds(conditions: tuple[_Condition, ...], kind: str) -> bool:
    return any(each.type == kind and each.status == "True" for each in conditions)


def _lags(binding: _Binding, now: datetime) -> bool:
    made = binding.metadata.creation_timestamp
    settled = made is None or now - made > _SETTLED
    return settled and binding.metadata.generation > binding.status.scheduler_observed_generation


def _refused(binding: _Binding) -> str | None:
    """Why it could not be scheduled; None if it was."""
    for each in binding.status.conditions:
        if each.type == "Scheduled" and each.status != "True":
            return each.reason or "Unknown"
    return None


class _LeaseSpec(msgspec.Struct, frozen=True, rename="camel"):
    holder_identity: str | None = None
    renew_time: datetime | None = None
    lease_duration_seconds: int | None = None


class _Lease(msgspec.Struct, frozen=True):
    metadata: _Metadata
    spec: _LeaseSpec = _LeaseSpec()

    def seen(self) -> LeaseSeen:
        spec = self.spec
        return LeaseSeen(
            self.metadata.namespace,
            self.metadata.name,
            spec.holder_identity or "",
            spec.renew_time,
            spec.lease_duration_seconds or 0,
        )


class _Leases(msgspec.Struct, frozen=True):
    items: list[_Lease] = []


def lease(asker: Asker, namespace: str, name: str) -> LeaseSeen | None:
    """A lease; None if there is none.

    Raises:
        ApiError: it cannot be read.
    """
    try:
        return asker.read_as(_Lease, get(LEASES, (namespace, name))).seen()
    except ApiError as error:
        if error.not_found:
            return None
        raise


def leases_named(asker: Asker, name: str) -> list[LeaseSeen]:
    """The leases of a name in all namespaces.

    Raises:
        ApiError: they cannot be listed.
    """
    query = (("fieldSelector", f"metadata.name={name}"), ("limit", str(_MAX_LEASES)))
    return [each.seen() for each in asker.read_as(_Leases, APIRequest(LEASES.path, query)).items]
