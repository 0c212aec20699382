"""The defaults of Karmada's CRDs: the API server has applied them before it asks a webhook, nobody to a manifest."""

from webhook.admission.patch import Draft

_TOLERATION_S = 300


def apply_schema_defaults(draft: Draft) -> None:
    """Complete a policy's spec as the API server does."""
    if draft.get("spec") is None:
        return
    _default(draft, "default-scheduler", "spec", "schedulerName")
    _default(draft, "Abort", "spec", "conflictResolution")
    if isinstance(draft.get("spec", "placement", "replicaScheduling"), dict):
        _default(draft, "Divided", "spec", "placement", "replicaScheduling", "replicaSchedulingType")
    if isinstance(draft.get("spec", "failover", "application"), dict):
        _default(draft, "Gracefully", "spec", "failover", "application", "purgeMode")
        if isinstance(draft.get("spec", "failover", "application", "decisionConditions"), dict):
            path = ("spec", "failover", "application", "decisionConditions", "tolerationSeconds")
            _default(draft, _TOLERATION_S, *path)
    if isinstance(draft.get("spec", "failover", "cluster"), dict):
        _default(draft, "Gracefully", "spec", "failover", "cluster", "purgeMode")


def _default(draft: Draft, value: str | int, *tokens: str) -> None:
    if draft.get(*tokens) is None:
        draft.set(value, *tokens)
