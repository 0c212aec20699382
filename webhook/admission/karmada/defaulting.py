"""Defaults of Karmada's policies (karmada ``pkg/webhook/propagationpolicy/mutating.go``).

Each function changes a draft of a document whose shape ``policy.read`` has accepted. All are idempotent.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from webhook.admission.patch import Draft

GRACE_PERIOD_S: Final = 600
_SERVICE_IMPORT: Final = ("multicluster.x-k8s.io/v1alpha1", "ServiceImport")
_IDENTITY: Final = {
    "PropagationPolicy": ("propagationpolicy.karmada.io/permanent-id", "karmada.io/propagation-policy-controller"),
    "ClusterPropagationPolicy": (
        "clusterpropagationpolicy.karmada.io/permanent-id", "karmada.io/cluster-propagation-policy-controller",
    ),
}  # fmt: skip


def permanent_id_label(kind: str) -> str:
    """The label that says for good which policy this is."""
    return _IDENTITY[kind][0]


def apply_defaults(draft: Draft, namespace: str) -> None:
    """What is defaulted in every mode. ``namespace`` is the request's; empty for a ClusterPropagationPolicy."""
    if draft.get("spec", "preemption") in (None, ""):
        draft.set("Never", "spec", "preemption")
    if draft.get("spec", "priority") is None:
        draft.set(0, "spec", "priority")
    if namespace:
        for index, selector in _objects(draft, "spec", "resourceSelectors"):
            if not selector.get("namespace"):
                draft.set(namespace, "spec", "resourceSelectors", index, "namespace")
    _default_placement(draft)
    _default_grace_period(draft)


def take_charge(draft: Draft, *, kind: str, creating: bool, new_id: Callable[[], str]) -> None:
    """What is left to karmada-webhook where there is one: dependencies of imports, the permanent id, the finalizer."""
    selected = {(each.get("apiVersion"), each.get("kind")) for _, each in _objects(draft, "spec", "resourceSelectors")}
    if _SERVICE_IMPORT in selected and draft.get("spec", "propagateDeps") is not True:
        draft.set(True, "spec", "propagateDeps")  # noqa: FBT003 - a value of the document
    if not creating:
        return
    label, finalizer = _IDENTITY[kind]
    # A copied manifest carries the id of the policy it was copied from: a new policy always gets its own.
    draft.set(new_id(), "metadata", "labels", label)
    if finalizer not in (draft.get("metadata", "finalizers") or ()):
        draft.append(finalizer, "metadata", "finalizers")


def _default_placement(draft: Draft) -> None:
    for index, constraint in _objects(draft, "spec", "placement", "spreadConstraints"):
        here = ("spec", "placement", "spreadConstraints", index)
        if not constraint.get("spreadByField") and not constraint.get("spreadByLabel"):
            draft.set("cluster", *here, "spreadByField")
        if not constraint.get("minGroups"):
            draft.set(1, *here, "minGroups")
    division = draft.get("spec", "placement", "replicaScheduling") or {}
    undecided = not division.get("replicaDivisionPreference")
    if division.get("replicaSchedulingType") == "Divided" and undecided:
        draft.set("Weighted", "spec", "placement", "replicaScheduling", "replicaDivisionPreference")


def _default_grace_period(draft: Draft) -> None:
    failover = draft.get("spec", "failover", "application") or {}
    if failover.get("purgeMode") == "Gracefully" and failover.get("gracePeriodSeconds") is None:
        draft.set(GRACE_PERIOD_S, "spec", "failover", "application", "gracePeriodSeconds")


def _objects(draft: Draft, *tokens: str) -> Iterator[tuple[int, dict[str, Any]]]:
    yield from enumerate(draft.get(*tokens) or ())
