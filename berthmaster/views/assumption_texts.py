"""The first lines of an answer: the switches of the control plane that it assumes, and what stops running."""

from collections.abc import Callable, Iterator
from typing import Final

from berthmaster.model.errors import name_list
from berthmaster.simulation.plan_answer import Assumptions, Basis, Loss, Switch
from berthmaster.views.texts import count_text

_NAMED: Final = 5
SwitchName = Callable[[str, str], str]
"""Returns how a reader sets a switch, such as ``failover``, to ``on`` or ``off``."""


def as_option(switch: str, value: str) -> str:
    """Return how a command sets a switch."""
    return f"--{switch}={value}"


def loss_lines(assumptions: Assumptions, loss: Loss, moved: int, named: SwitchName = as_option) -> Iterator[str]:
    """Yield what an answer about lost or deleted clusters says first, one line each."""
    stops = stopping_text(loss)
    if loss.lost:
        yield f"{failover_text(assumptions, moved, named)}{stops}. {_other(assumptions, named)}"
        yield from _policy_lines(assumptions)
    if loss.removed:
        which = name_list(loss.removed, _NAMED)
        first = f"Karmada deletes the copies on {which} first{'' if loss.lost else f': {stops}'}."
        yield f"{first} Then it schedules only workloads again whose affinity matches the cluster now."
    if loss.only_copy:
        yield f"No other copy: {_some(loss.only_copy)}."
    if loss.not_simulated:
        yield f"Their scheduler is not simulated, and they are not checked: {_some(loss.not_simulated)}."
    if loss.preserved:
        yield f"The member keeps running them, and Karmada manages them no more: {_some(loss.preserved)}."
    for cluster, workloads in loss.hanging.items():
        yield (
            f"{cluster} stays in deletion: the bindings of {_some(workloads)} still name it. Move them first: with "
            f"`berthmaster drain {cluster}` if Berthmaster schedules them, or by a WorkloadRebalancer after the policy "
            "or the labels of the cluster exclude it."
        )


def stopping_text(loss: Loss) -> str:
    """Return how much stops, such as ``9 replicas of 3 workloads stop``."""
    if not loss.workloads:
        return "nothing stops"
    workloads = count_text(loss.workloads, "workload")
    if not loss.replicas:
        return f"the copies of {workloads} are gone"
    return f"{count_text(loss.replicas, 'replica')} of {workloads} {'stops' if loss.replicas == 1 else 'stop'}"


def failover_text(assumptions: Assumptions, moved: int, named: SwitchName = as_option) -> str:
    """Return what an answer assumes about failover, and that nothing moves if so, up to what stops."""
    nothing = "nothing moves, " if not moved else "no copy leaves a lost cluster, "
    if assumptions.taints_lost:
        return f"Eviction is assumed ({named('failover', 'on')}): "
    if assumptions.replaces:
        after = f"{assumptions.replaced_after_s:g} s"
        return (
            f"Berthmaster replaces lost clusters after {after} for scheduler {assumptions.replaces}; eviction is off "
            "for others: "
        )
    if assumptions.failover_basis is Basis.BRAKED:
        return f"The storm brake holds failover: {nothing}"
    if assumptions.failover_basis is Basis.BRAKES:
        return f"The loss of so many clusters at once engages the storm brake, which holds failover: {nothing}"
    if assumptions.evicts_by_policy:
        how = "give" if len(assumptions.tainted_by) > 1 else "gives"
        return f"Eviction is on, and {_taint_policies(assumptions)} {how} lost clusters a NoExecute taint: "
    if assumptions.evicts:
        return f"Eviction is on, but a lost cluster gets no NoExecute taint: {'' if moved else nothing}"
    return f"Eviction is {_off(assumptions, named)}: {nothing}"


def failover_lines(assumptions: Assumptions, largest: int, named: SwitchName = as_option) -> Iterator[str]:
    """Yield what an answer about possible failures says first about failover.

    Args:
        largest: the most clusters that one of the failures takes.
    """
    text = failover_text(assumptions, 0, named).rstrip(", ").removesuffix(": nothing moves").removesuffix(":")
    if assumptions.moves_off_lost:
        yield f"{text}. The second group of columns says what failover could not place."
    else:
        other = named("failover", "on")
        yield f"{text}: nothing moves. {other} shows where workloads would go, and what would find no place."
    brake = assumptions.brake
    if assumptions.replaces and brake.enabled and largest >= brake.min_clusters:
        yield (
            f"The storm brake holds failover if at least {brake.min_clusters} clusters, and more than "
            f"{brake.unhealthy_percent}% of those that are ready, are lost at once. Nothing moves after such a loss."
        )
    yield from _policy_lines(assumptions)


def _policy_lines(assumptions: Assumptions) -> Iterator[str]:
    """Yield what ClusterTaintPolicies would do if Karmada evicted, which is not known."""
    if assumptions.failover is not Switch.AUTO or assumptions.evicts or not assumptions.tainted_by:
        return
    how = "give" if len(assumptions.tainted_by) > 1 else "gives"
    yield (
        f"{_taint_policies(assumptions)} {how} lost clusters a NoExecute taint. No eviction task shows that Karmada "
        "evicts because of it: with its gate Failover and --enable-no-execute-taint-eviction, it does."
    )


def _taint_policies(assumptions: Assumptions) -> str:
    return f"ClusterTaintPolicy {name_list(assumptions.tainted_by, _NAMED)}"


def _other(assumptions: Assumptions, named: SwitchName) -> str:
    if assumptions.taints_lost or assumptions.evicts_by_policy:
        return f"{named('failover', 'off')} shows what happens without it."
    return f"{named('failover', 'on')} shows where they would go."


def _off(assumptions: Assumptions, named: SwitchName) -> str:
    return f"assumed off ({named('failover', 'off')})" if assumptions.failover is Switch.OFF else "off here"


def eviction_line(assumptions: Assumptions, *, evicts: bool, named: SwitchName = as_option) -> str:
    """Return what an answer about a new NoExecute taint says first."""
    on, off = named("failover", "on"), named("failover", "off")
    if assumptions.failover is Switch.ON:
        return f"Eviction is assumed ({on}): NoExecute taints evict. {off} shows the answer without."
    if assumptions.evicts and evicts:
        return "Eviction is on here, by the eviction tasks of its taint manager: NoExecute taints evict."
    return f"Eviction is {_off(assumptions, named)}: NoExecute taints move nothing. {on} shows what they would evict."


def preemption_line(assumptions: Assumptions, named: SwitchName = as_option) -> str:
    """Return what an answer assumes about preemption."""
    state, other = ("on", "off") if assumptions.preempts else ("off", "on")
    match assumptions.preemption_basis:
        case Basis.RECORDED:
            how = f"{state} here, by the record of the controllers"
        case Basis.ASKED:
            how = f"assumed {state} ({named('preemption', state)})"
        case _:
            how = f"{state} here"
    effect = "policies take workloads over" if assumptions.preempts else "no policy takes a workload over"
    return f"Preemption is {how}: {effect}. {named('preemption', other)} shows the answer otherwise."


def _some(names: list[str]) -> str:
    return name_list(names, _NAMED)
