"""The review of WorkloadRebalancers: its checks and its rule. karmada-webhook does not review this kind."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from berthmaster.model.kinds import Scope
from berthmaster.model.rebalancer import RebalancedWorkload, RebalancerSpec
from webhook.admission.context import AdmissionContext
from webhook.admission.field_problem import ABSENT, FieldProblem, bounded
from webhook.admission.review_outcome import ReviewOutcome
from webhook.admission.reviews import outcome_of, spec_of
from webhook.admission.rules.rule import AdmissionRule, rule
from webhook.admission.settings import AdmissionSettings
from webhook.admission.wire import AdmissionRequest


class ReviewedRebalancer(NamedTuple):
    """The subject of the rule about WorkloadRebalancers."""

    spec: RebalancerSpec
    settings: AdmissionSettings


def validate_rebalancer(request: AdmissionRequest, context: AdmissionContext) -> ReviewOutcome:
    """Run the checks and the rules on a WorkloadRebalancer."""
    spec = spec_of(RebalancerSpec, request.object or {})
    found = context.enabled(REBALANCER_RULES).run(ReviewedRebalancer(spec, context.settings))
    refused = bounded(check_spec(spec, context.settings))
    return outcome_of((*refused, *found.denials), found.warnings, request)


def check_spec(spec: RebalancerSpec, settings: AdmissionSettings) -> Iterator[FieldProblem]:
    """Yield every problem of a spec that the schema of the API server accepts."""
    ttl_s = spec.ttl_seconds_after_finished
    if ttl_s is not None and ttl_s < 0:
        yield FieldProblem(
            "spec.ttlSecondsAfterFinished", ttl_s, "a duration cannot be negative", "use 0 or more, or remove the field"
        )
    seen: dict[RebalancedWorkload, int] = {}
    for index, workload in enumerate(spec.workloads):
        path = f"spec.workloads[{index}]"
        yield from _check_workload(workload, path, settings)
        if workload in seen:
            yield FieldProblem(path, workload.name, f"duplicate of entry {seen[workload]}", "remove it")
        seen.setdefault(workload, index)


def _check_workload(workload: RebalancedWorkload, path: str, settings: AdmissionSettings) -> Iterator[FieldProblem]:
    named = {"apiVersion": workload.api_version, "kind": workload.kind, "name": workload.name}
    for field, value in named.items():
        if not value:
            yield FieldProblem(f"{path}.{field}", ABSENT, "required", "name the workload")
    scope = settings.scope(workload.api_version, workload.kind)
    if scope is Scope.NAMESPACED and not workload.namespace:
        yield FieldProblem(f"{path}.namespace", ABSENT, f"{workload.kind} is namespaced", "add the namespace")
    if scope is Scope.CLUSTER and workload.namespace:
        yield FieldProblem(
            f"{path}.namespace", workload.namespace, f"{workload.kind} is cluster-scoped", "remove the namespace"
        )


@rule("rebalancer-scope-unknown", "A workload of a kind of unknown scope, without a namespace.")
def _unknown_scopes(reviewed: ReviewedRebalancer) -> Iterator[FieldProblem]:
    for index, workload in enumerate(reviewed.spec.workloads):
        scope = reviewed.settings.scope(workload.api_version, workload.kind)
        if workload.kind and not workload.namespace and scope is None:
            yield FieldProblem(
                f"spec.workloads[{index}].namespace", ABSENT,
                f"the scope of {workload.kind} of {workload.api_version} is unknown; "
                "if the kind is namespaced, the workload is not found",
                "add the namespace, or configure the scope of this kind in the webhook",
            )  # fmt: skip


REBALANCER_RULES: Final[tuple[AdmissionRule[ReviewedRebalancer], ...]] = (_unknown_scopes,)
