"""Karmada's policies as a webhook reads them: the types of ``berthmaster.model``, as tolerant as Go's decoder.

The defaults of Karmada's policies (karmada ``pkg/webhook/propagationpolicy/mutating.go``).

Each function changes a draft of a document. ``policy.read`` has accepted the shape of the document. All functions are
idempotent, and raise PatchTooLargeError if too many objects of a list need defaults.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, cast, get_args, get_origin

import msgspec

from berthmaster.model.claims import PERMANENT_ID
from berthmaster.model.decode import convert, decode_json
from berthmaster.model.meta import Value
from berthmaster.model.policy import (
    ApplicationFailoverBehavior,
    ClusterAffinity,
    ClusterAffinityTerm,
    FailoverBehavior,
    Placement,
    Policy,
    PropagationSpec,
    ReplicaSchedulingStrategy,
    SpreadConstraint,
    StatePreservation,
    Suspension,
    WorkloadAffinity,
)
from berthmaster.model.selector import is_label_key
from webhook.admission.outcome import ABSENT, Draft, FieldProblem

_ZERO_VALUES: Final[dict[Any, Any]] = {str: "", int: 0, bool: False, tuple: (), dict: {}}


def read(raw: dict[str, Any]) -> Policy:
    """Read a policy.

    Every enumeration accepts any text, and no field is required: a field that is absent has Go's zero value. The API
    server has validated the object against the schema of the installed Karmada, which may be newer than this code. A
    review must not deny an object for a value that karmada-webhook would accept.

    Raises:
        FieldError: a value has the wrong type.
    """
    return cast("Policy", convert(_lenient_struct(Policy), raw))


def decode(document: bytes) -> Policy:
    """Decode a policy from JSON; see ``read``."""
    return cast("Policy", decode_json(_lenient_struct(Policy), document))


def matches_every_cluster(affinity: ClusterAffinity) -> bool:
    """Return whether an affinity has no conditions."""
    selects = affinity.label_selector is not None or affinity.field_selector is not None
    return not (selects or affinity.cluster_names or affinity.exclude)


def named_clusters(affinity: ClusterAffinity) -> frozenset[str] | None:
    """Return the only clusters that an affinity can match; None if it does not list names."""
    return frozenset(affinity.cluster_names) - frozenset(affinity.exclude) if affinity.cluster_names else None


def divides_by_static_weight(strategy: ReplicaSchedulingStrategy | None) -> bool:
    """Return whether the scheduler divides by static weights, and so ignores spread constraints."""
    if strategy is None or not _is_divided(strategy, "Weighted"):
        return False
    weights = strategy.weight_preference
    return weights is None or (bool(weights.static_weight_list) and not weights.dynamic_weight)


def allows_overflow(strategy: ReplicaSchedulingStrategy | None) -> bool:
    """Return whether replicas are divided by available replicas, which overflow affinities need."""
    if strategy is None:
        return False
    weights = strategy.weight_preference
    dynamic = weights is not None and bool(weights.dynamic_weight)
    return _is_divided(strategy, "Aggregated") or (_is_divided(strategy, "Weighted") and dynamic)


def _is_divided(strategy: ReplicaSchedulingStrategy, preference: str) -> bool:
    return strategy.replica_scheduling_type == "Divided" and strategy.replica_division_preference == preference


@cache
def _lenient_struct(kind: type[Value]) -> type[Value]:
    """Derive the type that accepts any text for an enumeration and requires no field."""
    fields = []
    for field in msgspec.structs.fields(kind):
        lenient = _lenient(field.type)
        has_default = field.default is not msgspec.NODEFAULT and not isinstance(field.default, Value)
        default = field.default if has_default else _zero_value(lenient)
        fields.append((field.name, lenient, default))
    return cast("type[Value]", msgspec.defstruct(kind.__name__, fields, bases=(kind,), frozen=True, kw_only=True))


def _lenient(annotation: Any) -> Any:  # noqa: ANN401 - a type
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return str
    if origin in {Union, UnionType}:
        return reduce(or_, map(_lenient, arguments))
    if origin is tuple:
        return tuple.__class_getitem__((_lenient(arguments[0]), ...))
    if isinstance(annotation, type) and issubclass(annotation, Value):
        return _lenient_struct(annotation)
    return annotation


def _zero_value(annotation: Any) -> Any:  # noqa: ANN401 - a type, and a value of it
    origin = get_origin(annotation)
    if origin is Annotated:
        return _zero_value(get_args(annotation)[0])
    if isinstance(annotation, type) and issubclass(annotation, Value):
        return annotation()
    return _ZERO_VALUES[origin or annotation]


GRACE_PERIOD_S: Final = 600
_SERVICE_IMPORT: Final = ("multicluster.x-k8s.io/v1alpha1", "ServiceImport")
_CONSTRAINT_DEFAULTS: Final[Mapping[tuple[bool, bool], Mapping[str, str | int]]] = {
    (False, False): {},
    (False, True): {"minGroups": 1},
    (True, False): {"spreadByField": "cluster"},
    (True, True): {"spreadByField": "cluster", "minGroups": 1},
}
"""The defaults of a spread constraint without a field and a label, and without ``minGroups``."""
_GRACEFUL_MODES: Final = ("Gracefully", "Graciously")
_FINALIZERS: Final = {
    "PropagationPolicy": "karmada.io/propagation-policy-controller",
    "ClusterPropagationPolicy": "karmada.io/cluster-propagation-policy-controller",
}


def apply_defaults(draft: Draft, namespace: str) -> None:
    """Apply the defaults of both modes. ``namespace`` is the request's; empty for a ClusterPropagationPolicy."""
    if draft.get("spec", "preemption") in (None, ""):
        draft.set("Never", "spec", "preemption")
    if draft.get("spec", "priority") is None:
        draft.set(0, "spec", "priority")
    if namespace:
        default = {"namespace": namespace}
        draft.complete(lambda each: default if not each.get("namespace") else {}, "spec", "resourceSelectors")
    _default_placement(draft)
    failover = draft.get("spec", "failover", "application") or {}
    if failover.get("purgeMode") in _GRACEFUL_MODES and failover.get("gracePeriodSeconds") is None:
        draft.set(GRACE_PERIOD_S, "spec", "failover", "application", "gracePeriodSeconds")


def set_identity(draft: Draft, *, kind: str, creating: bool, new_id: Callable[[], str]) -> None:
    """Apply the defaults that karmada-webhook sets in companion mode.

    These are ``propagateDeps`` for ServiceImports, the permanent id and the finalizer.
    """
    selectors = draft.get("spec", "resourceSelectors") or ()
    selected = {(each.get("apiVersion"), each.get("kind")) for each in selectors}
    if _SERVICE_IMPORT in selected and draft.get("spec", "propagateDeps") is not True:
        draft.set(True, "spec", "propagateDeps")  # noqa: FBT003 - a value of the document
    if not creating:
        return
    finalizer = _FINALIZERS[kind]
    # A copied manifest has the id of the original policy: a new policy always gets a new id.
    draft.set(new_id(), "metadata", "labels", PERMANENT_ID[kind])
    if finalizer not in (draft.get("metadata", "finalizers") or ()):
        draft.append(finalizer, "metadata", "finalizers")


def _default_placement(draft: Draft) -> None:
    draft.complete(_missing_in_constraint, "spec", "placement", "spreadConstraints")
    strategy = draft.get("spec", "placement", "replicaScheduling") or {}
    if strategy.get("replicaSchedulingType") == "Divided" and not strategy.get("replicaDivisionPreference"):
        draft.set("Weighted", "spec", "placement", "replicaScheduling", "replicaDivisionPreference")


def _missing_in_constraint(constraint: Mapping[str, Any]) -> Mapping[str, str | int]:
    by_cluster = not constraint.get("spreadByField") and not constraint.get("spreadByLabel")
    return _CONSTRAINT_DEFAULTS[by_cluster, not constraint.get("minGroups")]


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
    overflow_allowed = allows_overflow(placement.replica_scheduling)
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
