"""What is known about the replicas of a resource, in Karmada's order of interpreters.

A script of a control plane comes first, then the third-party kinds that Karmada knows, then the native ones. Karmada
places a kind without an interpreter as a whole. A file does not show which interpreters a control plane has, so such
a kind counts as unknown unless all of them were read.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from berthmaster.model.errors import InputError
from berthmaster.model.kinds import scope_of
from berthmaster.model.meta import ObjectMeta, Value
from berthmaster.model.replicas import BUILT_IN_REPLICA_PATHS, ReplicaPath, Replicas, replicas_of, value_at
from berthmaster.model.third_party import third_party_replicas

_NATIVE: Final = frozenset((each.api_version, each.kind) for each in BUILT_IN_REPLICA_PATHS) | {("v1", "Pod")}


class UnknownReplicas(NamedTuple):
    """The replicas of a resource are not known, and why."""

    reason: str


class Interpreter(Protocol):
    """Interprets kinds with the scripts of a control plane."""

    def replicas(self, raw: Mapping[str, Any]) -> Replicas | UnknownReplicas | None:
        """Return the replicas of a resource, or why its script failed; None for a kind without a script."""


class InterpreterScript(Value, frozen=True):
    """A script in Lua."""

    lua_script: str = ""


class InterpreterTarget(Value, frozen=True):
    """The kind that a customization interprets."""

    api_version: str
    kind: str


class CustomizationRules(Value, frozen=True):
    """The scripts of a customization. Only those that decisions need are read."""

    replica_resource: InterpreterScript | None = None


class CustomizationSpec(Value, frozen=True):
    """The kind, and its scripts."""

    target: InterpreterTarget
    customizations: CustomizationRules = CustomizationRules()


class ResourceInterpreterCustomization(Value, frozen=True):
    """Karmada's ``ResourceInterpreterCustomization`` (``config.karmada.io/v1alpha1``)."""

    metadata: ObjectMeta
    spec: CustomizationSpec
    api_version: str = "config.karmada.io/v1alpha1"
    kind: str = "ResourceInterpreterCustomization"


def replica_scripts(customizations: Iterable[ResourceInterpreterCustomization]) -> dict[tuple[str, str], str]:
    """Return the script for the replicas of each kind. Of several customizations the first by name counts."""
    scripts: dict[tuple[str, str], str] = {}
    for each in sorted(customizations, key=lambda customization: customization.metadata.name):
        rule, target = each.spec.customizations.replica_resource, each.spec.target
        if rule is not None and rule.lua_script:
            scripts.setdefault((target.api_version, target.kind), rule.lua_script)
    return scripts


def interpreted(
    raw: Mapping[str, Any],
    paths: Sequence[ReplicaPath] = (),
    interpreter: Interpreter | None = None,
    *,
    complete: bool = False,
) -> Replicas | UnknownReplicas:
    """Return the replicas of a resource, or why they are not known.

    Args:
        raw: the resource.
        paths: the paths that the user gave; they come first.
        interpreter: the scripts of the control plane.
        complete: whether these are all interpreters of the control plane. A kind without one then has no replicas.

    Raises:
        FieldError: a field has the wrong type or is negative.
    """
    kind = str(raw.get("apiVersion")), str(raw.get("kind"))
    if any((each.api_version, each.kind) == kind for each in paths):
        return replicas_of(raw, paths)
    if interpreter is not None and (found := interpreter.replicas(raw)) is not None:
        return found
    known = third_party_replicas(raw)
    if known is not None:
        return known
    if kind in _NATIVE or complete or scope_of(*kind) is not None:
        return replicas_of(raw)
    return UnknownReplicas(
        f"the replicas of {kind[1]} of {kind[0]} are not known: pass --replica-path {kind[0]}/{kind[1]}=PATH[,PATH], "
        f"{kind[0]}/{kind[1]}=- if it has none, or its ResourceInterpreterCustomization"
    )


def check_replica_paths(paths: Iterable[ReplicaPath], resources: Iterable[Mapping[str, Any]]) -> None:
    """Check that each path of a user exists in a resource.

    Raises:
        InputError: no resource has the kind of a path, or none of them has its field.
    """
    by_kind: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for raw in resources:
        by_kind.setdefault((str(raw.get("apiVersion")), str(raw.get("kind"))), []).append(raw)
    for path in paths:
        found = by_kind.get((path.api_version, path.kind), [])
        option = f"--replica-path {path.api_version}/{path.kind}"
        if not found:
            similar = sorted(f"{version}/{kind}" for version, kind in by_kind if kind.lower() == path.kind.lower())
            hint = f"; the input has {', '.join(similar)}" if similar else ""
            raise InputError(f"{option}: there is no {path.kind} of {path.api_version} in the input{hint}")
        for field in filter(None, (path.replicas, path.pod_template)):
            if all(value_at(raw, field) is None for raw in found):
                raise InputError(f"{option}: no {path.kind} in the input has the field {field}; correct the path")
