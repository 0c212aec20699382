"""Rules about the annotations of a policy that concern its moves."""

from collections.abc import Iterator
from typing import Final

from berthmaster.deciding.move_settings import SourceSettings, failback_annotation
from berthmaster.deciding.pause import pause_annotation
from berthmaster.model.errors import FieldError, InputError
from berthmaster.model.hints import closest
from berthmaster.model.move import FAILBACK, PAUSE, STRATEGY, VOLUMES, MoveStrategy, VolumeLoss
from berthmaster.model.priority_drops import PRIORITY_DROP_ANNOTATION
from webhook.admission.field_problem import FieldProblem
from webhook.admission.rules.rule import ReviewedPolicy, rule

_PREFIX: Final = FAILBACK.partition("/")[0] + "/"
_KNOWN: Final = (FAILBACK, STRATEGY, PAUSE, VOLUMES)
_CHOICES: Final = {
    STRATEGY: tuple(each.value for each in MoveStrategy), VOLUMES: tuple(each.value for each in VolumeLoss)
}  # fmt: skip
_NOTHING_BEGINS: Final = "it cannot be read, and no planned move of the policy's workloads begins"
_SIMILAR: Final = 0.85


@rule("move-annotation-invalid", "An annotation about moves that cannot be read, or has a misspelled name.")
def _invalid(reviewed: ReviewedPolicy) -> Iterator[FieldProblem]:
    annotations = reviewed.policy.metadata.annotations
    for key in sorted(annotations):
        if key.startswith(_PREFIX) and key != PRIORITY_DROP_ANNOTATION:  # the search of a similar key is slow
            yield from _problems(key, annotations[key])


MOVE_RULES: Final = (_invalid,)


def _problems(key: str, text: str) -> Iterator[FieldProblem]:
    path = f"metadata.annotations[{key}]"
    if key == FAILBACK and not _is_failback(text):
        accepted = "write after=10m,headroom=10%,mode=On (each part can be absent), true or false"
        yield FieldProblem(path, text, _NOTHING_BEGINS, accepted)
    elif key in _CHOICES and text not in _CHOICES[key]:
        yield FieldProblem(path, text, _NOTHING_BEGINS, f"write {' or '.join(_CHOICES[key])}")
    elif key == PAUSE and not _is_pause(text):
        fault = "it cannot be read, and pauses planned moves"
        yield FieldProblem(path, text, fault, "write true (planned moves), all (failovers too) or false")
    elif key not in _KNOWN and (similar := closest(key, _KNOWN, _SIMILAR)):
        yield FieldProblem(path, text, "no such annotation is known, and it has no effect", f"write {similar}")


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
