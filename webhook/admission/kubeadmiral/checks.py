"""What is refused in KubeAdmiral's policies: what its scheduler would fail on, or silently take for something else."""

import re
from collections.abc import Iterator
from typing import Final

from berthmaster.model.cluster import EFFECTS, NO_EXECUTE, Toleration
from berthmaster.model.kubeadmiral import DesiredPlacement, KubeAdmiralSpec
from berthmaster.model.selector import (
    NODE_OPERATORS,
    SelectorRequirement,
    is_label_key,
    is_label_value,
    requirement_problem,
)
from webhook.admission.problem import ABSENT, Problem

MAX_WEIGHT: Final = 100
_MODES: Final = ("Duplicate", "Divide")
_STRATEGIES: Final = ("Spread", "Binpack")
_FIELD_OPERATORS: Final = ("In", "NotIn")
# Go's time.ParseDuration: numbers with units, without space; the whole may have a sign.
_DURATION: Final = re.compile(
    r"[+-]?(?:0|(?:(?:\d{1,18}(?:\.\d{0,18})?|\.\d{1,18})(?:ns|us|µs|μs|ms|s|m|h))+)", re.ASCII
)


def check_spec(spec: KubeAdmiralSpec) -> Iterator[Problem]:
    """Everything wrong with a spec."""
    yield from _check_enumeration("spec.schedulingMode", spec.scheduling_mode, _MODES, required=True)
    yield from _check_enumeration("spec.replicasStrategy", spec.replicas_strategy, _STRATEGIES, required=False)
    if spec.max_clusters is not None and spec.max_clusters <= 0:
        fate = "places nothing anywhere" if spec.max_clusters == 0 else "makes every scheduling attempt fail"
        yield Problem("spec.maxClusters", spec.max_clusters, fate, "use 1 or more, or leave it out for no limit")
    yield from _check_cluster_selector(spec.cluster_selector)
    yield from _check_affinity(spec)
    for index, toleration in enumerate(spec.tolerations):
        yield from _check_toleration(toleration, f"spec.tolerations[{index}]")
    yield from _check_placement(spec.placement)
    yield from _check_migration(spec)


def _check_enumeration(path: str, value: str, accepted: tuple[str, ...], *, required: bool) -> Iterator[Problem]:
    if value in accepted or (not value and not required):
        return
    yield Problem(path, value or ABSENT, "unknown" if value else "required", f"accepted are {', '.join(accepted)}")


def _check_cluster_selector(selector: dict[str, str]) -> Iterator[Problem]:
    for key, value in selector.items():
        if not is_label_key(key) or not is_label_value(value):
            yield Problem(
                f"spec.clusterSelector[{key}]",
                value,
                "no cluster can have this label",
                "correct the key or the value",
            )


def _check_affinity(spec: KubeAdmiralSpec) -> Iterator[Problem]:
    for index, term in enumerate(spec.cluster_affinity):
        path = f"spec.clusterAffinity[{index}]"
        if not term.match_expressions and not term.match_fields:
            yield Problem(path, ABSENT, "an empty term matches no cluster", "add an expression, or remove the term")
        for place, expression in enumerate(term.match_expressions):
            problem = requirement_problem(expression, NODE_OPERATORS)
            if problem is not None:
                yield Problem(
                    f"{path}.matchExpressions[{place}]", ABSENT,
                    f"{problem}: it rules out every cluster, whatever the other terms say", "correct the expression",
                )  # fmt: skip
        for place, expression in enumerate(term.match_fields):
            yield from _check_field(expression, f"{path}.matchFields[{place}]")


def _check_field(expression: SelectorRequirement, path: str) -> Iterator[Problem]:
    if expression.key != "metadata.name":
        yield Problem(f"{path}.key", expression.key, "no such field", "accepted is metadata.name")
    if expression.operator not in _FIELD_OPERATORS:
        yield Problem(f"{path}.operator", expression.operator, "not supported for fields", "accepted are In and NotIn")
    elif len(expression.values) != 1:
        yield Problem(
            f"{path}.values", len(expression.values), "a field is compared with one value", "give exactly one"
        )


def _check_toleration(toleration: Toleration, path: str) -> Iterator[Problem]:
    if toleration.key and not is_label_key(toleration.key):
        yield Problem(f"{path}.key", toleration.key, "no taint can have this key", "correct it")
    if toleration.operator not in {"", "Equal", "Exists"}:
        yield Problem(f"{path}.operator", toleration.operator, "unknown", "accepted are Exists and Equal")
    elif toleration.operator == "Exists" and toleration.value:
        yield Problem(f"{path}.value", toleration.value, "operator Exists takes no value", "remove it, or use Equal")
    elif toleration.operator != "Exists" and not toleration.key:
        yield Problem(
            f"{path}.operator",
            toleration.operator or ABSENT,
            "without a key it has to be Exists",
            "name the key",
        )
    if toleration.effect and toleration.effect not in EFFECTS:
        yield Problem(f"{path}.effect", toleration.effect, "unknown", f"accepted are {', '.join(EFFECTS)}")
    if toleration.toleration_seconds is not None and toleration.effect != NO_EXECUTE:
        yield Problem(
            f"{path}.effect", toleration.effect or ABSENT, "tolerationSeconds goes with effect NoExecute only",
            "set the effect, or remove tolerationSeconds",
        )  # fmt: skip


def _check_placement(placement: tuple[DesiredPlacement, ...]) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    for index, entry in enumerate(placement):
        path = f"spec.placement[{index}]"
        if not entry.cluster:
            yield Problem(f"{path}.cluster", ABSENT, "required", "name a cluster")
        elif entry.cluster in seen:
            yield Problem(
                f"{path}.cluster",
                entry.cluster,
                f"entry {seen[entry.cluster]} names this cluster too",
                "merge the two",
            )
        seen.setdefault(entry.cluster, index)
        yield from _check_preferences(entry, f"{path}.preferences")


def _check_preferences(entry: DesiredPlacement, path: str) -> Iterator[Problem]:
    wanted = entry.preferences
    for name, value in {
        "minReplicas": wanted.min_replicas,
        "maxReplicas": wanted.max_replicas,
        "priority": wanted.priority,
    }.items():
        if value is not None and value < 0:
            yield Problem(f"{path}.{name}", value, "negative", "use 0 or more")
    if wanted.weight is not None and not 0 <= wanted.weight <= MAX_WEIGHT:
        yield Problem(f"{path}.weight", wanted.weight, "out of range", f"use 0 to {MAX_WEIGHT}")
    if wanted.max_replicas is not None and (wanted.min_replicas or 0) > wanted.max_replicas >= 0:
        yield Problem(
            f"{path}.minReplicas",
            wanted.min_replicas,
            f"above maxReplicas {wanted.max_replicas}",
            "lower it, or raise maxReplicas",
        )


def _check_migration(spec: KubeAdmiralSpec) -> Iterator[Problem]:
    trigger = spec.auto_migration.when if spec.auto_migration is not None else None
    text = trigger.pod_unschedulable_for if trigger is not None else ""
    path = "spec.autoMigration.when.podUnschedulableFor"
    if text and _DURATION.fullmatch(text) is None:
        yield Problem(path, text, "not a duration", 'write it as in "90s" or "1h30m"')
    elif text.startswith("-"):
        yield Problem(path, text, "negative", "use a positive duration")
