"""KubeAdmiral's policies: defaults, checks and rules. KubeAdmiral itself has no webhook for them.

The checks deny policies that KubeAdmiral's scheduler cannot process or reads in an unexpected way.
"""

from collections.abc import Iterator
from typing import Final

from berthmaster.model.kubeadmiral.policies import DesiredPlacement, KubeAdmiralSpec, missing_defaults
from berthmaster.model.selector import (
    NODE_OPERATORS,
    SelectorRequirement,
    is_label_key,
    is_label_value,
    requirement_error,
)
from berthmaster.model.taint import EFFECTS, NO_EXECUTE, Toleration
from webhook.admission.field_problem import ABSENT, FieldProblem
from webhook.admission.json_patch import Draft
from webhook.admission.rules.rule import AdmissionRule, rule
from webhook.admission.schema import GO_DURATION

MAX_WEIGHT: Final = 100
_FIELD_OPERATORS: Final = ("In", "NotIn")


def apply_defaults(draft: Draft) -> None:
    """Apply the defaults of the CRD and of KubeAdmiral's documentation.

    A ``reschedulePolicy`` without ``rescheduleWhen`` gets the documented values. The CRD leaves the field empty, which
    the scheduler reads as "never".
    """
    for path, value in list(missing_defaults(draft.get("spec") or {}, documented=True)):
        draft.set(value, "spec", *path)


def check_spec(spec: KubeAdmiralSpec) -> Iterator[FieldProblem]:
    """Yield every problem of a spec that the schema of the API server accepts."""
    if spec.max_clusters is not None and spec.max_clusters <= 0:
        effect = "places nothing" if spec.max_clusters == 0 else "every scheduling attempt fails"
        yield FieldProblem(
            "spec.maxClusters", spec.max_clusters, effect, "use 1 or more, or remove the field for no limit"
        )
    yield from _check_cluster_selector(spec.cluster_selector)
    yield from _check_affinity(spec)
    for index, toleration in enumerate(spec.tolerations):
        yield from _check_toleration(toleration, f"spec.tolerations[{index}]")
    yield from _check_placement(spec.placement)
    yield from _check_migration(spec)


def _check_cluster_selector(selector: dict[str, str]) -> Iterator[FieldProblem]:
    for key, value in selector.items():
        if not is_label_key(key) or not is_label_value(value):
            yield FieldProblem(
                f"spec.clusterSelector[{key}]", value, "no cluster can have this label", "correct the key or the value"
            )


def _check_affinity(spec: KubeAdmiralSpec) -> Iterator[FieldProblem]:
    for index, term in enumerate(spec.cluster_affinity):
        path = f"spec.clusterAffinity[{index}]"
        if not term.match_expressions and not term.match_fields:
            yield FieldProblem(
                path, ABSENT, "an empty term matches no cluster", "add an expression, or remove the term"
            )
        for place, expression in enumerate(term.match_expressions):
            error = requirement_error(expression, NODE_OPERATORS)
            if error is not None:
                yield FieldProblem(
                    f"{path}.matchExpressions[{place}]", ABSENT,
                    f"{error.problem}, so no cluster matches, whatever the other terms select",
                    "correct the expression",
                )  # fmt: skip
        for place, expression in enumerate(term.match_fields):
            yield from _check_field(expression, f"{path}.matchFields[{place}]")


def _check_field(expression: SelectorRequirement, path: str) -> Iterator[FieldProblem]:
    if expression.key != "metadata.name":
        yield FieldProblem(f"{path}.key", expression.key, "unknown field", "accepted is metadata.name")
    if expression.operator not in _FIELD_OPERATORS:
        yield FieldProblem(
            f"{path}.operator", expression.operator, "not supported for fields", "accepted are In and NotIn"
        )
    elif len(expression.values) != 1:
        yield FieldProblem(f"{path}.values", len(expression.values), "a field takes one value", "set exactly one value")


def _check_toleration(toleration: Toleration, path: str) -> Iterator[FieldProblem]:
    if toleration.key and not is_label_key(toleration.key):
        yield FieldProblem(f"{path}.key", toleration.key, "no taint can have this key", "correct it")
    if toleration.operator not in {"", "Equal", "Exists"}:
        yield FieldProblem(f"{path}.operator", toleration.operator, "unknown", "accepted are Exists and Equal")
    elif toleration.operator == "Exists" and toleration.value:
        yield FieldProblem(
            f"{path}.value", toleration.value, "operator Exists takes no value", "remove it, or use Equal"
        )
    elif toleration.operator != "Exists" and not toleration.key:
        yield FieldProblem(
            f"{path}.operator", toleration.operator or ABSENT, "must be Exists without a key", "set the key"
        )
    if toleration.effect and toleration.effect not in EFFECTS:
        yield FieldProblem(f"{path}.effect", toleration.effect, "unknown", f"accepted are {', '.join(EFFECTS)}")
    if toleration.toleration_seconds is not None and toleration.effect != NO_EXECUTE:
        yield FieldProblem(
            f"{path}.effect", toleration.effect or ABSENT, "tolerationSeconds requires effect NoExecute",
            "set the effect, or remove tolerationSeconds",
        )  # fmt: skip


def _check_placement(placement: tuple[DesiredPlacement, ...]) -> Iterator[FieldProblem]:
    seen: dict[str, int] = {}
    for index, entry in enumerate(placement):
        path = f"spec.placement[{index}]"
        if not entry.cluster:
            yield FieldProblem(f"{path}.cluster", ABSENT, "required", "name a cluster")
        elif entry.cluster in seen:
            yield FieldProblem(
                f"{path}.cluster", entry.cluster, f"entry {seen[entry.cluster]} names this cluster too", "merge the two"
            )
        seen.setdefault(entry.cluster, index)
        yield from _check_preferences(entry, f"{path}.preferences")


def _check_preferences(entry: DesiredPlacement, path: str) -> Iterator[FieldProblem]:
    wanted = entry.preferences
    if wanted.weight is not None and not 0 <= wanted.weight <= MAX_WEIGHT:
        yield FieldProblem(f"{path}.weight", wanted.weight, "out of range", f"use 0 to {MAX_WEIGHT}")
    if wanted.max_replicas is not None and (wanted.min_replicas or 0) > wanted.max_replicas >= 0:
        yield FieldProblem(
            f"{path}.minReplicas", wanted.min_replicas, f"above maxReplicas {wanted.max_replicas}",
            "lower it, or raise maxReplicas",
        )  # fmt: skip


def _check_migration(spec: KubeAdmiralSpec) -> Iterator[FieldProblem]:
    trigger = spec.auto_migration.when if spec.auto_migration is not None else None
    text = trigger.pod_unschedulable_for if trigger is not None else ""
    path = "spec.autoMigration.when.podUnschedulableFor"
    if text and GO_DURATION.fullmatch(text) is None:
        yield FieldProblem(path, text, "not a duration", 'use a format such as "90s" or "1h30m"')
    elif text.startswith("-"):
        yield FieldProblem(path, text, "negative", "use a positive duration")


@rule("kubeadmiral-weight-zero", "A weight of 0: the cluster gets only its minimum.")
def _weight_zero(spec: KubeAdmiralSpec) -> Iterator[FieldProblem]:
    for index, entry in enumerate(spec.placement):
        if entry.preferences.weight == 0:
            yield FieldProblem(
                f"spec.placement[{index}].preferences.weight", 0,
                f"cluster {entry.cluster} gets no more replicas than its minReplicas",
                "use 1 or more, or remove the entry",
            )  # fmt: skip


@rule("kubeadmiral-preferences-ignored", "Preferences that the mode or strategy ignores.")
def _ignored_preferences(spec: KubeAdmiralSpec) -> Iterator[FieldProblem]:
    divided, binpack = spec.scheduling_mode == "Divide", spec.replicas_strategy == "Binpack"
    for index, entry in enumerate(spec.placement):
        wanted, path = entry.preferences, f"spec.placement[{index}].preferences"
        if not divided and (wanted.weight, wanted.min_replicas, wanted.max_replicas) != (None, None, None):
            yield FieldProblem(
                path, ABSENT, "weights and limits have no effect in mode Duplicate: every cluster gets all replicas",
                "set schedulingMode to Divide, or remove them",
            )  # fmt: skip
        elif divided and binpack and wanted.weight is not None:
            yield FieldProblem(
                f"{path}.weight", wanted.weight, "Binpack fills clusters by priority and ignores weights",
                "use priority, or replicasStrategy Spread",
            )  # fmt: skip
        elif divided and not binpack and wanted.priority is not None and spec.max_clusters is None:
            yield FieldProblem(
                f"{path}.priority", wanted.priority,
                "no effect without maxClusters: Spread divides over all clusters and ignores priorities",
                "use weight, set maxClusters, or use replicasStrategy Binpack",
            )  # fmt: skip


@rule("kubeadmiral-binpack-duplicate", "`Binpack` in mode `Duplicate`.")
def _binpack_duplicate(spec: KubeAdmiralSpec) -> Iterator[FieldProblem]:
    if spec.scheduling_mode == "Duplicate" and spec.replicas_strategy == "Binpack":
        yield FieldProblem(
            "spec.replicasStrategy", "Binpack", "mode Duplicate divides no replicas, so the strategy has no effect",
            "set schedulingMode to Divide, or remove the strategy",
        )  # fmt: skip


@rule("kubeadmiral-binpack-order", "`Binpack` over clusters of equal priority.")
def _binpack_without_priority(spec: KubeAdmiralSpec) -> Iterator[FieldProblem]:
    if spec.scheduling_mode != "Divide" or spec.replicas_strategy != "Binpack" or len(spec.placement) <= 1:
        return
    priorities = [entry.preferences.priority or 0 for entry in spec.placement]
    if len(set(priorities)) == 1:
        yield FieldProblem(
            "spec.placement", ABSENT, "all clusters have the same priority, so Binpack fills them by name",
            "set different priorities",
        )  # fmt: skip


@rule("kubeadmiral-max-replicas-zero", "A listed cluster that gets no replicas.")
def _nothing_to_divide(spec: KubeAdmiralSpec) -> Iterator[FieldProblem]:
    for index, entry in enumerate(spec.placement):
        if entry.preferences.max_replicas == 0 and spec.scheduling_mode == "Divide":
            yield FieldProblem(
                f"spec.placement[{index}].preferences.maxReplicas", 0, f"cluster {entry.cluster} never gets a replica",
                "remove the entry, or raise maxReplicas",
            )  # fmt: skip


@rule("kubeadmiral-max-clusters-idle", "`maxClusters` above the number of listed clusters.")
def _too_many_clusters(spec: KubeAdmiralSpec) -> Iterator[FieldProblem]:
    if spec.max_clusters is not None and 0 < len(spec.placement) < spec.max_clusters:
        yield FieldProblem(
            "spec.maxClusters", spec.max_clusters,
            f"only {len(spec.placement)} clusters are listed, so the limit has no effect",
            "lower it, or list more clusters",
        )  # fmt: skip


@rule("kubeadmiral-sticky", "Rescheduling is disabled, which also keeps the replicas of each cluster.")
def _never_rescheduled(spec: KubeAdmiralSpec) -> Iterator[FieldProblem]:
    policy = spec.reschedule_policy
    if policy is not None and policy.disable_rescheduling:
        yield FieldProblem(
            "spec.reschedulePolicy.disableRescheduling", policy.disable_rescheduling,
            "objects keep their first clusters, and scaling changes the replicas of no cluster",
            "set it to false unless this is intended",
        )  # fmt: skip


KUBEADMIRAL_RULES: Final[tuple[AdmissionRule[KubeAdmiralSpec], ...]] = (
    _weight_zero,
    _ignored_preferences,
    _binpack_duplicate,
    _binpack_without_priority,
    _nothing_to_divide,
    _too_many_clusters,
    _never_rescheduled,
)
