"""Answers as one reader may see them: no name of a workload or a policy of another namespace. Figures stay.

Answers about everything, such as the fleet, name no workload. ``visible_plan`` does the same for plans.
"""

from msgspec.structs import replace

from berthmaster.ledger.records import PastExplanation
from berthmaster.model.reader import Reader
from berthmaster.native_api.why import ImpactView
from berthmaster.native_api.wire import BindingExplanation, BindingView, HistoryPage
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


def visible_history(found: HistoryPage, reader: Reader) -> HistoryPage:
    """Return the records of visible workloads. One name can mean workloads of several namespaces."""
    return replace(found, items=[row for row in found.items if reader.sees(row.namespace)])


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
