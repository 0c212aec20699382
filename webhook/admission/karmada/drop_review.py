"""The priority drop's part in a review: the annotation, the warning, the audit log."""

from typing import NamedTuple

from berthmaster.model.priority_drop import ANNOTATION, parse, write
from webhook.admission.karmada.policy import Policy
from webhook.admission.karmada.priority_drop import Change, record_after
from webhook.admission.patch import Draft


class DropReview(NamedTuple):
    """What the user and the audit log are told."""

    warnings: tuple[str, ...]
    audit: dict[str, str]


def review_drop(draft: Draft, new: Policy, old: Policy | None, *, namespace: str, by_handler: bool) -> DropReview:
    """Bring the annotation of a draft to what it must be. ``old`` is None for a policy that is created."""
    sent = new.metadata.annotations.get(ANNOTATION)
    if old is None:
        if sent is None:
            return DropReview((), {})
        draft.remove("metadata", "annotations", ANNOTATION)
        told = f"annotation {ANNOTATION} is removed: a policy that is created has not dropped in priority"
        return DropReview((told,), {})
    stored = old.metadata.annotations.get(ANNOTATION)
    wanted = record_after(Change(stored, sent, old.priority, new.priority, by_handler))
    text = write(wanted) if wanted is not None else None
    warnings = []
    if new.priority < old.priority:
        warnings.append(_opened(new.kind, namespace, old.priority, new.priority))
    if sent not in (stored, text):
        warnings.append(f"annotation {ANNOTATION} is kept by the admission webhook: the change to it is not taken over")
    if text is not None and sent != text:
        draft.set(text, "metadata", "annotations", ANNOTATION)
    elif text is None and sent is not None:
        draft.remove("metadata", "annotations", ANNOTATION)
    audit = {"priority-drop": text or "cleared"} if wanted != parse(stored) else {}
    return DropReview(tuple(warnings), audit)


def _opened(kind: str, namespace: str, before: int, after: int) -> str:
    where = f" in namespace {namespace}" if namespace else ""
    return (
        f"spec.priority falls from {before} to {after}: every {kind}{where} with preemption Always and a priority "
        f"above "
        f"{after}, up to and including {before}, may now take over the resources that this one claims"
    )
