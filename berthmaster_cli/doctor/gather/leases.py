"""Reads the leases of controllers and schedulers: who leads, and since when."""

from datetime import datetime
from typing import Final

import msgspec

from berthmaster.deciding.lease_record import SOURCES, sources_record
from berthmaster.kube import requests
from berthmaster.kube.client import ask_if_found
from berthmaster.kube.lease import LEASES
from berthmaster_cli.doctor.facts import LeaseFacts
from berthmaster_cli.doctor.gather.client import DoctorClient, decode

_MAX_LEASES: Final = 2000


class _LeaseMetadata(msgspec.Struct, frozen=True):
    name: str
    namespace: str = ""
    annotations: dict[str, str] = {}


class _LeaseSpec(msgspec.Struct, frozen=True, rename="camel"):
    holder_identity: str | None = None
    renew_time: datetime | None = None
    lease_duration_seconds: int | None = None


class _LeaseObject(msgspec.Struct, frozen=True):
    """What is read of a lease. The strict types of the model would refuse a damaged object."""

    metadata: _LeaseMetadata
    spec: _LeaseSpec = _LeaseSpec()


class _LeaseList(msgspec.Struct, frozen=True):
    items: list[_LeaseObject] = []


def _lease(item: _LeaseObject) -> LeaseFacts:
    metadata, spec = item.metadata, item.spec
    holder, duration_s = spec.holder_identity or "", spec.lease_duration_seconds or 0
    sources = sources_record(metadata.annotations.get(SOURCES))
    return LeaseFacts(metadata.namespace, metadata.name, holder, spec.renew_time, duration_s, sources)


def read_lease(client: DoctorClient, namespace: str, name: str) -> LeaseFacts | None:
    """Read a lease; None if it does not exist."""
    body = ask_if_found(client, requests.get(LEASES, (namespace, name)))
    return _lease(decode(_LeaseObject, body)) if body is not None else None


def read_leases(client: DoctorClient, name: str) -> list[LeaseFacts]:
    """List the leases of a name in all namespaces."""
    query = (("fieldSelector", f"metadata.name={name}"), ("limit", str(_MAX_LEASES)))
    return list(map(_lease, client.read_as(_LeaseList, requests.APIRequest(LEASES.path, query)).items))
