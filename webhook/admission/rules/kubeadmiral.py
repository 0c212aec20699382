"""Rules about KubeAdmiral's policies."""

from collections.abc import Iterator
from typing import Final

from berthmaster.model.kubeadmiral import KubeAdmiralSpec
from webhook.admission.problem import ABSENT, Problem
from webhook.admission.rules.rule import Rule


def _weight_zero(spec: KubeAdmiralSpec) -> Iterator[Problem]:
    for index, entry in enumerate(spec.placement):
        if entry.preferences.weight == 0:
            yield Problem(
                f"spec.placement[{index}].preferences.weight", 0,
                f"cluster {entry.cluster} gets no more replicas than its "
                f"minReplicas", "use 1 or more, or remove the entry",
            )  # fmt: skip


def _ignored_preferences(spec: KubeAdmiralSpec) -> Iterator[Problem]:
    divided, binpack = spec.scheduling_mode == "Divide", spec.replicas_strategy == "Binpack"
    for index, entry in enumerate(spec.placement):
        wanted, path = entry.preferences, f"spec.placement[{index}].preferences"
        if not divided and (wanted.weight, wanted.min_replicas, wanted.max_replicas) != (None, None, None):
            yield Problem(
                path, ABSENT, "in mode Duplicate every cluster gets all replicas: weights and limits have no effect",
                "set schedulingMode to Divide, or remove them",
            )  # fmt: skip
        elif divided and binpack and wanted.weight is not None:
            yield Problem(
                f"{path}.weight", wanted.weight, "Binpack fills clusters by priority and does not look at weights",
                "use priority, or replicasStrategy Spread",
            )  # fmt: skip
        elif divided and not binpack and wanted.priority is not None and spec.max_clusters is None:
            yield Problem(
                f"{path}.priority", wanted.priority,
                "Spread divides over all clusters, whatever their priority: without maxClusters it has no effect",
                "use weight, set maxClusters, or replicasStrategy Binpack",
            )  # fmt: skip


def _binpack_duplicate(spec: KubeAdmiralSpec) -> Iterator[Problem]:
    if spec.scheduling_mode == "Duplicate" and spec.replicas_strategy == "Binpack":
        yield Problem(
            "spec.replicasStrategy", "Binpack", "mode Duplicate divides nothing, so the strategy has no effect",
            "set schedulingMode to Divide, or remove it",
        )  # fmt: skip


def _binpack_without_priority(spec: KubeAdmiralSpec) -> Iterator[Problem]:
    if spec.scheduling_mode != "Divide" or spec.replicas_strategy != "Binpack" or len(spec.placement) <= 1:
        return
    priorities = [entry.preferences.priority or 0 for entry in spec.placement]
    if len(set(priorities)) == 1:
        yield Problem(
            "spec.placement", ABSENT, "all clusters have the same priority: Binpack fills them in the order of "
                                      "their names",
            "give them priorities",
        )  # fmt: skip


def _nothing_to_divide(spec: KubeAdmiralSpec) -> Iterator[Problem]:
    for index, entry in enumerate(spec.placement):
        if entry.preferences.max_replicas == 0 and spec.scheduling_mode == "Divide":
            yield Problem(
                f"spec.placement[{index}].preferences.maxReplicas", 0, f"cluster {entry.cluster} never gets a replica",
                "remove the entry, or raise maxReplicas",
            )  # fmt: skip


def _too_many_clusters(spec: KubeAdmiralSpec) -> Iterator[Problem]:
    if spec.max_clusters is not None and 0 < len(spec.placement) < spec.max_clusters:
        yield Problem(
            "spec.maxClusters", spec.max_clusters, f"only {len(spec.placement)} clusters are listed, so the limit "
                                                   f"has no effect",
            "lower it, or list more clusters",
        )  # fmt: skip


def _never_rescheduled(spec: KubeAdmiralSpec) -> Iterator[Problem]:
    policy = spec.reschedule_policy
    if policy is not None and policy.disable_rescheduling:
        yield Problem(
            "spec.reschedulePolicy.disableRescheduling", policy.disable_rescheduling,
            "objects stay where they are first placed, and a change of replicas changes no cluster's number",
            "set it to false unless that is what you want",
        )  # fmt: skip


RULES: Final = (
    Rule("kubeadmiral-weight-zero", "A weight of 0, which keeps replicas away.", _weight_zero),
    Rule("kubeadmiral-preferences-ignored", "Preferences that the mode or strategy does not "
                                            "look at.", _ignored_preferences),
    Rule("kubeadmiral-binpack-duplicate", "`Binpack` in mode `Duplicate`.", _binpack_duplicate),
    Rule("kubeadmiral-binpack-order", "`Binpack` over clusters of equal priority.", _binpack_without_priority),
    Rule("kubeadmiral-max-replicas-zero", "A cluster that is listed and may get nothing.", _nothing_to_divide),
    Rule("kubeadmiral-max-clusters-idle", "`maxClusters` above the number of clusters that are "
                                          "listed.", _too_many_clusters),
    Rule("kubeadmiral-sticky", "Rescheduling is disabled, which freezes replica numbers as well.", _never_rescheduled),
)  # fmt: skip
