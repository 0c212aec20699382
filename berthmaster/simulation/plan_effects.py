"""What changes of policies do to claims."""

from collections.abc import Iterable, Sequence

from berthmaster.model.holding import takes
from berthmaster.model.policy import Policy, PolicyReference
from berthmaster.model.replicas import template_of
from berthmaster.simulation.plan_answer import ClaimChange, PolicyEffect
from berthmaster.simulation.plan_index import PlanIndex
from berthmaster.simulation.plan_rows import policy_text
from berthmaster.simulation.policy_edit import PolicyEdit
from berthmaster.simulation.run import PlannedWorkload
from berthmaster.simulation.workload import SimulatedWorkload


def policy_effects(
    index: PlanIndex, edits: Sequence[PolicyEdit], rows: Sequence[PlannedWorkload]
) -> list[PolicyEffect]:
    """Return the effect of each edited policy, in order, and of the others that take resources because of an edit."""
    after = {each.reference: each.after for each in edits}
    actions = {each.reference: _action(each, index) for each in edits}
    effects = {reference: _Effect(action) for reference, action in actions.items()}
    for planned in rows:
        then, now = planned.holder_before, planned.holder_after
        if then == now or planned.is_deleted:
            if then is not None and then in effects:
                effects[then].keeps += not planned.is_deleted
            continue
        change = ClaimChange(planned.resource, policy_text(then), policy_text(now))
        taker, holder = _known(now, after, index), _known(then, after, index)
        taken = taker is not None and holder is not None and _takes(taker, holder, planned.after.workload)
        # A policy that is not edited is listed if it takes something, or if no edited policy is concerned.
        if then is not None and (then in effects or now is None):
            effect = effects.setdefault(then, _Effect("unchanged"))
            (effect.unclaimed if now is None else effect.loses).append(change)
        if now is not None and (now in effects or taken or then not in effects):
            effect = effects.setdefault(now, _Effect("unchanged"))
            (effect.takes if taken else effect.gains).append(change)
    return [effect.result(reference) for reference, effect in effects.items()]


class _Effect:
    """The claims of one policy."""

    __slots__ = ("_action", "gains", "keeps", "loses", "takes", "unclaimed")

    def __init__(self, action: str) -> None:
        self._action = action
        self.keeps = 0
        self.gains: list[ClaimChange] = []
        self.takes: list[ClaimChange] = []
        self.loses: list[ClaimChange] = []
        self.unclaimed: list[ClaimChange] = []

    def result(self, reference: PolicyReference) -> PolicyEffect:
        return PolicyEffect(
            str(reference),
            self._action,
            self.keeps,
            *(_sorted(each) for each in (self.gains, self.takes, self.loses, self.unclaimed)),
        )


def _action(edit: PolicyEdit, index: PlanIndex) -> str:
    if edit.after is None:
        return "deleted"
    before = index.policy(edit.reference)
    if before is None:
        return "created"
    return "updated" if before.spec != edit.after.spec else "unchanged"


def _known(
    reference: PolicyReference | None, after: dict[PolicyReference, Policy | None], index: PlanIndex
) -> Policy | None:
    if reference is None:
        return None
    return after[reference] if reference in after else index.policy(reference)


def _takes(taker: Policy, holder: Policy, workload: SimulatedWorkload) -> bool:
    template = template_of(workload.manifest)
    return takes(taker, holder, template)


def _sorted(changes: Iterable[ClaimChange]) -> list[ClaimChange]:
    return sorted(changes, key=lambda each: each.resource)
