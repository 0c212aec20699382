"""The request for a review to the extender, and the impact that its answer describes."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from berthmaster.model.decode import decode_json, encode_json
from berthmaster.native_api.what_if import ReviewAnswer, ReviewedWorkload
from webhook.admission.blast_radius import BlastRadius
from webhook.admission.impact import PolicyImpact, ReviewedChange
from webhook.admission.impact_texts import line

_MAX_USER: Final = 1_024
_MAX_GAPS: Final = 3
_MAX_WORST: Final = 3
_EFFECTS: Final[dict[str, str]] = {"nowhere": "would have no place", "short": "would lack replicas"}


def review_request(change: ReviewedChange, limits: BlastRadius | None, timeout_s: float) -> bytes:
    """Return the body of the request. The extender stops computing when the time is over."""
    body: dict[str, Any] = {"timeoutMs": max(1, round(timeout_s * 1000)), "dryRun": change.dry_run}
    body["user"] = change.author[:_MAX_USER]
    if change.document is None:
        name = {"kind": change.kind, "namespace": change.namespace, "name": change.name}
        body["change"] = {"type": "delete", "policy": name}
    else:
        body["change"] = {"type": "set", "policy": _reduced(change, change.document), "creates": change.creates}
    if limits is not None:
        body |= {"limits": limits.by_name(), "accepts": change.accepts}
    return encode_json(body)


def impact_of(content: bytes) -> PolicyImpact:
    """Return the impact that an answer describes. Raises ``FieldError`` if the answer cannot be decoded."""
    answer = decode_json(ReviewAnswer, content)
    return PolicyImpact(
        plan=answer.id,
        workloads=answer.workloads,
        concerned=answer.concerned,
        moved=answer.moved,
        replicas=answer.replicas,
        lost=answer.lost,
        short=answer.short,
        deleted=answer.deleted_copies,
        complete=answer.complete,
        worst=tuple(line(text) for each in answer.worst for text in _texts(each))[:_MAX_WORST],
        gaps=tuple(answer.gaps[:_MAX_GAPS]),
        planning=answer.planning,
        assumes_preemption=answer.assumes_preemption,
        lazy=answer.lazy,
    )


def _reduced(change: ReviewedChange, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the policy without the metadata that no decision reads."""
    metadata = {"name": change.name, "namespace": change.namespace}
    return {
        "apiVersion": document.get("apiVersion"),
        "kind": change.kind,
        "metadata": metadata,
        "spec": document.get("spec"),
    }


def _texts(workload: ReviewedWorkload) -> Iterator[str]:
    if workload.failure:
        effect = f"{workload.resource} {_EFFECTS[workload.failure]}"
        yield f"{effect}: {workload.message}" if workload.message else effect
    parts = (
        ("leaves", workload.leaves, workload.more_left),
        ("reaches", [_with_replicas(*each) for each in workload.reaches.items()], workload.more_reached),
        ("changes", [f"{name} {a}->{b}" for name, (a, b) in workload.changes.items()], workload.more_changed),
    )
    moves = ", ".join(f"{verb} {_few(names, more)}" for verb, names, more in parts if names)
    if moves and not workload.failure:
        yield f"{workload.resource} {moves}"


def _with_replicas(name: str, replicas: int) -> str:
    return f"{name} ({replicas})" if replicas else name


def _few(names: list[str], more: int) -> str:
    return f"{', '.join(names)} and {more} more" if more else " and ".join(names)
