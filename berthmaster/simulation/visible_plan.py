"""A plan as one reader may see it: without the rows of workloads and policies of other namespaces."""

from collections.abc import Sequence

from msgspec.structs import replace

from berthmaster.model.reader import Reader
from berthmaster.simulation.plan_answer import ClaimChange, Plan, PolicyEffect


def visible_plan(plan: Plan, reader: Reader) -> Plan:
    """Return the rows that a reader may see. The id and the totals stay; they are about all workloads.

    Args:
        plan: the plan. Its gaps and the texts of its rows are made for the reader already.
        reader: the reader.
    """
    if reader.namespaces is None:
        return plan
    summary = plan.summary
    return replace(
        plan,
        summary=replace(
            summary,
            nowhere=reader.seen(summary.nowhere),
            short=reader.seen(summary.short),
            new_failures=reader.seen(summary.new_failures),
        ),
        policies=[_visible_effect(each, reader) for each in plan.policies if reader.sees_policy(each.policy)],
        unplaced=[each for each in plan.unplaced if reader.sees_resource(each.resource)],
        moves=[each for each in plan.moves if reader.sees_resource(each.resource)],
        staying=[each for each in plan.staying if reader.sees_resource(each.resource)],
    )


def _visible_effect(effect: PolicyEffect, reader: Reader) -> PolicyEffect:
    def visible(changes: Sequence[ClaimChange]) -> list[ClaimChange]:
        return [each for each in changes if reader.sees_resource(each.resource)]

    return replace(
        effect,
        gains=visible(effect.gains),
        takes=visible(effect.takes),
        loses=visible(effect.loses),
        unclaimed=visible(effect.unclaimed),
    )
