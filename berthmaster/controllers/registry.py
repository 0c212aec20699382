"""Which controllers there are, and which of them run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from berthmaster.controllers.controller import Controller
from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.controllers.settings import Settings
from berthmaster.model.errors import InputError, shown
from berthmaster.runtime.feature_gates import POLICY_PREEMPTION, PRIORITY_BASED_SCHEDULING, FeatureGates, Gate

ALL: Final = "*"


@dataclass(frozen=True, slots=True)
class Registration:
    """A controller that can be run.

    Attributes:
        name: as ``--controllers`` writes it.
        build: makes it; imports it no earlier.
        by_default: whether ``*`` means it too.
        gate: without which it does not run; None for none.
    """

    name: str
    build: Callable[[ControllerContext, Settings], Controller]
    by_default: bool = True
    gate: Gate | None = None


def _binding_scheduler(context: ControllerContext, settings: Settings) -> Controller:
    from berthmaster.controllers.binding_scheduler.controller import BindingScheduler, Options  # noqa: PLC0415 - see Registration
    from berthmaster.controllers.binding_scheduler.estimating import estimating  # noqa: PLC0415 - the same
    from berthmaster.controllers.binding_scheduler.failover import FailoverOptions  # noqa: PLC0415 - the same
    from berthmaster.controllers.binding_scheduler.metrics import (  # noqa: PLC0415 - the same
        PrometheusEstimatorMeter,
        PrometheusMeter,
    )

    asked = settings.estimators
    estimators = None if asked is None else estimating(asked, context, PrometheusEstimatorMeter())
    after_s = settings.failover_toleration_s if settings.failover == "not-ready" else None
    options = Options(
        scheduler_name=settings.scheduler_name,
        workers=settings.concurrent_bindings,
        profile=settings.profile,
        priorities=settings.gates.on(PRIORITY_BASED_SCHEDULING),
        failover=FailoverOptions(after_s, settings.scheduler_name),
    )
    return BindingScheduler(context, options, PrometheusMeter(), estimators)


def _workload_rebalancer(context: ControllerContext, settings: Settings) -> Controller:
    from berthmaster.controllers.rebalancer import controller  # noqa: PLC0415 - see Registration

    return controller(context, settings.concurrent_rebalancers)


def _preemption(context: ControllerContext, _settings: Settings) -> Controller:
    from berthmaster.controllers.preemption import controller  # noqa: PLC0415 - see Registration

    return controller(context)


REGISTRY: Final[tuple[Registration, ...]] = (
    Registration("binding-scheduler", _binding_scheduler),
    Registration("preemption", _preemption, gate=POLICY_PREEMPTION),
    Registration("workload-rebalancer", _workload_rebalancer, by_default=False),  # Karmada runs its own
)


def selected(switches: Sequence[str], known: Sequence[Registration]) -> list[Registration]:
    """The controllers that switches leave on, as kube-controller-manager's ``--controllers``.

    Args:
        switches: ``*`` means all that are on by default; a name turns one on, ``-name`` turns one off, wherever they
            stand.
        known: all there are.

    Raises:
        InputError: a name is unknown, or nothing is left.
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
            f"--controllers: {shown(','.join(switches))} leaves none; known are {', '.join(names) or 'none'}"
        )
    return found


def gated(chosen: Sequence[Registration], gates: FeatureGates) -> list[Registration]:
    """Those of the chosen controllers that no gate keeps from running.

    Raises:
        InputError: all are kept from it.
    """
    found = [each for each in chosen if each.gate is None or gates.on(each.gate)]
    if not found:
        needed = ", ".join(f"{each.name} needs {each.gate.name}=true" for each in chosen if each.gate is not None)
        raise InputError(f"--feature-gates: nothing is left to run: {needed}")
    return found
