"""Objects without which a policy claims nothing, or its bindings cannot be built."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from berthmaster.model.meta import Key
from berthmaster.model.policy import Policy

OVERRIDES: Final = {"PropagationPolicy": "OverridePolicy", "ClusterPropagationPolicy": "ClusterOverridePolicy"}
"""The kind of the ``dependentOverrides`` of each kind of policy."""
PRIORITY_CLASS: Final = "PriorityClass"
KUBE_PRIORITY_CLASS: Final = "KubePriorityClass"
"""The only source of a priority that Karmada supports."""
_POLICY_API: Final = "policy.karmada.io/v1alpha1"
_API_VERSIONS: Final = {**dict.fromkeys(OVERRIDES.values(), _POLICY_API), PRIORITY_CLASS: "scheduling.k8s.io/v1"}
PREREQUISITE_KINDS: Final = frozenset(_API_VERSIONS)
"""The kinds of all prerequisites."""
_OF_EVERY_SERVER: Final = frozenset({"PriorityClass system-cluster-critical", "PriorityClass system-node-critical"})


class Prerequisite(NamedTuple):
    """An object that a policy needs before it has an effect."""

    api_version: str
    kind: str
    key: Key

    @classmethod
    def of(cls, name: str) -> "Prerequisite":
        """Read the name of a prerequisite: its kind, a space, and ``NAMESPACE/NAME`` or ``NAME``."""
        kind, _, path = name.partition(" ")
        namespace, _, own = path.rpartition("/")
        return cls(_API_VERSIONS[kind], kind, (namespace, own))


class Existence:
    """What is known about the existence of objects. Immutable.

    Args:
        known: whether an object exists, by its kind, a space, and ``NAMESPACE/NAME`` or ``NAME``.
        complete: whether others do not exist: the files are all that there is.
    """

    __slots__ = ("_complete", "_known")

    def __init__(self, known: Mapping[str, bool] | None = None, *, complete: bool = False) -> None:
        self._known = dict(known or {})
        self._complete = complete

    def has(self, name: str) -> bool | None:
        """Return whether an object exists; None if it is not known."""
        if name in _OF_EVERY_SERVER:
            return True
        return self._known.get(name, False if self._complete else None)

    def changed(self, known: Mapping[str, bool]) -> "Existence":
        return Existence({**self._known, **known}, complete=self._complete) if known else self

    def missing(self, names: Iterable[str]) -> list[str]:
        return [each for each in names if self.has(each) is False]

    def unknown(self, names: Iterable[str]) -> list[str]:
        return [each for each in names if self.has(each) is None]


NOTHING_KNOWN: Final = Existence()


def overrides_of(policy: Policy) -> list[str]:
    """Return the names of the overrides without which a policy claims nothing (``IsDependentOverridesPresent``)."""
    kind, namespace = OVERRIDES[policy.kind], policy.metadata.namespace
    return [
        f"{kind} {'/'.join(filter(None, (namespace, each)))}" for each in dict.fromkeys(policy.spec.dependent_overrides)
    ]


def prerequisites(policies: Iterable[Policy]) -> Iterator[str]:
    """Yield the name of each object that a policy waits for: its dependent overrides and its priority class."""
    for policy in policies:
        yield from overrides_of(policy)
        priority = policy.spec.schedule_priority
        if priority is not None and priority.priority_class_source == KUBE_PRIORITY_CLASS:
            yield f"{PRIORITY_CLASS} {priority.priority_class_name}"
