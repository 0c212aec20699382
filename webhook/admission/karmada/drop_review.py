"""The priority drop's part in a review: the annotation, the warning, the audit log."""

from typing import NamedTuple

from berthmaster.model.claims import PRIORITY_DROP_ANNOTATION, format_priority_drop, parse_priority_drop
from webhook.admission.karmada.policy import Policy
from webhook.admission.karmada.priority_drop import Change, record_after
from webhook.admission.patch import Draft


class DropReview(NamedTuple):
    """What the user and the audit log are told."""

    warnings: tuple[str, ...]
    audit: dict[str, str]


def review_drop(draft: Draft, new: Policy, old: Policy | None, *, namespace: str, by_handler: bool) -> DropReview:
    """Bring the annotation of a draft to what it must be. ``old`` is None for a policy that is created."""
    sent = new.metadata.annotations.get(PRIORITY_DROP_ANNOTATION)
    if old is None:
        if sent is None:
            return DropReview((), {})
        draft.remove("metadata", "annotations", PRIORITY_DROP_ANNOTATION)
        told = f"annotation {PRIORITY_DROP_ANNOTATION} is removed: a policy that is created has not dropped in priority"
        return DropReview((told,), {})
    stored = old.metadata.annotations.get(PRIORITY_DROP_ANNOTATION)
    wanted = record_after(Change(stored, sent, old.priority, new.priority, by_handler))
    text = format_priority_drop(wanted) if wanted is not None else None
    warnings = []
    if new.priority < old.priority:
        warnings.append(_opened(new.kind, namespace, old.priority, new.priority))
    if sent not in (stored, text):
        warnings.append(
            f"annotation {PRIORITY_DROP_ANNOTATION} is kept by the admission webhook: "
            "the change to it is not taken over"
        )
    if text is not None and sent != text:
        draft.set(text, "metadata", "annotations", PRIORITY_DROP_ANNOTATION)
    elif text is None and sent is not None:
        draft.remove("metadata", "annotations", PRIORITY_DROP_ANNOTATION)
    audit = {"priority-drop": text or "cleared"} if wanted != parse_priority_drop(stored) else {}
    return DropReview(tuple(warnings), audit)


def _opened(kind: str, namespace: str, before: int, after: int) -> str:
    where = f" in namespace {namespace}" if namespace else ""
    return (
        f"spec.priority falls from {before} to {after}: every {kind}{where} with preemption Always and a priority "
        f"above "
        f"{after}, up to and including {before}, may now take over the resources that this one claims"
    )
