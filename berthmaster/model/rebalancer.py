"""Karmada's WorkloadRebalancer (``apps.karmada.io/v1alpha1``): workloads that are to be scheduled afresh."""

from typing import Final

from berthmaster.model.meta import Int32, Int64, ObjectMeta, Timestamp, Value

SUCCESSFUL: Final = "Successful"
FAILED: Final = "Failed"
BINDING_NOT_FOUND: Final = "ReferencedBindingNotFound"
"""The one reason for which a workload fails for good."""


class RebalancedWorkload(Value, frozen=True):
    """One workload that it names. Whether ``namespace`` belongs there depends on the kind's scope."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        place = f"{self.namespace}/" if self.namespace else ""
        return f"{self.api_version} {self.kind} {place}{self.name}"


class RebalancerSpec(Value, frozen=True):
    """Which workloads, and how long the object stays once all are done; None keeps it."""

    workloads: tuple[RebalancedWorkload, ...] = ()
    ttl_seconds_after_finished: Int32 | None = None


class ObservedWorkload(Value, frozen=True):
    """What became of a workload: ``SUCCESSFUL``, ``FAILED`` with a reason, or nothing yet (empty)."""

    workload: RebalancedWorkload
    result: str = ""
    reason: str = ""

    @property
    def open(self) -> bool:
        """Whether there is still something to do about it."""
        return self.result not in (SUCCESSFUL, FAILED)


class RebalancerStatus(Value, frozen=True):
    """What became of all of them, for which generation of the spec, and when the last one was done."""

    observed_generation: Int64 = 0
    observed_workloads: tuple[ObservedWorkload, ...] = ()
    finish_time: Timestamp | None = None


class WorkloadRebalancer(Value, frozen=True):
    """A request to schedule workloads afresh."""

    spec: RebalancerSpec = RebalancerSpec()
    metadata: ObjectMeta = ObjectMeta()
    status: RebalancerStatus = RebalancerStatus()
    api_version: str = "apps.karmada.io/v1alpha1"
    kind: str = "WorkloadRebalancer"
