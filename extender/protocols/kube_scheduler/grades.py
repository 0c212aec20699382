"""Prioritize: nodes as integers from 0 to 10, better ones higher."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from extender.protocols.kube_scheduler.steps import NEVER

MAX_GRADE: Final = 10
_LOWEST: Final = 1  # 0 is for nodes that may not take the pod


class Merit(NamedTuple):
    """What speaks for a node.

    Attributes:
        step: the step it stands on; see ``steps``.
        score: what the score plugins give it, together.
        weight: its static weight in the placement.
        room: how many such pods it has room for.
    """

    step: int
    score: int
    weight: int
    room: int


def grades(merits: Sequence[Merit]) -> list[int]:
    """The grade of each node.

    Nodes of an earlier step are graded above all of a later one, for as long as there are no more than ten steps.
    Among those of a step the first of score, weight and room that tells them apart decides, in proportion; nodes that
    nothing tells apart have the same grade, the best of their step.
    """
    steps = sorted({merit.step for merit in merits if merit.step < NEVER})
    found = [0] * len(merits)
    for index, step in enumerate(steps):
        positions = [position for position, merit in enumerate(merits) if merit.step == step]
        best = max(_LOWEST, MAX_GRADE - MAX_GRADE * index // len(steps))
        worst = max(_LOWEST, min(best, MAX_GRADE - MAX_GRADE * (index + 1) // len(steps) + 1))
        values = _telling([merits[position] for position in positions])
        top = max(values)
        for position, value in zip(positions, values, strict=True):
            found[position] = worst + (best - worst) * value // top if top else best
    return found


def _telling(merits: Sequence[Merit]) -> list[int]:
    """The first of score, weight and room that is not the same for all; zeros if all are."""
    for values in zip(*((merit.score, merit.weight, merit.room) for merit in merits), strict=True):
        if len(set(values)) > 1:
            return [max(0, value) for value in values]
    return [0] * len(merits)
