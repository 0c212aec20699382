"""Karmada's WorkloadRebalancer (``apps.karmada.io/v1alpha1``): a request to schedule workloads again."""

from typing import Final

from berthmaster.model.meta import Int32, Int64, ObjectMeta, Timestamp, Value, object_name

SUCCESSFUL: Final = "Successful"
FAILED: Final = "Failed"
BINDING_NOT_FOUND: Final = "ReferencedBindingNotFound"
"""The only reason for which a workload fails permanently."""


class RebalancedWorkload(Value, frozen=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        return f"{self.api_version} {self.kind} {object_name(self.namespace, self.name)}"


class RebalancerSpec(Value, frozen=True):
    """The workloads, and the time for which the finished object is kept; None keeps it forever."""

    workloads: tuple[RebalancedWorkload, ...] = ()
    ttl_seconds_after_finished: Int32 | None = None


class ObservedWorkload(Value, frozen=True):
    """The result for a workload: ``SUCCESSFUL``, ``FAILED`` with a reason, or empty while it is pending."""

    workload: RebalancedWorkload
    result: str = ""
    reason: str = ""

    @property
    def open(self) -> bool:
        return self.result not in (SUCCESSFUL, FAILED)


class RebalancerStatus(Value, frozen=True):
    """The results, the generation of the spec that they belong to, and the time of the last result."""

    observed_generation: Int64 = 0
    observed_workloads: tuple[ObservedWorkload, ...] = ()
    finish_time: Timestamp | None = None


class WorkloadRebalancer(Value, frozen=True):
    spec: RebalancerSpec = RebalancerSpec()
    metadata: ObjectMeta = ObjectMeta()
    status: RebalancerStatus = RebalancerStatus()
    api_version: str = "apps.karmada.io/v1alpha1"
    kind: str = "WorkloadRebalancer"
