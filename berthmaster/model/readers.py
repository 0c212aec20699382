"""Who reads an answer, and what they may see."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from berthmaster.model.meta import CLUSTER_SCOPED

ELSEWHERE: Final = "workloads in other namespaces"
"""Stands for the names of workloads that a reader may not see."""


@dataclass(frozen=True, slots=True)
class Reader:
    """The reader of an answer, and the namespaces that they may see (``CLUSTER_SCOPED`` is one); None for all."""

    namespaces: frozenset[str] | None = None

    def sees(self, namespace: str) -> bool:
        """Return whether the reader may see what is in a namespace; an empty one is cluster-scoped."""
        return self.namespaces is None or (namespace or CLUSTER_SCOPED) in self.namespaces

    def sees_resource(self, resource: str) -> bool:
        """Return whether the reader may see ``NAMESPACE/KIND/NAME``; ``KIND/NAME`` is cluster-scoped."""
        return self.sees(namespace_of(resource))

    def sees_policy(self, policy: str) -> bool:
        """Return whether the reader may see ``KIND NAMESPACE/NAME``; ``KIND NAME`` is cluster-scoped."""
        namespace, slash, _ = policy.rpartition(" ")[2].partition("/")
        return self.sees(namespace if slash else "")

    def seen(self, resources: Iterable[str]) -> list[str]:
        return [each for each in resources if self.sees_resource(each)]

    def named(self, resources: Sequence[str]) -> list[str]:
        """Return the resources that the reader may see, and one phrase for all others."""
        seen = self.seen(resources)
        return seen if len(seen) == len(resources) else [*seen, ELSEWHERE]


ANY_READER: Final = Reader()
NO_NAMES: Final = Reader(frozenset())
"""The reader of answers that name no objects, because they are the same for all readers."""


def reader_about(namespace: str) -> Reader:
    """Return the reader of an answer about one object; its namespace is empty for a cluster-scoped one."""
    return Reader(frozenset({namespace or CLUSTER_SCOPED}))


def namespace_of(resource: str) -> str:
    """Return the namespace of ``NAMESPACE/KIND/NAME``; empty for ``KIND/NAME``."""
    parts = resource.split("/")
    return parts[0] if len(parts) > 2 else ""
