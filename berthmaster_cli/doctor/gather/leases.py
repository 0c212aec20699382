"""Who leads, and whether somebody else does too."""

from datetime import datetime
from typing import Final

import msgspec

from berthmaster.kube.lease import LEASES
from berthmaster.kube.requests import Request, get
from berthmaster.model.errors import ApiError
from berthmaster_cli.doctor.facts import LeaseSeen
from berthmaster_cli.doctor.gather.asking import Asker

_MAX_LEASES: Final = 2000


class _Metadata(msgspec.Struct, frozen=True):
    name: str
    namespace: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    holder_identity: str | None = None
    renew_time: datetime | None = None
    lease_duration_seconds: int | None = None


class _Lease(msgspec.Struct, frozen=True):
    metadata: _Metadata
    spec: _Spec = _Spec()

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
        if error.absent:
            return None
        raise


def leases_named(asker: Asker, name: str) -> list[LeaseSeen]:
    """The leases of a name in all namespaces.

    Raises:
        ApiError: they cannot be listed.
    """
    query = (("fieldSelector", f"metadata.name={name}"), ("limit", str(_MAX_LEASES)))
    return [each.seen() for each in asker.read_as(_Leases, Request(LEASES.path, query)).items]
