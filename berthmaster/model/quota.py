"""Karmada's FederatedResourceQuota (``policy.karmada.io/v1alpha1``), reduced to what schedulers look at."""

from berthmaster.model.meta import ObjectMeta, Value
from berthmaster.model.quantity import Quantity


class FederatedResourceQuotaSpec(Value, frozen=True):
    """The limits of a namespace, over all clusters, by resource."""

    overall: dict[str, Quantity] | None = None


class FederatedResourceQuotaStatus(Value, frozen=True):
    """What the bindings of a namespace use, by resource."""

    overall_used: dict[str, Quantity] | None = None


class FederatedResourceQuota(Value, frozen=True):
    """A quota. karmada-webhook refuses assignments above it."""

    metadata: ObjectMeta
    spec: FederatedResourceQuotaSpec = FederatedResourceQuotaSpec()
    status: FederatedResourceQuotaStatus = FederatedResourceQuotaStatus()


def is_looser(before: FederatedResourceQuota, after: FederatedResourceQuota | None) -> bool:
    """Whether an assignment may pass after a change of a quota that did not pass before it."""
    if after is None:
        return True
    old, new = before.spec.overall or {}, after.spec.overall or {}
    if any(name not in new or new[name].nanos > limit.nanos for name, limit in old.items()):
        return True
    used, use = before.status.overall_used or {}, after.status.overall_used or {}
    return any(name not in use or use[name].nanos < amount.nanos for name, amount in used.items())
