"""The rule about annotations of policies about moves. Karmada stores any text, and the controllers read it later."""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Final

from berthmaster.deciding.config import SourceSettings, failback_annotation, pause_annotation
from berthmaster.model.errors import FieldError, InputError
from berthmaster.model.move import FAILBACK, PAUSE, STRATEGY, MoveStrategy
from webhook.admission.outcome import FieldProblem
from webhook.admission.rules.rule import AdmissionRule, ReviewedPolicy

_PREFIX: Final = FAILBACK.partition("/")[0] + "/"
_KNOWN: Final = (FAILBACK, STRATEGY, PAUSE)
_NOTHING_BEGINS: Final = "it cannot be read, and no planned move of the policy's workloads begins"
_SIMILAR: Final = 0.85


def _invalid(reviewed: ReviewedPolicy) -> Iterator[FieldProblem]:
    annotations = reviewed.policy.metadata.annotations
    for key in sorted(annotations):
        if key.startswith(_PREFIX):
            yield from _problems(key, annotations[key])


def _problems(key: str, text: str) -> Iterator[FieldProblem]:
    path = f"metadata.annotations[{key}]"
    if key == FAILBACK and not _is_failback(text):
        accepted = "write after=10m,headroom=10%,mode=On (each part can be absent), true or false"
        yield FieldProblem(path, text, _NOTHING_BEGINS, accepted)
    elif key == STRATEGY and text not in {each.value for each in MoveStrategy}:
        yield FieldProblem(path, text, _NOTHING_BEGINS, f"write {' or '.join(each.value for each in MoveStrategy)}")
    elif key == PAUSE and not _is_pause(text):
        fault = "it cannot be read, and pauses planned moves"
        yield FieldProblem(path, text, fault, "write true (planned moves), all (failovers too) or false")
    elif key not in _KNOWN and (similar := get_close_matches(key, _KNOWN, 1, _SIMILAR)):
        yield FieldProblem(path, text, "no such annotation is known, and it has no effect", f"write {similar[0]}")


def _is_failback(text: str) -> bool:
    try:
        failback_annotation(text, SourceSettings())
    except FieldError:
        return False
    return True


def _is_pause(text: str) -> bool:
    try:
        pause_annotation(text)
    except InputError:
        return False
    return True


MOVE_RULES: Final = (
    AdmissionRule(
        "move-annotation-invalid", "An annotation about moves that cannot be read, or has a misspelled name.", _invalid
    ),
)
