"""Defaults of KubeAdmiral's policies: those of the CRD, and the documented ones that the CRD leaves open."""

from berthmaster.model.kubeadmiral import missing_defaults
from webhook.admission.patch import Draft


def apply_defaults(draft: Draft) -> None:
    """Complete a policy's spec.

    A ``reschedulePolicy`` that is given without ``rescheduleWhen`` gets the documented values: the CRD leaves it
    empty, which the scheduler reads as "never".
    """
    for path, value in list(missing_defaults(draft.get("spec") or {}, documented=True)):
        draft.set(value, "spec", *path)
