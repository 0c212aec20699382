"""Karmada's policies as a webhook reads them: the types of ``berthmaster.model``, as tolerant as Go's decoder.

The defaults of Karmada's policies (karmada ``pkg/webhook/propagationpolicy/mutating.go``).

Each function changes a draft of a document. ``policy.read`` has accepted the shape of the document. All functions are
idempotent, and raise PatchTooLargeError if too many objects of a list need defaults.
"""

from collections.abc import Callable, Mapping
from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, cast, get_args, get_origin

import msgspec

from berthmaster.model.claims import PERMANENT_ID
from berthmaster.model.decode import convert, decode_json
from berthmaster.model.meta import Value
from berthmaster.model.policy import ClusterAffinity, Policy, ReplicaSchedulingStrategy
from webhook.admission.outcome import Draft

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
    if failover.get("purgeMode") == "Gracefully" and failover.get("gracePeriodSeconds") is None:
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
