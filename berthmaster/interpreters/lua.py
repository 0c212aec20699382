"""What scripts of ``ResourceInterpreterCustomization`` compute: replicas, pod templates and dependencies of resources.

Karmada's functions of the module ``kube`` are there: ``accuratePodRequirements``, ``getPodDependencies``,
``resourceAdd`` and ``getResourceQuantity``.
"""

from collections.abc import Callable, Mapping
from functools import reduce
from operator import add
from typing import Any, Final

from berthmaster.model.binding import Component
from berthmaster.model.decode import builtins, convert
from berthmaster.model.dependencies import Dependency, ScriptedDependencies, dependencies_of
from berthmaster.model.errors import FieldError, InputError, shown
from berthmaster.model.interpretation import Interpreter, ScriptedComponents, UnknownReplicas
from berthmaster.model.meta import INT32_MAX
from berthmaster.model.quantity import Quantity
from berthmaster.model.replicas import ReplicaRequirements, Replicas, requirements_at, type_of

_FUNCTION: Final = "GetReplicas"
_COMPONENTS: Final = "GetComponents"
_DEPENDENCIES: Final = "GetDependencies"
_NO_SCRIPTS: Final[Mapping[tuple[str, str], str]] = {}
_NANOS: Final = 1_000_000_000
_DEFAULT_NAMESPACE: Final = "default"


class ScriptError(InputError):
    """A script failed."""


class ExhaustedError(ScriptError):
    """A script exceeded a limit of time, steps or memory. It is not run again."""


RunScript = Callable[[str, str, Mapping[str, Any]], tuple[Any, Any]]
"""Runs a script in a sandbox, and returns the first two results of a function of it, which gets one argument."""
Scripts = Mapping[tuple[str, str], str]
"""Scripts by the API version and the kind of the resources that they are about."""


def lua_interpreter(
    scripts: Scripts, run: RunScript, needs: Scripts = _NO_SCRIPTS, parts: Scripts = _NO_SCRIPTS
) -> Interpreter:
    """Return what interprets kinds with their scripts.

    Args:
        scripts: those for replicas.
        needs: those for the dependencies of a resource.
        parts: those for the pod templates of a resource.
    """

    def dependencies(raw: Mapping[str, Any]) -> ScriptedDependencies | None:
        script = needs.get(type_of(raw))
        if script is None:
            return None
        try:
            found, _ = run(script, _DEPENDENCIES, raw)
            needed = convert(tuple[Dependency, ...], found or ())
            return ScriptedDependencies(tuple(sorted(needed, key=str)))
        except (ScriptError, FieldError):
            return ScriptedDependencies(None)

    def components(raw: Mapping[str, Any]) -> ScriptedComponents | None:
        script = parts.get(type_of(raw))
        if script is None:
            return None
        try:
            found, _ = run(script, _COMPONENTS, raw)
            return ScriptedComponents(convert(tuple[Component, ...], found or ()))
        except (ScriptError, FieldError):
            return ScriptedComponents(None)

    def replicas(raw: Mapping[str, Any]) -> Replicas | UnknownReplicas | None:
        kind = type_of(raw)
        script = scripts.get(kind)
        if script is None:
            return None
        try:
            return _replicas(*run(script, _FUNCTION, raw))
        except (ScriptError, FieldError) as error:
            return UnknownReplicas(f"the interpreter script of {kind[1]} of {kind[0]} failed: {error}")

    return Interpreter(replicas, dependencies, components)


def _replicas(number: object, requirements: object) -> Replicas:
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= INT32_MAX:
        raise ScriptError(f"{_FUNCTION} returns {shown(number)}; accepted is a number of replicas")
    if requirements is None:
        return Replicas(number)
    try:
        return Replicas(number, convert(ReplicaRequirements, requirements))
    except FieldError as error:
        raise error.below(f"{_FUNCTION}[2]") from None


def _accurate_pod_requirements(template: object) -> Any:  # noqa: ANN401 - a plain value
    """``kube.accuratePodRequirements(podTemplate)``: the requirements of a pod template."""
    return builtins(requirements_at({"template": template}, "template"))


def _pod_dependencies(template: object, namespace: object = None) -> Any:  # noqa: ANN401 - a plain value
    """``kube.getPodDependencies(podTemplate, namespace)``: the resources that a pod template needs."""
    spec = template.get("spec") if isinstance(template, Mapping) else None
    metadata = {"namespace": str(namespace or _DEFAULT_NAMESPACE)}
    return builtins(
        dependencies_of({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec or {}}) or ()
    )


def _quantity(amount: object) -> Quantity:
    if amount is None:
        return Quantity.parse(0)
    if not isinstance(amount, str | int | float):
        raise InputError(f"{shown(amount)} is not a quantity")
    return Quantity.parse(amount)


def _resource_add(*amounts: object) -> str:
    """``kube.resourceAdd(r1, r2, ...)``: the sum of quantities; nil counts as 0."""
    return reduce(add, map(_quantity, amounts), Quantity.parse(0)).text


def _resource_quantity(amount: object) -> float:
    """``kube.getResourceQuantity(r)``: a quantity as a number."""
    quantity = _quantity(amount)
    if quantity.nanos < 0:
        raise InputError(f"{shown(amount)} is negative")
    return quantity.nanos / _NANOS


KUBE: Final[Mapping[str, Callable[..., Any]]] = {
    "accuratePodRequirements": _accurate_pod_requirements,
    "getPodDependencies": _pod_dependencies,
    "resourceAdd": _resource_add,
    "getResourceQuantity": _resource_quantity,
}
