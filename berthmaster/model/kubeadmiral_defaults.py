"""The defaults of KubeAdmiral's policies (CRDs ``propagationpolicies`` and ``clusterpropagationpolicies``).

Some values are documented as defaults although the CRD leaves them open: an API server stores the policy without them,
and KubeAdmiral's scheduler reads "never" or "no" in their place. Whoever stands for the API server takes the CRD's
defaults alone; whoever completes a policy in its author's name takes the documented ones as well. Both work on the
decoded document, because the typed policy does not tell an absent field from a zero one everywhere.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

_SPEC: Final[Mapping[str, Any]] = {
    "replicasStrategy": "Spread",
    "reschedulePolicy": {
        "rescheduleWhen": {
            "policyContentChanged": True,
            "clusterJoined": False,
            "clusterLabelsChanged": False,
            "clusterAPIResourcesChanged": False,
        },
        "replicaRescheduling": {"avoidDisruption": True},
    },
}
_AUTO_MIGRATION: Final[Mapping[str, Any]] = {
    "when": {"podUnschedulableFor": "1m"},
    "keepUnschedulableReplicas": False,
}
_DOCUMENTED: Final[Mapping[str, Any]] = {
    **_SPEC,
    "reschedulePolicy": {"disableRescheduling": False, **_SPEC["reschedulePolicy"]},
}


class Default(NamedTuple):
    """A value that a policy's spec lacks.

    Attributes:
        path: the field, as its names below ``spec``.
        value: what it is; for an absent object all of it.
    """

    path: tuple[str, ...]
    value: Any


def missing_defaults(spec: Mapping[str, Any], *, documented: bool = False) -> Iterator[Default]:
    """What a policy's spec lacks. A null counts as absent; auto-migration is off unless it is given.

    Args:
        spec: as decoded from JSON or YAML.
        documented: also what the CRD leaves open: ``disableRescheduling``, and the ``rescheduleWhen`` of a
            ``reschedulePolicy`` that comes without one.
    """
    for default in _lacking(_DOCUMENTED if documented else _SPEC, spec, ()):
        if documented or default.path != ("reschedulePolicy", "rescheduleWhen"):
            yield default
    if isinstance(migration := spec.get("autoMigration"), Mapping):
        yield from _lacking(_AUTO_MIGRATION, migration, ("autoMigration",))


def defaulted_spec(spec: Mapping[str, Any], *, documented: bool = False) -> dict[str, Any]:
    """A copy of a policy's spec with what it lacks; see ``missing_defaults``."""
    completed = _copied(spec)
    for path, value in missing_defaults(spec, documented=documented):
        holder = completed
        for name in path[:-1]:
            holder = holder[name]
        holder[path[-1]] = value
    return completed


def _lacking(defaults: Mapping[str, Any], given: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[Default]:
    for name, value in defaults.items():
        present = given.get(name)
        # An empty text is what a client writes that knows the field but not its default.
        if present is None or (present == "" and isinstance(value, str)):
            yield Default((*path, name), _copied(value) if isinstance(value, Mapping) else value)
        elif isinstance(value, Mapping) and isinstance(present, Mapping):
            yield from _lacking(value, present, (*path, name))


def _copied(given: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of an object and of the objects in it; other values are shared."""
    return {key: _copied(value) if isinstance(value, Mapping) else value for key, value in given.items()}
