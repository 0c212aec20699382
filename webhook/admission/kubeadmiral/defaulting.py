"""Defaults of KubeAdmiral's policies: those of the CRD, and the documented ones that the CRD leaves open."""

from typing import Any, Final

from webhook.admission.patch import Draft

_RESCHEDULE_WHEN: Final[dict[str, bool]] = {
    "policyContentChanged": True,
    "clusterJoined": False,
    "clusterLabelsChanged": False,
    "clusterAPIResourcesChanged": False,
}
_RESCHEDULE_POLICY: Final[dict[str, Any]] = {
    "disableRescheduling": False,
    "rescheduleWhen": _RESCHEDULE_WHEN,
    "replicaRescheduling": {"avoidDisruption": True},
}
_AUTO_MIGRATION: Final[dict[str, Any]] = {
    "when": {"podUnschedulableFor": "1m"},
    "keepUnschedulableReplicas": False,
}


def apply_defaults(draft: Draft) -> None:
    """Complete a policy's spec.

    A ``reschedulePolicy`` that is given without ``rescheduleWhen`` gets the documented values: the CRD leaves it
    empty, which the scheduler reads as "never".
    """
    if not draft.get("spec", "replicasStrategy"):
        draft.set("Spread", "spec", "replicasStrategy")
    _complete(draft, _RESCHEDULE_POLICY, "spec", "reschedulePolicy")
    if draft.get("spec", "autoMigration") is not None:
        _complete(draft, _AUTO_MIGRATION, "spec", "autoMigration")


def _complete(draft: Draft, defaults: dict[str, Any], *tokens: str) -> None:
    """Fill in what is missing of an object, all of it in one operation where nothing is there."""
    if draft.get(*tokens) is None:
        draft.set(_copied(defaults), *tokens)
        return
    for key, value in defaults.items():
        if isinstance(value, dict):
            _complete(draft, value, *tokens, key)
        elif draft.get(*tokens, key) is None:
            draft.set(value, *tokens, key)


def _copied(defaults: dict[str, Any]) -> dict[str, Any]:
    return {key: _copied(value) if isinstance(value, dict) else value for key, value in defaults.items()}
