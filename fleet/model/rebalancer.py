"""Karmada's WorkloadRebalancer (``apps.karmada.io/v1alpha1``): workloads that are to be scheduled afresh."""

from fleet.model.base import Int32, Value
from fleet.model.meta import ObjectMeta


class RebalancedWorkload(Value, frozen=True):
    """One workload that it names. Whether ``namespace`` belongs there depends on the kind's scope."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""


class RebalancerSpec(Value, frozen=True):
    """Which workloads, and how long the object stays once all are done; None keeps it."""

    workloads: tuple[RebalancedWorkload, ...] = ()
    ttl_seconds_after_finished: Int32 | None = None


class WorkloadRebalancer(Value, frozen=True):
    """A request to schedule workloads afresh."""

    spec: RebalancerSpec = RebalancerSpec()
    metadata: ObjectMeta = ObjectMeta()
    api_version: str = "apps.karmada.io/v1alpha1"
    kind: str = "WorkloadRebalancer"
