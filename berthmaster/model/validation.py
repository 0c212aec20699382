"""Errors of decoded values that a control plane may store.

Karmada decides with selectors that match nothing and with negative amounts, so decoding accepts them. Code that reads
manifests of a user reports them, with the path in the whole document.
"""

from collections.abc import Iterable, Iterator

from berthmaster.model.affinity import ZONE, ClusterAffinity, FieldSelector
from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.errors import FieldError
from berthmaster.model.placement import Placement
from berthmaster.model.policy import Policy
from berthmaster.model.policy_defaults import DEFAULT_SCHEDULER
from berthmaster.model.quantity import negative_amounts, negative_error
from berthmaster.model.replicas import ReplicaRequirements
from berthmaster.model.selector import (
    LABEL_OPERATORS,
    NODE_OPERATORS,
    LabelSelector,
    SelectorRequirement,
    is_label_key,
    is_label_value,
    requirement_error,
)


def policy_errors(policy: Policy) -> Iterator[FieldError]:
    """Yield what is invalid in a policy. Paths start at the policy."""
    if not policy.spec.resource_selectors:
        yield FieldError("spec.resourceSelectors", "is empty; accepted are one or more selectors")
    for index, selector in enumerate(policy.spec.resource_selectors):
        if selector.label_selector is not None:
            yield from _below(
                f"spec.resourceSelectors[{index}].labelSelector",
                label_selector_errors(selector.label_selector),
            )
    yield from _below("spec.placement", placement_errors(policy.spec.placement))


def update_errors(before: Policy, after: Policy) -> Iterator[FieldError]:
    """Yield why karmada-webhook refuses a policy that replaces a stored one (``validating.go``)."""
    then, now = (each.spec.scheduler_name or DEFAULT_SCHEDULER for each in (before, after))
    if then != now:
        remedy = "create a policy with another name, then delete this one (docs/switch-over.md)"
        yield FieldError("spec.schedulerName", f"Karmada refuses a change from {then!r} to {now!r}; {remedy}")


def placement_errors(placement: Placement) -> Iterator[FieldError]:
    """Yield what is invalid in the affinities of a placement. Paths start at the placement."""
    for path, affinity in affinities(placement):
        yield from _below(path, affinity_errors(affinity))


def affinity_errors(affinity: ClusterAffinity) -> Iterator[FieldError]:
    """Yield what is invalid in an affinity. Paths start at the affinity."""
    if affinity.label_selector is not None:
        yield from _below("labelSelector", label_selector_errors(affinity.label_selector))
    if affinity.field_selector is not None:
        yield from _below("fieldSelector", _field_selector_errors(affinity.field_selector))


def label_selector_errors(selector: LabelSelector) -> Iterator[FieldError]:
    """Yield each label and expression that no API server accepts. Paths start at the selector."""
    for key, value in selector.match_labels.items():
        if not is_label_key(key):
            yield FieldError(f"matchLabels[{key}]", f"{key!r} is not a label key")
        elif not is_label_value(value):
            yield FieldError(f"matchLabels[{key}]", f"{value!r} is not a label value")
    yield from _expression_errors(selector.match_expressions, LABEL_OPERATORS)


def cluster_errors(cluster: Cluster) -> Iterator[FieldError]:
    """Yield each negative amount of a cluster. Paths start at the cluster."""
    summary = cluster.status.resource_summary
    if summary is not None:
        for name in ("allocatable", "allocating", "allocated"):
            yield from negative_amounts(f"status.resourceSummary.{name}", getattr(summary, name))
    for model_index, model in enumerate(cluster.spec.resource_models):
        for index, amounts in enumerate(model.ranges):
            path = f"spec.resourceModels[{model_index}].ranges[{index}]"
            if amounts.min.nanos < 0:
                yield negative_error(f"{path}.min", amounts.min)
            if amounts.max.nanos < 0:
                yield negative_error(f"{path}.max", amounts.max)


def binding_errors(binding: Binding) -> Iterator[FieldError]:
    """Yield each negative request of a binding. Paths start at the binding."""
    if binding.spec.replica_requirements is not None:
        yield from _request_errors("spec.replicaRequirements", binding.spec.replica_requirements)
    for index, component in enumerate(binding.spec.components):
        if component.replica_requirements is not None:
            yield from _request_errors(f"spec.components[{index}].replicaRequirements", component.replica_requirements)


def affinities(placement: Placement) -> Iterator[tuple[str, ClusterAffinity]]:
    """Yield each affinity of a placement with its path, those of static weights as well."""
    if placement.cluster_affinity is not None:
        yield "clusterAffinity", placement.cluster_affinity
    for index, group in enumerate(placement.cluster_affinities or ()):
        yield f"clusterAffinities[{index}]", group
        for overflow_index, overflow in enumerate(group.overflow_affinities or ()):
            yield f"clusterAffinities[{index}].overflowAffinities[{overflow_index}]", overflow
    strategy = placement.replica_scheduling
    if strategy is not None and strategy.weight_preference is not None:
        for index, weight in enumerate(strategy.weight_preference.static_weight_list):
            path = f"replicaScheduling.weightPreference.staticWeightList[{index}].targetCluster"
            yield path, weight.target_cluster


def _field_selector_errors(selector: FieldSelector) -> Iterator[FieldError]:
    """Yield an error for each invalid expression. A zone may be any text, but has no order (``Gt``, ``Lt``)."""
    for index, expression in enumerate(selector.match_expressions):
        operators = LABEL_OPERATORS if expression.key == ZONE else NODE_OPERATORS
        error = requirement_error(expression, operators)
        if error is not None and (expression.key != ZONE or expression.operator not in operators):
            yield error.below(f"matchExpressions[{index}]")


def _expression_errors(expressions: Iterable[SelectorRequirement], operators: tuple[str, ...]) -> Iterator[FieldError]:
    for index, expression in enumerate(expressions):
        error = requirement_error(expression, operators)
        if error is not None:
            yield error.below(f"matchExpressions[{index}]")


def _request_errors(path: str, requirements: ReplicaRequirements) -> Iterator[FieldError]:
    return negative_amounts(f"{path}.resourceRequest", requirements.resource_request)


def _below(path: str, errors: Iterable[FieldError]) -> Iterator[FieldError]:
    for error in errors:
        yield error.below(path)
