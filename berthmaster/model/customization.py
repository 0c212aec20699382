"""Karmada's ResourceInterpreterCustomization (``config.karmada.io/v1alpha1``): scripts of a control plane, by kind."""

from collections.abc import Callable, Iterable

from berthmaster.model.meta import ObjectMeta, Value


class InterpreterScript(Value, frozen=True):
    lua_script: str = ""


class InterpreterTarget(Value, frozen=True):
    api_version: str
    kind: str


class CustomizationRules(Value, frozen=True):
    """The scripts of a customization. Only those that decisions need are read."""

    replica_resource: InterpreterScript | None = None
    component_resource: InterpreterScript | None = None
    dependency_interpretation: InterpreterScript | None = None


class CustomizationSpec(Value, frozen=True):
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
    return _scripts(customizations, lambda rules: rules.replica_resource)


def component_scripts(customizations: Iterable[ResourceInterpreterCustomization]) -> dict[tuple[str, str], str]:
    """Return the script for the pod templates of each kind, as ``replica_scripts``."""
    return _scripts(customizations, lambda rules: rules.component_resource)


def dependency_scripts(customizations: Iterable[ResourceInterpreterCustomization]) -> dict[tuple[str, str], str]:
    """Return the script for the dependencies of each kind, as ``replica_scripts``."""
    return _scripts(customizations, lambda rules: rules.dependency_interpretation)


def _scripts(
    customizations: Iterable[ResourceInterpreterCustomization],
    rule_of: Callable[[CustomizationRules], InterpreterScript | None],
) -> dict[tuple[str, str], str]:
    scripts: dict[tuple[str, str], str] = {}
    for each in sorted(customizations, key=lambda customization: customization.metadata.name):
        rule, target = rule_of(each.spec.customizations), each.spec.target
        if rule is not None and rule.lua_script:
            scripts.setdefault((target.api_version, target.kind), rule.lua_script)
    return scripts
