"""The checks of karmada-webhook on policies (karmada ``pkg/util/validation``)."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from berthmaster.model.affinity import ClusterAffinity, ClusterAffinityTerm
from berthmaster.model.division_strategy import strategy_of
from berthmaster.model.failover_behavior import ApplicationFailoverBehavior, FailoverBehavior, StatePreservation
from berthmaster.model.placement import Placement, SpreadConstraint, WorkloadAffinity
from berthmaster.model.policy import Policy, PropagationSpec, Suspension
from berthmaster.model.selector import is_label_key
from webhook.admission.field_problem import ABSENT, FieldProblem
from webhook.admission.placements import matches_every_cluster

DEFAULT_TOLERATION_S: Final = 300
_FIELDS: Final = ("provider", "region", "zone")
_FIELD_OPERATORS: Final = ("In", "NotIn")
_LABEL_KEY_REMEDY: Final = "use letters, digits and -_. inside, with an optional DNS prefix and a slash"


def check_spec(policy: Policy, namespace: str) -> Iterator[FieldProblem]:
    """Yield every problem of a spec. ``namespace`` is the policy's; empty for a ClusterPropagationPolicy."""
    yield from _check_placement(policy.spec.placement)
    if policy.spec.failover is not None:
        yield from _check_failover(policy.spec, policy.spec.failover)
    if namespace:
        yield from _check_selectors(policy.spec, namespace)
    yield from check_preemption_names(policy.spec)
    if policy.spec.suspension is not None:
        yield from _check_suspension(policy.spec.suspension)


def check_preemption_names(spec: PropagationSpec) -> Iterator[FieldProblem]:
    """With ``preemption: Always`` every selector names its resource."""
    if spec.preemption != "Always":
        return
    for index, selector in enumerate(spec.resource_selectors):
        if not selector.name:
            yield FieldProblem(
                f"spec.resourceSelectors[{index}].name", ABSENT,
                "a policy with preemption Always must name each resource",
                "name the resource, with one selector for each, or set spec.preemption to Never",
            )  # fmt: skip


def check_exclusive(placement: Placement) -> Iterator[FieldProblem]:
    """``clusterAffinity`` and ``clusterAffinities`` exclude each other; an empty list counts as set."""
    if placement.cluster_affinity is not None and placement.cluster_affinities is not None:
        yield FieldProblem(
            "spec.placement", ABSENT, "clusterAffinity and clusterAffinities exclude each other",
            "keep one of them; a single affinity can be a group of clusterAffinities",
        )  # fmt: skip


def check_group_names(placement: Placement) -> Iterator[FieldProblem]:
    """The names of groups are unique."""
    seen: set[str] = set()
    for group in placement.cluster_affinities or ():
        if group.affinity_name in seen:
            yield FieldProblem(
                "spec.placement.clusterAffinities", group.affinity_name, "two groups have this affinityName",
                "give each group a unique name",
            )  # fmt: skip
        seen.add(group.affinity_name)


def _check_selectors(spec: PropagationSpec, namespace: str) -> Iterator[FieldProblem]:
    for index, selector in enumerate(spec.resource_selectors):
        if selector.namespace != namespace:
            yield FieldProblem(
                f"spec.resourceSelectors[{index}].namespace", selector.namespace,
                "a PropagationPolicy selects resources of its own namespace only",
                f"use {namespace!r}, remove the namespace, or write a ClusterPropagationPolicy",
            )  # fmt: skip


def _check_failover(spec: PropagationSpec, failover: FailoverBehavior) -> Iterator[FieldProblem]:
    if failover.application is not None:
        if not spec.propagate_deps:
            yield FieldProblem(
                "spec.propagateDeps", spec.propagate_deps, "failover of an application requires propagateDeps",
                "set it to true, or remove spec.failover.application",
            )  # fmt: skip
        yield from _check_application(failover.application)
        yield from _check_preservation(failover.application.state_preservation, "spec.failover.application")
    if failover.cluster is not None:
        yield from _check_preservation(failover.cluster.state_preservation, "spec.failover.cluster")


def _check_application(failover: ApplicationFailoverBehavior) -> Iterator[FieldProblem]:
    seconds = failover.decision_conditions.toleration_seconds
    if (DEFAULT_TOLERATION_S if seconds is None else seconds) < 0:
        yield FieldProblem(
            "spec.failover.application.decisionConditions.tolerationSeconds", seconds,
            "a duration cannot be negative", "use 0 or more",
        )  # fmt: skip
    path, grace_s = "spec.failover.application.gracePeriodSeconds", failover.grace_period_seconds
    gracefully = failover.is_graceful
    if grace_s is None:
        if gracefully:
            yield FieldProblem(
                path, ABSENT, "purgeMode Gracefully requires a grace period", "set it, for example to 600"
            )
        return
    if not gracefully:
        yield FieldProblem(
            path, grace_s, "a grace period requires purgeMode Gracefully",
            "remove it, or set purgeMode to Gracefully",
        )  # fmt: skip
    if grace_s <= 0:
        yield FieldProblem(path, grace_s, "a grace period must be positive", "use 1 or more")


def _check_preservation(preservation: StatePreservation | None, owner: str) -> Iterator[FieldProblem]:
    for index, rule in enumerate(preservation.rules if preservation is not None else ()):
        if not is_label_key(rule.alias_label_name):
            yield FieldProblem(
                f"{owner}.statePreservation.rules[{index}].aliasLabelName", rule.alias_label_name,
                "not a label key", _LABEL_KEY_REMEDY,
            )  # fmt: skip


def _check_suspension(suspension: Suspension) -> Iterator[FieldProblem]:
    clusters = suspension.dispatching_on_clusters
    if suspension.dispatching and clusters is not None and clusters.cluster_names:
        # karmada-webhook reports this path, with the name twice.
        yield FieldProblem(
            "spec.suspension.suspension", ABSENT,
            "dispatching suspends every cluster and contradicts dispatchingOnClusters",
            "set either dispatching or dispatchingOnClusters",
        )  # fmt: skip


def _check_placement(placement: Placement) -> Iterator[FieldProblem]:
    yield from check_exclusive(placement)
    if placement.cluster_affinity is not None:
        yield from _check_field_selector(placement.cluster_affinity, "spec.placement.clusterAffinity")
    if placement.cluster_affinities:
        yield from _check_groups(placement, placement.cluster_affinities)
    if placement.spread_constraints:
        yield from _check_spread(placement.spread_constraints)
    if placement.workload_affinity is not None:
        yield from _check_workload_affinity(placement.workload_affinity)
    for index, toleration in enumerate(placement.cluster_tolerations):
        if toleration.operator in {"Lt", "Gt"}:
            yield FieldProblem(
                f"spec.placement.clusterTolerations[{index}].operator", toleration.operator,
                "not supported for the taints of clusters",
                "accepted are Exists and Equal; an empty operator means Equal",
            )  # fmt: skip


def _check_groups(placement: Placement, groups: Sequence[ClusterAffinityTerm]) -> Iterator[FieldProblem]:
    overflow_allowed = strategy_of(placement.replica_scheduling).by_capacity
    for index, group in enumerate(groups):
        path = f"spec.placement.clusterAffinities[{index}]"
        if not is_label_key(group.affinity_name):
            yield FieldProblem(path, group.affinity_name, "affinityName is not a label key", _LABEL_KEY_REMEDY)
        yield from _check_field_selector(group, path)
        yield from _check_overflow(group, path, allowed=overflow_allowed)
    yield from check_group_names(placement)


def _check_overflow(group: ClusterAffinityTerm, path: str, *, allowed: bool) -> Iterator[FieldProblem]:
    if group.overflow_affinities is None:
        return
    if not allowed:
        yield FieldProblem(
            f"{path}.overflowAffinities", ABSENT, "overflow requires a division by available replicas",
            "divide replicas Aggregated or by dynamicWeight, or remove the overflow",
        )  # fmt: skip
    if matches_every_cluster(group):
        yield FieldProblem(
            f"{path}.overflowAffinities", ABSENT, "the group matches every cluster and leaves none for overflow",
            "restrict the group",
        )  # fmt: skip
    seen = {group.affinity_name}
    for index, overflow in enumerate(group.overflow_affinities):
        here = f"{path}.overflowAffinities[{index}]"
        if not is_label_key(overflow.affinity_name):
            yield FieldProblem(f"{here}.affinityName", overflow.affinity_name, "not a label key", _LABEL_KEY_REMEDY)
        if overflow.affinity_name in seen:
            yield FieldProblem(
                f"{here}.affinityName", overflow.affinity_name, "the group or an earlier overflow has this name",
                "give each affinity a unique name",
            )  # fmt: skip
        seen.add(overflow.affinity_name)
        yield from _check_field_selector(overflow, here)


def _check_field_selector(affinity: ClusterAffinity, path: str) -> Iterator[FieldProblem]:
    """Yield the first invalid expression only, as karmada-webhook does."""
    for expression in affinity.field_selector.match_expressions if affinity.field_selector is not None else ():
        if expression.key not in _FIELDS:
            problem, value, accepted = "unknown field", expression.key, ", ".join(_FIELDS)
        elif expression.operator not in _FIELD_OPERATORS:
            problem, value, accepted = "unsupported operator", expression.operator, " and ".join(_FIELD_OPERATORS)
        else:
            continue
        yield FieldProblem(f"{path}.fieldSelector", value, problem, f"accepted are {accepted}")
        return


def _check_spread(constraints: tuple[SpreadConstraint, ...]) -> Iterator[FieldProblem]:
    for index, constraint in enumerate(constraints):
        yield from _check_constraint(constraint, f"spec.placement.spreadConstraints[{index}]")
    fields = [each.spread_by_field for each in constraints if each.spread_by_field]
    for field in sorted(field for field, count in Counter(fields).items() if count > 1):
        yield FieldProblem(
            "spec.placement.spreadConstraints", field, "two constraints have this field", "merge the two"
        )
    if fields and "cluster" not in fields:
        yield FieldProblem(
            "spec.placement.spreadConstraints", fields[0],
            "a constraint by field requires another constraint by cluster",
            "add a constraint with spreadByField: cluster",
        )  # fmt: skip


def _check_constraint(constraint: SpreadConstraint, path: str) -> Iterator[FieldProblem]:
    if constraint.spread_by_field and constraint.spread_by_label:
        yield FieldProblem(path, ABSENT, "spreadByField and spreadByLabel exclude each other", "keep one of them")
    if constraint.min_groups < 0:
        yield FieldProblem(path, constraint.min_groups, "minGroups is negative", "use 1 or more")
    if constraint.max_groups < 0:
        yield FieldProblem(path, constraint.max_groups, "maxGroups is negative", "use 1 or more")
    if 0 < constraint.max_groups < constraint.min_groups:
        yield FieldProblem(
            path, constraint.max_groups, f"maxGroups is below minGroups {constraint.min_groups}", "raise maxGroups"
        )


def _check_workload_affinity(affinity: WorkloadAffinity) -> Iterator[FieldProblem]:
    terms = {"affinity": affinity.affinity, "antiAffinity": affinity.anti_affinity}
    for name, term in terms.items():
        if term is not None and not is_label_key(term.group_by_label_key):
            yield FieldProblem(
                f"spec.placement.workloadAffinity.{name}.groupByLabelKey", term.group_by_label_key,
                "not a label key", _LABEL_KEY_REMEDY,
            )  # fmt: skip
    together, apart = terms.values()
    if together is not None and apart is not None and together.group_by_label_key == apart.group_by_label_key:
        yield FieldProblem(
            "spec.placement.workloadAffinity", together.group_by_label_key,
            "affinity and antiAffinity have the same label", "use two labels, or remove one of the terms",
        )  # fmt: skip
