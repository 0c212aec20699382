"""Priority drops: who may preempt now, and had to wait before (the annotation ``policy.berthmaster.io/priority-drop``).

When a policy falls from priority A to B, the policies that preempt and have a priority in the half-open interval
**(B, A]** may take over what it claims: those above A could do so all along, those at B or below still cannot.
Karmada looks at the open interval and forgets those at exactly A. A webhook cannot act, so the interval is recorded
on the policy, durably, for a controller.

Only the review decides what the annotation is, from what it knows for certain: the stored object and the new priority.

- The record after an update spans from the highest priority that has not been handled yet, which is the larger of the
  record's
  ``from`` and the old priority, down to the new one. That one rule merges drops, narrows on a rise and removes on a
  full one.
- What the new object says in the annotation is not read at all, but for one case: a user named as a *handler* may
  take it away
  in an update that leaves the priority alone.
- A policy that is created has not dropped.

The outcome depends on the stored object and on fields that are not changed here, so a second call gives the same.
"""

from typing import NamedTuple

from berthmaster.model.claims import PriorityDrop, parse_priority_drop


class Change(NamedTuple):
    """What an update does to a policy.

    Attributes:
        stored: the annotation of the stored object; None if it has none.
        sent: the annotation of the new object.
        before, after: the old and new priority.
        by_handler: a user sent it who may clear the annotation.
    """

    stored: str | None
    sent: str | None
    before: int
    after: int
    by_handler: bool


def record_after(change: Change) -> PriorityDrop | None:
    """The interval that is to be on record after an update; None for no record."""
    if change.by_handler and change.sent is None and change.before == change.after:
        return None
    recorded = parse_priority_drop(change.stored)
    unhandled_from = max(change.before, recorded.from_) if recorded is not None else change.before
    return PriorityDrop(from_=unhandled_from, to=change.after) if unhandled_from > change.after else None
