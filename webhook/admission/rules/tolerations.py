"""Rules about tolerations."""

from collections.abc import Iterator
from typing import Final

from berthmaster.model.cluster import EFFECTS
from webhook.admission.problem import Problem
from webhook.admission.rules.rule import PolicyChange, Rule

_PATH: Final = "spec.placement.clusterTolerations"


def _everything(change: PolicyChange) -> Iterator[Problem]:
    for index, toleration in enumerate(change.policy.spec.placement.cluster_tolerations):
        if (
            toleration.operator == "Exists"
            and not toleration.key
            and toleration.effect in {"", "NoExecute", "NoSchedule"}
        ):
            which = f"every {toleration.effect} taint" if toleration.effect else "every taint"
            yield Problem(
                f"{_PATH}[{index}]", toleration.operator,
                f"without a key it tolerates {which}, those of failed and cordoned clusters included",
                "name the key that is meant",
            )  # fmt: skip


def _keyless(change: PolicyChange) -> Iterator[Problem]:
    for index, toleration in enumerate(change.policy.spec.placement.cluster_tolerations):
        if not toleration.key and toleration.operator in {"", "Equal"}:
            yield Problem(
                f"{_PATH}[{index}].key", toleration.key,
                f"without a key it tolerates every taint whose value is "
                f"{toleration.value!r}", "name the key that is meant",
            )  # fmt: skip


def _nothing(change: PolicyChange) -> Iterator[Problem]:
    for index, toleration in enumerate(change.policy.spec.placement.cluster_tolerations):
        if toleration.effect and toleration.effect not in EFFECTS:
            yield Problem(
                f"{_PATH}[{index}].effect", toleration.effect, "no taint has this effect, so nothing is tolerated",
                f"accepted are {', '.join(EFFECTS)} and nothing, which means all",
            )  # fmt: skip
        if toleration.operator not in {"", "Equal", "Exists", "Lt", "Gt"}:
            yield Problem(
                f"{_PATH}[{index}].operator", toleration.operator, "unknown, so nothing is tolerated",
                "accepted are Exists and Equal",
            )  # fmt: skip
        elif toleration.operator == "Exists" and toleration.value:
            yield Problem(
                f"{_PATH}[{index}].value", toleration.value, "operator Exists does not look at the value",
                "remove it, or use operator Equal",
            )  # fmt: skip


RULES: Final = (
    Rule("toleration-of-everything", "A toleration without a key that tolerates every taint.", _everything),
    Rule("toleration-without-key", "A toleration by value alone, whatever the key.", _keyless),
    Rule(
        "toleration-without-effect",
        "A toleration that can tolerate nothing, or a value that is not looked at.",
        _nothing,
    ),
)
