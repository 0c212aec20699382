"""Answers as one reader may see them: no name of a workload or a policy of another namespace. Figures stay.

Answers about everything, such as the fleet, name no workload. Lists of moves and of workloads have only visible rows.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from berthmaster.ledger.records import PastExplanation
from berthmaster.model.gaps import Reader
from berthmaster.native_api.why import ImpactView
from berthmaster.native_api.wire import BindingExplanation, BindingView
from berthmaster.simulation.plan_answer import ClaimChange, Loss, Plan, PolicyEffect
from berthmaster.simulation.report import Explanation
from berthmaster.views.policy_rows import PolicyRow


def visible_binding(found: BindingView, reader: Reader) -> BindingView:
    """Return a binding without the bindings of others that need it."""
    return replace(found, required_by=[each for each in found.required_by if reader.sees(each.namespace)])


def visible_decision(found: BindingExplanation, reader: Reader) -> BindingExplanation:
    """Return an explanation without the names of others that the workload follows, or that follow it."""
    return replace(found, **_companions(found, reader))


def visible_record(found: PastExplanation, reader: Reader) -> PastExplanation:
    """Return a recorded decision as ``visible_decision``."""
    return replace(found, explanation=replace(found.explanation, **_companions(found.explanation, reader)))


def visible_policy(row: PolicyRow, reader: Reader) -> PolicyRow:
    """Return a policy without the names of others that it claims, takes or loses."""
    return replace(
        row,
        claimed=reader.seen(row.claimed),
        takes=[each for each in row.takes if reader.sees_resource(each.resource)],
        loses=[each for each in row.loses if reader.sees_resource(each.resource)],
    )


def visible_impact(impact: ImpactView, reader: Reader) -> ImpactView:
    """Return a failure without the names of others that it hits."""
    return replace(
        impact,
        only_copy=reader.seen(impact.only_copy),
        not_simulated=reader.seen(impact.not_simulated),
        nowhere=reader.seen(impact.nowhere),
        short=reader.seen(impact.short),
        staying=reader.seen(impact.staying),
    )


def _companions(explained: Explanation, reader: Reader) -> dict[str, list[str]]:
    return {
        "follows": reader.named(explained.follows),
        "followed_by": reader.named(explained.followed_by),
        "missing": reader.named(explained.missing),
    }


def visible_plan(plan: Plan, reader: Reader) -> Plan:
    """Return the rows that a reader may see. The id and the totals stay; they are about all workloads."""
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
        loss=visible_loss(plan.loss, reader) if plan.loss is not None else None,
    )


def visible_loss(loss: Loss, reader: Reader) -> Loss:
    """Return what stops without the names of others. The totals stay."""
    return replace(
        loss,
        only_copy=reader.seen(loss.only_copy),
        left=reader.seen(loss.left),
        not_simulated=reader.seen(loss.not_simulated),
        preserved=reader.seen(loss.preserved),
        hanging={name: reader.seen(found) for name, found in loss.hanging.items()},
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
