"""Priority drops: a policy whose priority falls below that of others, which may then take its resources over.

The webhook records each drop in an annotation of the policy. The preemption controller acts on the record and removes
it. ``docs/preemption.md`` says which policies are newly eligible, and how this differs from Karmada.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from berthmaster.model.decode import NOT_JSON
from berthmaster.model.meta import Int32, Value
from berthmaster.model.policy import Policy
from berthmaster.model.policy_preemption import strongest_first

PRIORITY_DROP_ANNOTATION: Final = "policy.berthmaster.io/priority-drop"
"""Records that the priority of a policy dropped. The webhook writes it; the preemption controller removes it."""


class PriorityDrop(Value, frozen=True):
    """The priorities that a policy dropped past: the half-open interval ``(to, from_]``."""

    from_: Int32 = msgspec.field(name="from")
    to: Int32


_DROP_DECODER: Final = msgspec.json.Decoder(PriorityDrop)


def parse_priority_drop(text: str | None) -> PriorityDrop | None:
    """Read the annotation of a policy; None if it is absent, invalid, or records no drop."""
    if text is None:
        return None
    try:
        drop = _DROP_DECODER.decode(text)
    except NOT_JSON:
        return None
    return drop if drop.from_ > drop.to else None


def format_priority_drop(drop: PriorityDrop) -> str:
    return f'{{"from": {drop.from_}, "to": {drop.to}}}'


def newly_eligible(drop: PriorityDrop, dropped: Policy, policies: Iterable[Policy]) -> list[Policy]:
    """Return the preempting policies of the same kind and namespace in the interval of a drop, the strongest first."""
    scope = dropped.reference[:2]
    return strongest_first(
        policy
        for policy in policies
        if policy.reference[:2] == scope
        and policy.reference != dropped.reference
        and policy.spec.preemption == "Always"
        and drop.to < policy.explicit_priority <= drop.from_
    )
