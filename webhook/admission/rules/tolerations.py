"""Rules about tolerations of the taints of clusters."""

from collections.abc import Iterator
from typing import Final

from berthmaster.model.errors import shown
from berthmaster.model.taint import EFFECTS
from webhook.admission.field_problem import FieldProblem
from webhook.admission.rules.rule import ReviewedPolicy, rule

_TOLERATIONS: Final = "spec.placement.clusterTolerations"


@rule("toleration-of-everything", "A toleration without a key that tolerates every taint.")
def _everything(reviewed: ReviewedPolicy) -> Iterator[FieldProblem]:
    for index, toleration in enumerate(reviewed.policy.spec.placement.cluster_tolerations):
        if toleration.operator != "Exists" or toleration.key:
            continue
        if toleration.effect in {"", "NoExecute", "NoSchedule"}:
            which = f"every {toleration.effect} taint" if toleration.effect else "every taint"
            yield FieldProblem(
                f"{_TOLERATIONS}[{index}]", toleration.operator,
                f"without a key it tolerates {which}, also those of failed and cordoned clusters", "set the key",
            )  # fmt: skip


@rule("toleration-without-key", "A toleration by value that matches every key.")
def _keyless(reviewed: ReviewedPolicy) -> Iterator[FieldProblem]:
    for index, toleration in enumerate(reviewed.policy.spec.placement.cluster_tolerations):
        if not toleration.key and toleration.operator in {"", "Equal"}:
            yield FieldProblem(
                f"{_TOLERATIONS}[{index}].key", toleration.key,
                f"without a key it tolerates every taint with the value {shown(toleration.value)}", "set the key",
            )  # fmt: skip


@rule("toleration-without-effect", "A toleration that tolerates nothing, or has a value that is ignored.")
def _nothing(reviewed: ReviewedPolicy) -> Iterator[FieldProblem]:
    for index, toleration in enumerate(reviewed.policy.spec.placement.cluster_tolerations):
        path = f"{_TOLERATIONS}[{index}]"
        if toleration.effect and toleration.effect not in EFFECTS:
            yield FieldProblem(
                f"{path}.effect", toleration.effect, "no taint has this effect, so it tolerates nothing",
                f"accepted are {', '.join(EFFECTS)}; an empty effect means all of them",
            )  # fmt: skip
        if toleration.operator not in {"", "Equal", "Exists", "Lt", "Gt"}:
            yield FieldProblem(
                f"{path}.operator", toleration.operator, "unknown operator, so it tolerates nothing",
                "accepted are Exists and Equal",
            )  # fmt: skip
        elif toleration.operator == "Exists" and toleration.value:
            yield FieldProblem(
                f"{path}.value", toleration.value, "operator Exists ignores the value",
                "remove it, or use operator Equal",
            )  # fmt: skip


TOLERATION_RULES: Final = (_everything, _keyless, _nothing)
