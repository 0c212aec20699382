"""The limits of a plan, and the exit codes that follow."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from berthmaster.simulation.plan_answer import Plan
from berthmaster.views.texts import count_text

CONDITIONS: Final = ("lost", "moved", "overcommit")
EXIT_ERROR: Final = 1
EXIT_MOVES: Final = 2
EXIT_LIMIT: Final = 3
EXIT_CODES_HELP: Final = (
    "Exit codes: 0 success, and with --detailed-exitcode nothing moves; 1 an error, or a question that an incomplete "
    "plan cannot answer; 2 with --detailed-exitcode something moves; 3 a limit is exceeded (--fail-on, --max-moves, "
    "--max-percent), or --check found another plan; 130 interrupted."
)


class Limits(NamedTuple):
    """What a plan must not do.

    Attributes:
        conditions: the conditions of ``--fail-on``.
        max_moves: how many workloads may move; None for any number.
        max_percent: how many percent of all workloads may move; None for all.
        expected_id: the id that the plan must have; empty for any.
        detailed: whether the exit code says that something moves.
    """

    conditions: Sequence[str] = ()
    max_moves: int | None = None
    max_percent: float | None = None
    expected_id: str = ""
    detailed: bool = False


class LimitOutcome(NamedTuple):
    """The exit code, and the sentences that explain it."""

    exit_code: int
    messages: list[str]


def outcome(plan: Plan, limits: Limits) -> LimitOutcome:
    """Return how the command ends.

    A limit that the known part of a plan exceeds is exceeded in any case. A limit that it keeps is not known to be
    kept if the plan is incomplete, and neither is the id.
    """
    exceeded = list(_exceeded(plan, limits))
    if not plan.complete and limits.expected_id:
        return LimitOutcome(EXIT_ERROR, [*exceeded, "the plan is incomplete, so that --check cannot compare its id"])
    if limits.expected_id and plan.id != limits.expected_id:
        exceeded.append(
            f"the plan is {plan.id}, and not {limits.expected_id}: the changed objects, or what they would move, differ"
        )
    if exceeded:
        return LimitOutcome(EXIT_LIMIT, exceeded)
    limited = limits.conditions or limits.max_moves is not None or limits.max_percent is not None
    if not plan.complete and limited:
        return LimitOutcome(EXIT_ERROR, ["the plan is incomplete, so that it is not known whether it keeps the limits"])
    if not limits.detailed:
        return LimitOutcome(0, [])
    if plan.moves_anything:
        return LimitOutcome(EXIT_MOVES, [])
    if not plan.complete:
        return LimitOutcome(EXIT_ERROR, ["the plan is incomplete, so that it is not known whether anything moves"])
    return LimitOutcome(0, [])


def _exceeded(plan: Plan, limits: Limits) -> Iterator[str]:
    summary = plan.summary
    if "lost" in limits.conditions and summary.new_failures:
        failed = count_text(len(summary.new_failures), "workload")
        yield f"--fail-on lost: {failed} would have no place or too few replicas"
    if "moved" in limits.conditions and summary.moved:
        yield f"--fail-on moved: {count_text(summary.moved, 'workload')} would move"
    if "overcommit" in limits.conditions and plan.overcommitted:
        yield f"--fail-on overcommit: {count_text(len(plan.overcommitted), 'cluster')} would be overcommitted"
    if limits.max_moves is not None and summary.moved > limits.max_moves:
        yield f"--max-moves {limits.max_moves}: {count_text(summary.moved, 'workload')} would move"
    percent = 100 * summary.moved / summary.workloads if summary.workloads else 0.0
    if limits.max_percent is not None and percent > limits.max_percent:
        yield f"--max-percent {limits.max_percent:g}: {percent:.3g} % of the workloads would move"
