"""The review of WorkloadRebalancers, which karmada-webhook does not look at."""

from collections.abc import Iterator

from berthmaster.model.kinds import Scope
from berthmaster.model.rebalancer import RebalancedWorkload, RebalancerSpec
from webhook.admission.problem import ABSENT, Problem
from webhook.admission.settings import Settings


def check_spec(spec: RebalancerSpec, settings: Settings) -> Iterator[Problem]:
    """Everything wrong with a spec."""
    if not spec.workloads:
        yield Problem("spec.workloads", ABSENT, "there is nothing to rebalance", "list at least one workload")
    ttl_s = spec.ttl_seconds_after_finished
    if ttl_s is not None and ttl_s < 0:
        yield Problem(
            "spec.ttlSecondsAfterFinished",
            ttl_s,
            "a duration cannot be negative",
            "use 0 or more, or leave it out",
        )
    seen: dict[RebalancedWorkload, int] = {}
    for index, workload in enumerate(spec.workloads):
        path = f"spec.workloads[{index}]"
        yield from _check_workload(workload, path, settings)
        if workload in seen:
            yield Problem(path, workload.name, f"it repeats entry {seen[workload]}", "remove it")
        seen.setdefault(workload, index)


def _check_workload(workload: RebalancedWorkload, path: str, settings: Settings) -> Iterator[Problem]:
    for field, value in (
        ("apiVersion", workload.api_version),
        ("kind", workload.kind),
        ("name", workload.name),
    ):
        if not value:
            yield Problem(f"{path}.{field}", ABSENT, "required", "say which workload is meant")
    scope = settings.scope(workload.api_version, workload.kind)
    if scope is Scope.NAMESPACED and not workload.namespace:
        yield Problem(
            f"{path}.namespace",
            ABSENT,
            f"{workload.kind} lives in a namespace",
            "add the workload's namespace",
        )
    if scope is Scope.CLUSTER and workload.namespace:
        yield Problem(
            f"{path}.namespace",
            workload.namespace,
            f"{workload.kind} is cluster-scoped",
            "remove the namespace",
        )


def unknown_scopes(spec: RebalancerSpec, settings: Settings) -> Iterator[Problem]:
    """Workloads of kinds whose scope is not known."""
    for index, workload in enumerate(spec.workloads):
        if workload.kind and not workload.namespace and settings.scope(workload.api_version, workload.kind) is None:
            yield Problem(
                f"spec.workloads[{index}].namespace", ABSENT,
                f"whether {workload.kind} of {workload.api_version} lives in a namespace is not known; if so, it "
                f"is not found",
                "add the namespace, or tell the webhook the scope of this kind",
            )  # fmt: skip
