"""The reader of an answer: which namespaces they may see, and sentences that name nothing else."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from berthmaster.model.errors import name_list
from berthmaster.model.meta import CLUSTER_SCOPED

_NAMED: Final = 5
_ELSEWHERE: Final = "workloads in other namespaces"
_UNSAID: Final = "something is not known about objects that this answer does not name"
NAMES: Final = "\0"
"""Stands for the names of the resources in the message of a ``Gap``. Error messages show it as an escape."""


@dataclass(frozen=True, slots=True)
class Reader:
    """The reader of an answer.

    Attributes:
        namespaces: the namespaces that they may see, ``CLUSTER_SCOPED`` for cluster-scoped objects; None for all.
    """

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
        """Return the resources that the reader may see, in their order."""
        return [each for each in resources if self.sees_resource(each)]

    def named(self, resources: Sequence[str]) -> list[str]:
        """Return the resources that the reader may see, and one phrase for all others."""
        seen = self.seen(resources)
        return seen if len(seen) == len(resources) else [*seen, _ELSEWHERE]


ANY_READER: Final = Reader()
"""A reader who may see everything."""
NO_NAMES: Final = Reader(frozenset())
"""The reader of answers that name no objects, because they are the same for all readers."""


def about(namespace: str) -> Reader:
    """Return the reader of an answer about one object; its namespace is empty for a cluster-scoped one."""
    return Reader(frozenset({namespace or CLUSTER_SCOPED}))


@dataclass(frozen=True, slots=True)
class Gap:
    """What is not known and what follows.

    A message reaches a reader of few namespaces only if ``about`` says whom it names. A gap that says nothing about
    that is replaced by a sentence without names.

    Attributes:
        message: the sentence. ``NAMES`` stands for the names of ``about``.
        about: the resources that the message names, each as ``NAMESPACE/KIND/NAME``; empty if it names none, None if
            that is not known.
        elsewhere: what replaces a message without ``NAMES`` if it names something that the reader may not see.
    """

    message: str
    about: tuple[str, ...] | None = None
    elsewhere: str = _UNSAID

    def text(self, reader: Reader) -> str:
        """Return the sentence for a reader."""
        if self.about is None:
            return self.message if reader.namespaces is None else self.elsewhere
        seen = reader.seen(self.about)
        hides = len(seen) < len(self.about)
        if hides and NAMES not in self.message:
            return self.elsewhere
        names = [name_list(seen, _NAMED)] if seen else []
        return self.message.replace(NAMES, " and ".join([*names, _ELSEWHERE] if hides else names))


def known_gap(message: str) -> Gap:
    """Return a gap whose message names no workload and no policy, so that every reader may see it."""
    return Gap(message, ())


def texts(gaps: Iterable[Gap], reader: Reader) -> list[str]:
    """Return the sentences for a reader, each one once."""
    return list(dict.fromkeys(each.text(reader) for each in gaps))


def namespace_of(resource: str) -> str:
    """Return the namespace of ``NAMESPACE/KIND/NAME``; empty for ``KIND/NAME``."""
    parts = resource.split("/")
    return parts[0] if len(parts) > 2 else ""
