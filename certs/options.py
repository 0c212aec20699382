"""What is kept, where, and how: the names of Secrets and configurations, and how long things live."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final, NamedTuple

from berthmaster.model.errors import InputError
from certs.injection import ConfigurationKind

MANAGER: Final = "berthmaster-certs"
"""Whose fields the bundles are, to an API server."""
_SHORTEST_OVERLAP_TIMES: Final = 3


class Origin(StrEnum):
    """Where certificates come from.

    Attributes:
        OWN: from an authority that is kept here.
        PROVIDED: from somebody else, who also stores them: only bundles are taken from them.
    """

    OWN = "own"
    PROVIDED = "provided"


class Serving(NamedTuple):
    """A Secret that a server mounts.

    Attributes:
        secret: its name.
        names: the DNS names and IP addresses that clients know the server by.
    """

    secret: str
    names: tuple[str, ...]


class Target(NamedTuple):
    """A configuration that has a bundle.

    Attributes:
        kind: which kind.
        name: its name; these kinds are cluster-scoped.
    """

    kind: ConfigurationKind
    name: str


@dataclass(frozen=True, slots=True)
class Options:
    """What is kept.

    Attributes:
        namespace: of all Secrets.
        authority_secret: the name of the Secret that no server mounts.
        serving: the Secrets that servers mount.
        targets: the configurations whose bundles are kept right.
        origin: where certificates come from.
        leaf_lifetime, authority_lifetime: how long new ones live.
        overlap: how long what is stored may take to reach every client and server: the kubelet's sync of mounted
            Secrets, caches, and how far clocks are apart.

    Raises:
        InputError: these times leave no room for each other.
    """

    namespace: str
    authority_secret: str
    serving: tuple[Serving, ...]
    targets: tuple[Target, ...] = ()
    origin: Origin = Origin.OWN
    leaf_lifetime: timedelta = timedelta(days=90)
    authority_lifetime: timedelta = timedelta(days=1095)
    overlap: timedelta = timedelta(minutes=10)

    def __post_init__(self) -> None:
        if self.leaf_lifetime < _SHORTEST_OVERLAP_TIMES * self.overlap:
            # Renewal leaves a third of a life, in which the new leaf has to reach every server.
            raise InputError(f"a leaf has to live for at least {_SHORTEST_OVERLAP_TIMES} times the overlap")
        if self.authority_lifetime < 2 * self.leaf_lifetime:
            raise InputError("an authority has to live at least twice as long as its leaves")
