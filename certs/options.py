"""The settings of this package: names of Secrets and configurations, and lifetimes."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final, NamedTuple

from berthmaster.model.errors import InputError
from certs.bundle_fields import ConfigurationKind
from certs.ownership import DEFAULT_OWNER

MANAGER: Final = "berthmaster-certs"
_MIN_OVERLAPS_IN_LEAF_LIFETIME: Final = 3


class Origin(StrEnum):
    """Where certificates come from: an own authority, or another system, of which only bundles are copied."""

    OWN = "own"
    PROVIDED = "provided"


class ServingCertificate(NamedTuple):
    secret: str
    names: tuple[str, ...]


class TargetConfiguration(NamedTuple):
    kind: ConfigurationKind
    name: str


@dataclass(frozen=True, slots=True)
class CertificateOptions:
    """The objects to maintain, and the lifetimes of certificates.

    Attributes:
        authority_secret: the Secret of the authority. No server mounts it.
        overlap: how long a stored object may take to reach every client and server. It covers the kubelet's sync of
            mounted Secrets, caches and clock differences.
        registered_by: this installation, as a label value. A configuration that another one registered is not written.
    """

    namespace: str
    authority_secret: str
    serving: tuple[ServingCertificate, ...]
    targets: tuple[TargetConfiguration, ...] = ()
    origin: Origin = Origin.OWN
    leaf_lifetime: timedelta = timedelta(days=90)
    authority_lifetime: timedelta = timedelta(days=1095)
    overlap: timedelta = timedelta(minutes=10)
    registered_by: str = DEFAULT_OWNER

    def __post_init__(self) -> None:
        if self.leaf_lifetime < _MIN_OVERLAPS_IN_LEAF_LIFETIME * self.overlap:
            # A renewed leaf must reach every server within the last third of the old leaf's life.
            found = f"the lifetime of a leaf ({self.leaf_lifetime}) must be at least"
            raise InputError(f"{found} {_MIN_OVERLAPS_IN_LEAF_LIFETIME} times the overlap ({self.overlap})")
        if self.authority_lifetime < 2 * self.leaf_lifetime:
            found = f"the lifetime of an authority ({self.authority_lifetime}) must be at least"
            raise InputError(f"{found} twice the lifetime of a leaf ({self.leaf_lifetime})")
