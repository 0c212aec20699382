"""The record of priority drops in a policy (the annotation ``policy.berthmaster.io/priority-drop``).

A policy falls from priority A to B. Policies that preempt and have a priority in the half-open interval **(B, A]** may
now take over its resources. Policies above A could do so before, and policies at B or below still cannot. Karmada
considers the open interval only and misses policies at exactly A. A webhook cannot preempt, so it records the interval
on the policy for a controller.

The review computes the annotation from the stored object and the new priority:

- After an update the record starts at the highest priority that is not handled yet. This is the larger of the record's
  ``from`` and the old priority. The record ends at the new priority. This rule merges drops, narrows the record when
  the priority rises, and removes the record when the priority rises to its start.
- The annotation of the new object is ignored, with one exception: a user that is configured as a *handler* may remove
  it in an update that does not change the priority.
- A new policy has no record.

The outcome depends on the stored object and on fields that this module does not change. A second call gives the same
outcome.
"""

from typing import NamedTuple

from berthmaster.model.policy import Policy
from berthmaster.model.priority_drops import (
    PRIORITY_DROP_ANNOTATION,
    PriorityDrop,
    format_priority_drop,
    parse_priority_drop,
)
from webhook.admission.json_patch import Draft


class DropReview(NamedTuple):
    """The messages for the user and for the audit log."""

    warnings: tuple[str, ...]
    audit: dict[str, str]


def review_drop(
    draft: Draft, new: Policy, old: Policy | None, *, namespace: str, by_handler: bool, preempts: bool
) -> DropReview:
    """Set the annotation of a draft to the record, or remove it.

    Args:
        by_handler: the user may remove the annotation.
        preempts: policies can take resources over, so that a drop deserves a warning.
    """
    sent = new.metadata.annotations.get(PRIORITY_DROP_ANNOTATION)
    if old is None:
        if sent is None:
            return DropReview((), {})
        draft.remove("metadata", "annotations", PRIORITY_DROP_ANNOTATION)
        return DropReview(
            (f"annotation {PRIORITY_DROP_ANNOTATION} is removed: a new policy has not dropped in priority",), {}
        )
    stored = old.metadata.annotations.get(PRIORITY_DROP_ANNOTATION)
    before, after = old.explicit_priority, new.explicit_priority
    record = parse_priority_drop(stored)
    cleared = by_handler and sent is None and before == after
    wanted = None if cleared else record_after(record, before, after)
    text = format_priority_drop(wanted) if wanted is not None else None
    warnings = []
    if preempts and after < before:
        warnings.append(_drop_warning(new.kind, namespace, before, after))
    if sent not in (stored, text):
        warnings.append(
            f"annotation {PRIORITY_DROP_ANNOTATION} is kept by the admission webhook: the change to it is ignored"
        )
    if text is not None and sent != text:
        draft.set(text, "metadata", "annotations", PRIORITY_DROP_ANNOTATION)
    elif text is None and sent is not None:
        draft.remove("metadata", "annotations", PRIORITY_DROP_ANNOTATION)
    audit = {"priority-drop": text or "cleared"} if wanted != record else {}
    return DropReview(tuple(warnings), audit)


def record_after(record: PriorityDrop | None, before: int, after: int) -> PriorityDrop | None:
    """Return the record after an update; None for no record."""
    unhandled_from = max(before, record.from_) if record is not None else before
    return PriorityDrop(from_=unhandled_from, to=after) if unhandled_from > after else None


def _drop_warning(kind: str, namespace: str, before: int, after: int) -> str:
    where = f" in namespace {namespace}" if namespace else ""
    return (
        f"spec.priority falls from {before} to {after}: every {kind}{where} with preemption Always and a priority "
        f"above {after}, up to and including {before}, may now take over the resources of this policy"
    )
