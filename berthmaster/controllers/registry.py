"""The controllers, and which of them run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Final

from berthmaster.model.errors import InputError, shown
from berthmaster.runtime.feature_gates import POLICY_PREEMPTION, FeatureGates, Gate

if TYPE_CHECKING:  # the doctor reads the names of the controllers, and needs none of the libraries that run them
    from berthmaster.controllers.controller import Controller
    from berthmaster.controllers.controller_context import ControllerContext
    from berthmaster.controllers.settings import ControllerSettings

ALL: Final = "*"


@dataclass(frozen=True, slots=True)
class Registration:
    """A controller that can run.

    Attributes:
        build: creates the controller, and imports its modules only then.
        by_default: whether ``*`` includes it.
    """

    name: str
    build: "Callable[[ControllerContext, ControllerSettings], Controller]"
    by_default: bool = True
    gate: Gate | None = None


def _lazily(where: str) -> "Callable[[ControllerContext, ControllerSettings], Controller]":
    """Return what builds a controller by the function at ``MODULE:NAME``, which is imported only then."""

    def build(context: "ControllerContext", settings: "ControllerSettings") -> "Controller":
        found: Controller = resolve_name(f"berthmaster.controllers.{where}")(context, settings)
        return found

    return build


REGISTRY: Final[tuple[Registration, ...]] = (
    Registration("binding-scheduler", _lazily("binding_scheduler.controller:BindingScheduler")),
    Registration("preemption", _lazily("preemption.reconciler:controller"), gate=POLICY_PREEMPTION),
    # Karmada runs its own.
    Registration("workload-rebalancer", _lazily("rebalancer.reconciler:controller"), by_default=False),
)
SHADOW: Final = Registration(
    "shadow-scheduler", _lazily("binding_scheduler.shadow_controller:ShadowScheduler"), by_default=False
)


def selected(switches: Sequence[str], known: Sequence[Registration]) -> list[Registration]:
    """Return the enabled controllers, by the rules of kube-controller-manager's ``--controllers``.

    Args:
        switches: ``*`` enables all controllers that are on by default, ``NAME`` enables one, and ``-NAME`` disables
            one. Their order does not matter.

    Raises:
        InputError: a name is unknown, or no controller is enabled.
    """
    names = [each.name for each in known]
    for switch in switches:
        if switch != ALL and switch.removeprefix("-") not in names:
            raise InputError(
                f"--controllers: {shown(switch.removeprefix('-'))} is unknown; known are {', '.join(names) or 'none'}"
            )
    found = [
        each
        for each in known
        if f"-{each.name}" not in switches and (each.name in switches or (each.by_default and ALL in switches))
    ]
    if not found:
        raise InputError(
            f"--controllers: {shown(','.join(switches))} enables no controller; known are {', '.join(names) or 'none'}"
        )
    return found


def gated(chosen: Sequence[Registration], gates: FeatureGates) -> list[Registration]:
    """Return those of the chosen controllers whose feature gate is on. Raises ``InputError`` if none is left."""
    found = [each for each in chosen if each.gate is None or gates.on(each.gate)]
    if not found:
        needed = ", ".join(f"{each.name} needs {each.gate.name}=true" for each in chosen if each.gate is not None)
        raise InputError(f"--feature-gates: no controller is left to run: {needed}")
    return found
