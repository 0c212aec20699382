"""What is known about the replicas of a resource, in Karmada's order of interpreters.

A script of a control plane comes first, then the third-party kinds that Karmada knows, then the native ones. Karmada
places a kind without an interpreter as a whole. A file does not show which interpreters a control plane has, so such
a kind counts as unknown unless all of them were read.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from berthmaster.model.binding import Component
from berthmaster.model.dependencies import ScriptedDependencies
from berthmaster.model.errors import InputError
from berthmaster.model.kinds import scope_of
from berthmaster.model.replicas import (
    BUILT_IN_REPLICA_PATHS,
    THIRD_PARTY_REPLICA_PATHS,
    UNKNOWN_KINDS,
    ReplicaPath,
    Replicas,
    replicas_of,
    type_of,
    value_at,
)
from berthmaster.model.third_party_replicas import COMPUTED_REPLICAS, INTERPRETED_KINDS


class UnknownReplicas(NamedTuple):
    reason: str


class ScriptedComponents(NamedTuple):
    """The pod templates of a resource, as a script returns them. ``found``: None if the script failed."""

    found: tuple[Component, ...] | None


class Interpreter(NamedTuple):
    """The scripts of a control plane.

    Attributes:
        replicas: returns the replicas of a resource, or why its script failed; None for a kind without a script.
        dependencies: returns what a resource needs; None for a kind without a script.
        components: returns the pod templates of a resource; None for a kind without a script.
    """

    replicas: Callable[[Mapping[str, Any]], Replicas | UnknownReplicas | None]
    dependencies: Callable[[Mapping[str, Any]], ScriptedDependencies | None]
    components: Callable[[Mapping[str, Any]], ScriptedComponents | None]


def interpreted(
    raw: Mapping[str, Any],
    paths: Sequence[ReplicaPath] = (),
    interpreter: Interpreter | None = None,
    *,
    complete: bool = False,
) -> Replicas | UnknownReplicas:
    """Return the replicas of a resource, or why they are not known.

    Args:
        paths: the paths that the user gave; they come first.
        complete: whether these are all interpreters of the control plane. A kind without one then has no replicas.
    """
    kind = type_of(raw)
    if any((each.api_version, each.kind) == kind for each in paths):
        return replicas_of(raw, paths)
    if interpreter is not None and (found := interpreter.replicas(raw)) is not None:
        return found
    if kind in COMPUTED_REPLICAS:
        return COMPUTED_REPLICAS[kind](raw)
    if kind in INTERPRETED_KINDS or complete or scope_of(*kind) is not None:
        return replicas_of(raw, THIRD_PARTY_REPLICA_PATHS)
    if UNKNOWN_KINDS in paths:
        return Replicas()
    return UnknownReplicas(
        f"the replicas of {kind[1]} of {kind[0]} are not known: pass --replica-path {kind[0]}/{kind[1]}=PATH[,PATH], "
        f"{kind[0]}/{kind[1]}=- if it has none, '*=-' for all such kinds, or its ResourceInterpreterCustomization"
    )


def has_replica_count(api_version: str, kind: str) -> bool:
    """Return whether resources of a kind that is known without a control plane say how many replicas they want."""
    known = (api_version, kind)
    return known in COMPUTED_REPLICAS or any(
        (each.api_version, each.kind) == known for each in (*BUILT_IN_REPLICA_PATHS, *THIRD_PARTY_REPLICA_PATHS)
    )


def check_replica_paths(paths: Iterable[ReplicaPath], resources: Iterable[Mapping[str, Any]]) -> None:
    """Check that each path of a user exists in a resource. Raises ``InputError`` if one does not."""
    by_kind: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for raw in resources:
        by_kind.setdefault(type_of(raw), []).append(raw)
    for path in (each for each in paths if each != UNKNOWN_KINDS):
        found = by_kind.get((path.api_version, path.kind), [])
        option = f"--replica-path {path.api_version}/{path.kind}"
        if not found:
            similar = sorted(f"{version}/{kind}" for version, kind in by_kind if kind.lower() == path.kind.lower())
            hint = f"; the input has {', '.join(similar)}" if similar else ""
            raise InputError(f"{option}: there is no {path.kind} of {path.api_version} in the input{hint}")
        for field in filter(None, (path.replicas, path.pod_template)):
            if all(value_at(raw, field) is None for raw in found):
                raise InputError(f"{option}: no {path.kind} in the input has the field {field}; correct the path")
