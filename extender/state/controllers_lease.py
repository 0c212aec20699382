"""The lease of the controllers, as far as it says something about moves: the storm brake and the configuration.

It is a single object that changes every few seconds by its renewals, so it is read now and then instead of watched.
Reading it needs the right to get one Lease. Without that right the answer about moves names a gap.
"""

import logging
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, NamedTuple

from berthmaster.deciding.lease_record import LeaseRecord, lease_record
from berthmaster.kube.client import APIClient, ask_if_found
from berthmaster.kube.lease import LEASES
from berthmaster.kube.requests import get
from berthmaster.kube.responses import decode_response
from berthmaster.manifests import Document
from berthmaster.model.errors import ApiError
from berthmaster.model.meta import Key
from berthmaster.runtime.stopping import RepeatingThread
from extender.state.fingerprint import Fingerprint

DEFAULT_LEASE: Final[Key] = ("karmada-system", "berthmaster-controllers")
_LOG: Final = logging.getLogger("berthmaster.extender")
_INTERVAL_S: Final = 5.0
_FORBIDDEN_INTERVAL_S: Final = 60.0
_UNKNOWN: Final = "the state of the storm brake, the budgets and the windows are not known"
_LEASE: Final = ("coordination.k8s.io/v1", "Lease")


class LeaseReading(NamedTuple):
    """What is known about the lease."""

    record: LeaseRecord | None
    gap: str = ""


def no_lease(key: Key) -> LeaseReading:
    """Return the reading without a Lease of this namespace and name."""
    return LeaseReading(
        None, f"there is no Lease {'/'.join(key)}: {_UNKNOWN}; name it with --lease-namespace and --lease-name"
    )


def lease_in(documents: Iterable[Document], key: Key) -> LeaseReading:
    """Return what the Lease among documents records."""
    for each in documents:
        if (each.api_version, each.kind) == _LEASE and (each.namespace, each.name) == key:
            # A file does not say whether controllers run now.
            return LeaseReading(lease_record(each.raw)._replace(renewed_at=None))
    return LeaseReading(
        None,
        f"the manifests have no Lease {'/'.join(key)}: {_UNKNOWN}; add the Lease of the controllers to the manifests, "
        "and if it has another name, name it with --lease-namespace and --lease-name",
    )


class LeasePoll:
    """Reads the lease every few seconds, in a thread. The ``fingerprint`` leaves out when it was renewed last."""

    def __init__(self, key: Key) -> None:
        self._key = key
        self._pause_s = 0.0
        self.fingerprint = Fingerprint()
        self._seen = b""
        self._thread: RepeatingThread | None = None
        self.reading = LeaseReading(None, f"the Lease {'/'.join(key)} is not read yet: {_UNKNOWN}")

    def start(self, client: APIClient) -> None:
        read, problem = partial(self.read, client), "the lease could not be read"
        self._thread = RepeatingThread("controllers-lease", read, lambda: self._pause_s, _LOG, problem)
        self._thread.start()

    def stop(self) -> None:
        if self._thread is not None:
            self._thread.stop()

    def read(self, client: APIClient) -> None:
        self._pause_s = _INTERVAL_S
        self.reading = found = self._read(client)
        # The renewals are no change, but their end is one.
        silent, lasting = False, found
        if found.record is not None:
            silent = found.record.silent(datetime.now(UTC))
            lasting = found._replace(record=found.record._replace(renewed_at=None))
        if (seen := repr((lasting, silent)).encode()) != self._seen:
            self._seen = seen
            self.fingerprint.set(seen)

    def _read(self, client: APIClient) -> LeaseReading:
        try:
            body = ask_if_found(client, get(LEASES, self._key))
        except ApiError as error:
            name = "/".join(self._key)
            if error.forbidden:
                self._pause_s = _FORBIDDEN_INTERVAL_S
                return LeaseReading(None, f"no right to get the Lease {name}: {_UNKNOWN}")
            return LeaseReading(None, f"the Lease {name} cannot be read: {_UNKNOWN}")
        if body is None:
            return no_lease(self._key)
        return LeaseReading(lease_record(decode_response(dict[str, Any], body, "the lease")))
