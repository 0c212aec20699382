"""The request to ``POST /v1/plan`` of the extender, and the part of its answer that reviews use."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from berthmaster.model.decode import decode_json, encode_json
from webhook.admission.impact import Impact, PolicyChange
from webhook.admission.impact_messages import line

WORST: Final = 3
"""How many single workloads the answer has at most: the warnings show no more."""
_CLUSTERS_SHOWN: Final = 2
_MAX_GAPS: Final = 3


class _Part(msgspec.Struct, frozen=True, rename="camel"):
    """The base of the parts. Unknown fields are ignored: a newer extender has more."""


class _Counts(_Part, frozen=True):
    workloads: int
    concerned: int
    moved: int
    replicas: int
    lost: int
    short: int
    deleted_copies: int


class _Move(_Part, frozen=True):
    resource: str
    moves: dict[str, tuple[int | None, int | None]]


class _Unplaced(_Part, frozen=True):
    resource: str
    nowhere: bool
    by_change: bool
    message: str = ""


class _Plan(_Part, frozen=True):
    id: str
    complete: bool
    gaps: list[str] = []
    moves: list[_Move] = []
    unplaced: list[_Unplaced] = []


class _Answer(_Part, frozen=True):
    counts: _Counts
    plan: _Plan


class _Problem(_Part, frozen=True):
    detail: str


def plan_request(change: PolicyChange, timeout_s: float) -> bytes:
    """Return the body of the request. The extender stops computing when the time is over."""
    body: dict[str, Any] = {"limit": WORST, "timeoutMs": max(1, round(timeout_s * 1000))}
    if change.document is None:
        body["delete"] = [{"kind": change.kind, "namespace": change.namespace, "name": change.name}]
    else:
        body["create" if change.creates else "update"] = [_reduced(change, change.document)]
    return encode_json(body)


def impact_of(content: bytes) -> Impact:
    """Return the impact that an answer describes.

    Raises:
        FieldError: the answer cannot be decoded.
    """
    answer = decode_json(_Answer, content)
    counts, plan = answer.counts, answer.plan
    return Impact(
        plan=plan.id,
        workloads=counts.workloads,
        concerned=counts.concerned,
        moved=counts.moved,
        replicas=counts.replicas,
        lost=counts.lost,
        short=counts.short,
        deleted=counts.deleted_copies,
        complete=plan.complete,
        worst=tuple(map(line, _worst(plan)))[:WORST],
        gaps=tuple(plan.gaps[:_MAX_GAPS]),
    )


def problem_of(content: bytes) -> str:
    """Return the detail of a problem.

    Raises:
        FieldError: the content is no problem.
    """
    return decode_json(_Problem, content).detail


def _reduced(change: PolicyChange, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the policy without the metadata that no decision reads."""
    metadata = {"name": change.name, "namespace": change.namespace}
    return {
        "apiVersion": document.get("apiVersion"),
        "kind": change.kind,
        "metadata": metadata,
        "spec": document.get("spec"),
    }


def _worst(plan: _Plan) -> Iterator[str]:
    for each in plan.unplaced:
        if each.by_change:
            effect = "would have no place" if each.nowhere else "would lack replicas"
            yield f"{each.resource} {effect}: {each.message}" if each.message else f"{each.resource} {effect}"
    for move in plan.moves:
        yield f"{move.resource} {_described(move.moves)}"


def _described(moves: Mapping[str, tuple[int | None, int | None]]) -> str:
    """Return the clusters that a workload leaves and reaches, and those that keep another number."""
    leaves = [name for name, (_, after) in moves.items() if after is None]
    reaches = [_with_replicas(name, after) for name, (before, after) in moves.items() if before is None]
    kept = [f"{name} {before}->{after}" for name, (before, after) in moves.items() if None not in (before, after)]
    parts = [f"leaves {_few(leaves)}"] if leaves else []
    parts += [f"reaches {_few(reaches)}"] if reaches else []
    parts += [f"changes {_few(kept)}"] if kept else []
    return ", ".join(parts)


def _with_replicas(name: str, replicas: int | None) -> str:
    return f"{name} ({replicas})" if replicas else name


def _few(names: list[str]) -> str:
    more = len(names) - _CLUSTERS_SHOWN
    return f"{' and '.join(names)}" if more <= 0 else f"{', '.join(names[:_CLUSTERS_SHOWN])} and {more} more"
