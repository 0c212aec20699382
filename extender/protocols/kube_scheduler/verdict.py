"""Filter: which nodes remain, and why not the others."""

from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from extender.protocols.kube_scheduler.nodes import FOREIGN, UNKNOWN, WHY_FOREIGN, WHY_UNKNOWN, Stand
from extender.protocols.kube_scheduler.steps import NEVER

LATER: Final = "GroupOrder"
_MAX_REASON: Final = 256

Why = Callable[[Stand, int], tuple[str, str]]


class Verdict(NamedTuple):
    """What becomes of the nodes of a request.

    Attributes:
        kept: the positions of those that remain: all that stand on the first step any of them stands on.
        failed: reasons of those whose turn may still come: of a later group, or not known yet.
        unresolvable: reasons of those that neither room nor the eviction of pods helps.
        rejected: how many nodes each filter ruled out.
    """

    kept: list[int]
    failed: dict[str, str]
    unresolvable: dict[str, str]
    rejected: Counter[str]


def judge(stand: Stand, why: Why, source: str) -> Verdict:
    """The verdict on nodes that stand somewhere; ``source`` is where the placement comes from, for reasons."""
    names, steps, best = stand.names, stand.steps, stand.best
    kept = [position for position, step in enumerate(steps) if step == best] if best < NEVER else []
    later = {step: _later(stand, step, source) for step in set(steps) if best < step < NEVER}
    failed = {name: later[step] for name, step in zip(names, steps, strict=True) if step in later}
    rejected = Counter({LATER: len(failed)} if failed else {})
    unresolvable: dict[str, str] = {}
    for position in [position for position, step in enumerate(steps) if step >= NEVER]:
        plugin, reason = _never(stand, why, position)
        reasons = failed if steps[position] == UNKNOWN else unresolvable
        reasons[names[position]] = f"node(s) {reason}, for {source}"[:_MAX_REASON]
        rejected[plugin] += 1
    return Verdict(kept, failed, unresolvable, rejected)


def held(stand: Stand, waiting: tuple[str, ...], known: int, source: str) -> str:
    """Why a pod is not let down to a later group yet: what its event says."""
    step = stand.best
    where = stand.climb.group_name(step) if step < NEVER else ""
    offered = f"only nodes of cluster group {where}" if where else "no node that may take the pod"
    first = f"{waiting[0]} and {len(waiting) - 1} more come" if len(waiting) > 1 else f"{waiting[0]} comes"
    return (
        f"{len(stand.names)} of {known} nodes were offered, with {offered}; {first} first and may have room, "
        f"for {source}: to be tried again"
    )


def _never(stand: Stand, why: Why, position: int) -> tuple[str, str]:
    step = stand.steps[position]
    if step == FOREIGN:
        return WHY_FOREIGN
    if step == UNKNOWN:
        return WHY_UNKNOWN
    plugin, reason = why(stand, position)
    return plugin, f"rejected: {reason}"


def _later(stand: Stand, step: int, source: str) -> str:
    climb = stand.climb
    reason = f"node(s) of cluster group {climb.group_name(step)}, after {climb.group_name(stand.best)}, for {source}"
    return reason[:_MAX_REASON]
