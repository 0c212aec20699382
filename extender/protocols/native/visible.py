"""Answers as one reader may see them: no name of a workload or a policy of another namespace. Figures stay.

Answers about everything, such as the fleet, name no workload. Lists of moves and of workloads have only visible rows.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from berthmaster.ledger.records import PastExplanation
from berthmaster.model.meta import with_metadata, with_spec
from berthmaster.model.policy import Policy
from berthmaster.model.readers import ELSEWHERE, Reader
from berthmaster.native_api.why import ImpactView
from berthmaster.native_api.wire import BindingExplanation, BindingView
from berthmaster.simulation.plan_answer import Loss, Plan, PlanSummary, PolicyEffect
from berthmaster.simulation.report import Explanation
from berthmaster.views.policy_rows import PolicyRow

A = TypeVar("A", bound=Struct)
_LISTS: Final[Mapping[type[Struct], Sequence[str]]] = {
    ImpactView: ("only_copy", "not_simulated", "nowhere", "short", "staying"),
    Loss: ("only_copy", "left", "not_simulated", "preserved"),
    Plan: ("unplaced", "moves", "staying"),
    PlanSummary: ("nowhere", "short", "new_failures", "keeping"),
    PolicyEffect: ("gains", "takes", "loses", "unclaimed"),
    PolicyRow: ("claimed", "takes", "loses"),
}
"""The lists of an answer that name workloads, as texts or in rows."""


def visible(answer: A, reader: Reader) -> A:
    """Return an answer without the names of other workloads that the reader may not see. The totals stay."""

    def seen(rows: Sequence[Any]) -> list[Any]:
        return [each for each in rows if reader.sees_resource(each if isinstance(each, str) else each.resource)]

    return _with_lists(answer, seen)


def limited(answer: A, limit: int) -> A:
    """Return an answer with at most ``limit`` entries in each list that names workloads."""
    return _with_lists(answer, lambda rows: rows[:limit])


def _with_lists(answer: A, change: Callable[[Sequence[Any]], Sequence[Any]]) -> A:
    changed: dict[str, Any] = {name: change(getattr(answer, name)) for name in _LISTS[type(answer)]}
    match answer:
        case Loss():
            changed["hanging"] = {name: change(names) for name, names in answer.hanging.items()}
        case Plan():
            changed["summary"] = _with_lists(answer.summary, change)
            changed["policies"] = [_with_lists(each, change) for each in answer.policies]
            changed["loss"] = None if answer.loss is None else _with_lists(answer.loss, change)
    return replace(answer, **changed)


def visible_plan(plan: Plan, reader: Reader) -> Plan:
    """Return the rows that a reader may see. The id and the totals stay; they are about all workloads."""
    if reader.namespaces is None:
        return plan
    policies = [each for each in plan.policies if reader.sees_policy(each.policy)]
    return visible(replace(plan, policies=policies), reader)


def visible_policy(policy: Policy, reader: Reader) -> Policy:
    """Return a policy without its selectors of namespaces that the reader may not see.

    Annotations go, too: kubectl keeps the applied manifest in one.
    """
    selectors = policy.spec.resource_selectors
    seen = tuple(each for each in selectors if not each.namespace or reader.sees(each.namespace))
    if len(seen) == len(selectors):
        return policy
    return with_metadata(with_spec(policy, resource_selectors=seen), annotations={})


def visible_row(row: PolicyRow, policy: Policy, reader: Reader) -> PolicyRow:
    """Return the row of a policy without names of other namespaces: of workloads, in selectors, and in findings."""
    selectors = policy.spec.resource_selectors
    hidden = [n for n, each in enumerate(selectors) if each.namespace and not reader.sees(each.namespace)]
    row = visible(row, reader)
    if not hidden:
        return row
    paths = tuple(f"spec.resourceSelectors[{number}]" for number in hidden)
    texts = [text for number, text in enumerate(row.selectors) if number not in hidden]
    findings = None if row.findings is None else [each for each in row.findings if not each.path.startswith(paths)]
    return replace(row, selectors=[*texts, ELSEWHERE], findings=findings)


def visible_binding(found: BindingView, reader: Reader) -> BindingView:
    """Return a binding without the bindings of others that need it."""
    return replace(found, required_by=[each for each in found.required_by if reader.sees(each.namespace)])


def visible_decision(found: BindingExplanation, reader: Reader) -> BindingExplanation:
    """Return an explanation without the names of others that the workload follows, or that follow it."""
    return replace(found, **_companions(found, reader))


def visible_record(found: PastExplanation, reader: Reader) -> PastExplanation:
    """Return a recorded decision as ``visible_decision``."""
    return replace(found, explanation=replace(found.explanation, **_companions(found.explanation, reader)))


def _companions(explained: Explanation, reader: Reader) -> dict[str, list[str]]:
    return {name: reader.named(getattr(explained, name)) for name in ("follows", "followed_by", "missing")}
