"""FederatedResourceQuotas as moves see them: pure functions.

karmada-webhook refuses an assignment whose use is above a quota. A move with MakeBeforeBreak uses it for old and new
copies. One with BreakBeforeMake gives its use up, and needs it again some time later. So it begins only if each quota
would accept the workload again afterwards. What it has given up is kept for it: the binding scheduler gives it to no
other binding.
"""

from collections.abc import Iterable, Mapping

from berthmaster.model.binding import Binding
from berthmaster.model.errors import name_list
from berthmaster.model.move import MovePhase, MoveState, MoveStrategy, written_clusters
from berthmaster.model.move_refusal import Cause, MoveRefusal
from berthmaster.model.work import FederatedResourceQuota

Use = Mapping[str, int]
"""An amount of each resource, in billionths."""


def use_of(binding: Binding, assignment: Mapping[str, int]) -> dict[str, int]:
    """Return what an assignment uses of the quotas of its namespace (karmada ``CalculateResourceUsage``)."""
    spec, used = binding.spec, dict[str, int]()
    if spec.components:
        sets = [(each.replica_requirements, each.replicas * len(assignment)) for each in spec.components]
    else:
        sets = [(spec.replica_requirements, sum(assignment.values()))]
    for requirements, count in sets:
        requests = requirements.resource_request if requirements is not None else {}
        for name, amount in requests.items():
            used[name] = used.get(name, 0) + amount.nanos * count
    return used


def given_up(binding: Binding, state: MoveState | None) -> dict[str, int]:
    """Return what a move with BreakBeforeMake that has removed old copies needs again; empty for other moves.

    It needs the larger one of its target and of the assignment that it may return to.
    """
    if state is None or state.phase is not MovePhase.ADMITTED or state.strategy is not MoveStrategy.BREAK_BEFORE_MAKE:
        return {}
    return _more(use_of(binding, state.target), use_of(binding, state.home), use_of(binding, binding.assignment))


def kept_for_others(quotas: Iterable[FederatedResourceQuota], added: Use, kept: Use) -> str:
    """Return which quota has no room for more use beside what is kept for moves; empty if all have."""
    for quota in quotas:
        if short := _short(quota, {name: more + kept.get(name, 0) for name, more in added.items() if more > 0}):
            return f"quota {quota.metadata.name} keeps {name_list(short)} for workloads that move"
    return ""


def why_no_quota(binding: Binding, state: MoveState, quotas: Iterable[FederatedResourceQuota]) -> MoveRefusal | None:
    """Return which quota would refuse what a move that begins writes, now or later; None if none would."""
    before = use_of(binding, binding.assignment)
    if state.strategy is MoveStrategy.MAKE_BEFORE_BREAK:
        wanted, when = use_of(binding, written_clusters(state)), "beside the old copies"
    else:
        wanted, when = _more(use_of(binding, state.target), before, {}), "once the old copies are gone"
    for quota in quotas:
        if short := _short(quota, {name: more - before.get(name, 0) for name, more in wanted.items()}):
            why = f"quota {quota.metadata.name} has no room for {name_list(short)} {when}"
            return MoveRefusal(Cause.QUOTA, why, (quota.metadata.name, *short))
    return None


def _short(quota: FederatedResourceQuota, added: Use) -> list[str]:
    """Return the resources of which a quota has not enough."""
    limits, used = quota.spec.overall or {}, quota.status.overall_used or {}
    return sorted(
        name
        for name, more in added.items()
        if name in limits and (used[name].nanos if name in used else 0) + more > limits[name].nanos
    )


def _more(first: Use, second: Use, without: Use) -> dict[str, int]:
    """Return the larger amount of each resource, without another amount, if anything is left."""
    found = {
        name: max(first.get(name, 0), second.get(name, 0)) - without.get(name, 0)
        for name in first.keys() | second.keys()
    }
    return {name: amount for name, amount in sorted(found.items()) if amount > 0}
