"""Lists the clusters and the bindings, and reads what their status says."""

from collections import Counter
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec

from berthmaster.kube import requests
from berthmaster.kube.kinds import KARMADA_CLUSTERS
from berthmaster.kube.listing import Unread, pages
from berthmaster.model.binding import SCHEDULED
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import FieldError, UnlistableError
from berthmaster.model.meta import object_name
from berthmaster_cli.doctor.facts import BindingFacts, FleetFacts
from berthmaster_cli.doctor.gather.client import DoctorClient

MAX_LISTED: Final = 10_000
"""The most objects of a collection that are read."""
CLUSTERS: Final = KARMADA_CLUSTERS.collection
BINDINGS: Final = (requests.RESOURCE_BINDINGS, requests.CLUSTER_RESOURCE_BINDINGS)
_SETTLED: Final = timedelta(seconds=60)
"""A younger binding may not have been scheduled yet."""


class _ListedMetadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None

    @property
    def path(self) -> str:
        return object_name(self.namespace, self.name)


class _Condition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    scheduler_name: str = ""


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    conditions: tuple[_Condition, ...] = ()
    resource_summary: dict[str, Any] | None = None
    scheduler_observed_generation: int = 0


class _Item(msgspec.Struct, frozen=True):
    """What is read of a cluster or a binding. The strict types of the model would refuse a damaged object."""

    metadata: _ListedMetadata
    spec: _Spec = _Spec()
    status: _Status = _Status()


def read_clusters(client: DoctorClient) -> FleetFacts:
    """List the clusters."""
    found, unread, complete = _listed(client, CLUSTERS)
    ready = {
        each.metadata.name
        for each in found
        if any(condition.type == "Ready" and condition.status == "True" for condition in each.status.conditions)
    }
    measured = {each.metadata.name for each in found if (each.status.resource_summary or {}).get("allocatable")}
    names = [each.metadata.name for each in found]
    not_ready, unmeasured = (tuple(name for name in names if name not in known) for known in (ready, measured))
    return FleetFacts(len(found), not_ready, unmeasured, complete, tuple(unread))


def read_bindings(client: DoctorClient, ours: str, now: datetime) -> BindingFacts:
    """List the bindings of both kinds."""
    by_scheduler: Counter[str] = Counter()
    stale, unschedulable, unread, complete = [], [], list[str](), True
    for collection in BINDINGS:
        found, not_read, whole = _listed(client, collection)
        complete = complete and whole
        unread += not_read
        by_scheduler.update(each.spec.scheduler_name for each in found)
        for each in found:
            if each.spec.scheduler_name != ours or each.metadata.deletion_timestamp:
                continue
            if _is_stale(each, now):
                stale.append(each.metadata.path)
            elif (reason := _failure(each)) is not None:
                unschedulable.append((each.metadata.path, reason))
    return BindingFacts(dict(by_scheduler), tuple(stale), tuple(unschedulable), complete, tuple(unread))


def _item(document: bytes) -> _Item | None:
    """Decode an object; None if a field that is read has another type."""
    try:
        return decode_json(_Item, document)
    except FieldError:
        return None


class _Listing(NamedTuple):
    """Objects of a collection, the names of those that could not be read, and whether there are no others."""

    items: list[_Item]
    unread: list[str]
    complete: bool


def _listed(client: DoctorClient, collection: requests.Collection) -> _Listing:
    items, unread = list[_Item](), list[str]()
    try:
        for part in pages(client.ask, collection, most=MAX_LISTED):
            for key, content in part.objects:
                item = None if isinstance(content, Unread) else _item(bytes(content))
                if item is None:
                    unread.append(object_name(*key))
                else:
                    items.append(item)
    except UnlistableError:
        return _Listing(items, unread, complete=False)
    return _Listing(items, unread, complete=True)


def _is_stale(binding: _Item, now: datetime) -> bool:
    """Whether a binding that is not new changed after the scheduler observed it."""
    created = binding.metadata.creation_timestamp
    settled = created is None or now - created > _SETTLED
    return settled and binding.metadata.generation > binding.status.scheduler_observed_generation


def _failure(binding: _Item) -> str | None:
    """The reason why a binding could not be scheduled; None if it was."""
    for each in binding.status.conditions:
        if each.type == SCHEDULED and each.status != "True":
            return each.reason or "Unknown"
    return None
