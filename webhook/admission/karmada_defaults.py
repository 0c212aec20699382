"""The defaults of Karmada's policies (karmada ``pkg/webhook/propagationpolicy/mutating.go``).

Each function changes a draft of a document. ``lenient_policy.read`` has accepted the shape of the document. All
functions are idempotent, and raise PatchTooLargeError if too many objects of a list need defaults.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from berthmaster.model.claims import PERMANENT_ID
from webhook.admission.json_patch import Draft

GRACE_PERIOD_S: Final = 600


_SERVICE_IMPORT: Final = ("multicluster.x-k8s.io/v1alpha1", "ServiceImport")


_CONSTRAINT_DEFAULTS: Final[Mapping[tuple[bool, bool], Mapping[str, str | int]]] = {
    (False, False): {},
    (False, True): {"minGroups": 1},
    (True, False): {"spreadByField": "cluster"},
    (True, True): {"spreadByField": "cluster", "minGroups": 1},
}
"""The defaults of a spread constraint without a field and a label, and without ``minGroups``."""


_GRACEFUL_MODES: Final = ("Gracefully", "Graciously")


_FINALIZERS: Final = {
    "PropagationPolicy": "karmada.io/propagation-policy-controller",
    "ClusterPropagationPolicy": "karmada.io/cluster-propagation-policy-controller",
}


def apply_defaults(draft: Draft, namespace: str) -> None:
    """Apply the defaults of both modes. ``namespace`` is the request's; empty for a ClusterPropagationPolicy."""
    if draft.get("spec", "preemption") in (None, ""):
        draft.set("Never", "spec", "preemption")
    if draft.get("spec", "priority") is None:
        draft.set(0, "spec", "priority")
    if namespace:
        default = {"namespace": namespace}
        draft.complete(lambda each: default if not each.get("namespace") else {}, "spec", "resourceSelectors")
    _default_placement(draft)
    failover = draft.get("spec", "failover", "application") or {}
    if failover.get("purgeMode") in _GRACEFUL_MODES and failover.get("gracePeriodSeconds") is None:
        draft.set(GRACE_PERIOD_S, "spec", "failover", "application", "gracePeriodSeconds")


def set_identity(draft: Draft, *, kind: str, creating: bool, new_id: Callable[[], str]) -> None:
    """Apply the defaults that karmada-webhook sets in companion mode.

    These are ``propagateDeps`` for ServiceImports, the permanent id and the finalizer.
    """
    selectors = draft.get("spec", "resourceSelectors") or ()
    selected = {(each.get("apiVersion"), each.get("kind")) for each in selectors}
    if _SERVICE_IMPORT in selected and draft.get("spec", "propagateDeps") is not True:
        draft.set(True, "spec", "propagateDeps")  # noqa: FBT003 - a value of the document
    if not creating:
        return
    finalizer = _FINALIZERS[kind]
    # A copied manifest has the id of the original policy: a new policy always gets a new id.
    draft.set(new_id(), "metadata", "labels", PERMANENT_ID[kind])
    if finalizer not in (draft.get("metadata", "finalizers") or ()):
        draft.append(finalizer, "metadata", "finalizers")


def _default_placement(draft: Draft) -> None:
    draft.complete(_missing_in_constraint, "spec", "placement", "spreadConstraints")
    strategy = draft.get("spec", "placement", "replicaScheduling") or {}
    if strategy.get("replicaSchedulingType") == "Divided" and not strategy.get("replicaDivisionPreference"):
        draft.set("Weighted", "spec", "placement", "replicaScheduling", "replicaDivisionPreference")


def _missing_in_constraint(constraint: Mapping[str, Any]) -> Mapping[str, str | int]:
    by_cluster = not constraint.get("spreadByField") and not constraint.get("spreadByLabel")
    return _CONSTRAINT_DEFAULTS[by_cluster, not constraint.get("minGroups")]
