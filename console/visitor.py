"""Who sent a request: the name, the groups, and the namespaces that this visitor may see."""

from dataclasses import dataclass
from typing import Final, Literal

from berthmaster.model.readers import Reader

MAX_GROUPS: Final = 256
"""The most groups of a visitor."""
SignedInBy = Literal["loopback", "token", "session", "OpenID Connect", "certificate", "proxy"]


@dataclass(frozen=True, slots=True)
class Visitor:
    """The client of a request.

    Attributes:
        name: the name of the user; empty if the console requires no sign-in.
        signed_in_by: what proved the name. ``loopback``: nothing, because the console serves this machine only.
        namespaces: the namespaces that the user may see, with ``-`` for cluster-scoped workloads; None for all.
    """

    name: str = ""
    signed_in_by: SignedInBy = "loopback"
    groups: tuple[str, ...] = ()
    namespaces: frozenset[str] | None = None

    @property
    def has_session(self) -> bool:
        """Whether the visitor can sign out."""
        return self.signed_in_by in {"session", "OpenID Connect"}

    def may_see(self, namespace: str) -> bool:
        """Return whether the visitor may see what is in a namespace; an empty one is cluster-scoped."""
        return Reader(self.namespaces).sees(namespace)
