"""A policy as it is stored: with the defaults of its CRD and of Karmada's mutating webhook.

Manifests are written without them, and some decide: a ``replicaScheduling`` without a type is Divided.
What only the API server can add (uid, labels, finalizers) plays no part in decisions and is left out.
"""

from typing import Final

import msgspec

from berthmaster.model.placement import Placement, ReplicaSchedulingStrategy, SpreadConstraint
from berthmaster.model.policy import Policy

DEFAULT_NAMESPACE: Final = "default"
DEFAULT_SCHEDULER: Final = "default-scheduler"
_SERVICE_IMPORT: Final = ("multicluster.x-k8s.io/v1alpha1", "ServiceImport")


def defaulted(policy: Policy) -> Policy:
    """The policy with every default that bears on what it claims and where that goes."""
    metadata, spec = policy.metadata, policy.spec
    selectors = spec.resource_selectors
    if not policy.cluster_scoped:
        metadata = msgspec.structs.replace(metadata, namespace=metadata.namespace or DEFAULT_NAMESPACE)
        selectors = tuple(
            msgspec.structs.replace(each, namespace=each.namespace or metadata.namespace) for each in selectors
        )
    spec = msgspec.structs.replace(
        spec,
        resource_selectors=selectors,
        placement=defaulted_placement(spec.placement),
        priority=spec.priority or 0,
        preemption=spec.preemption or "Never",
        scheduler_name=spec.scheduler_name or DEFAULT_SCHEDULER,
        conflict_resolution=spec.conflict_resolution or "Abort",
        propagate_deps=spec.propagate_deps or any((s.api_version, s.kind) == _SERVICE_IMPORT for s in selectors),
    )
    return msgspec.structs.replace(policy, metadata=metadata, spec=spec)


def defaulted_placement(placement: Placement) -> Placement:
    """A placement with its defaults; ``maxGroups`` has none."""
    strategy = placement.replica_scheduling
    return msgspec.structs.replace(
        placement,
        spread_constraints=tuple(map(_defaulted_constraint, placement.spread_constraints)),
        replica_scheduling=_defaulted_strategy(strategy) if strategy is not None else None,
    )


def _defaulted_constraint(constraint: SpreadConstraint) -> SpreadConstraint:
    named = constraint.spread_by_field or constraint.spread_by_label
    return msgspec.structs.replace(
        constraint,
        spread_by_field=constraint.spread_by_field if named else "cluster",
        min_groups=constraint.min_groups or 1,
    )


def _defaulted_strategy(strategy: ReplicaSchedulingStrategy) -> ReplicaSchedulingStrategy:
    kind = strategy.replica_scheduling_type or "Divided"
    preference = strategy.replica_division_preference or ("Weighted" if kind == "Divided" else "")
    return msgspec.structs.replace(strategy, replica_scheduling_type=kind, replica_division_preference=preference)
