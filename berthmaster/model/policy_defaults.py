"""The defaults of policies: those of the CRDs, and those of Karmada's mutating webhook."""

from typing import Final

import msgspec
import msgspec.structs

from berthmaster.model.failover_behavior import GRACEFULLY, DecisionConditions, FailoverBehavior
from berthmaster.model.placement import Placement, ReplicaSchedulingStrategy, SpreadConstraint
from berthmaster.model.policy import Policy

DEFAULT_NAMESPACE: Final = "default"
DEFAULT_SCHEDULER: Final = "default-scheduler"
_TOLERATION_S: Final = 300
_GRACE_S: Final = 600
_SERVICE_IMPORT: Final = ("multicluster.x-k8s.io/v1alpha1", "ServiceImport")


def defaulted(policy: Policy) -> Policy:
    """Return a policy with the defaults of its CRD and of Karmada's mutating webhook.

    Manifests lack these defaults, and some change decisions: a ``replicaScheduling`` without a type is Divided.
    Fields that only the API server can set (UID, labels, finalizers) do not affect decisions and stay unset.
    """
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
        failover=_defaulted_failover(spec.failover),
        propagate_deps=spec.propagate_deps or any((s.api_version, s.kind) == _SERVICE_IMPORT for s in selectors),
    )
    return msgspec.structs.replace(policy, metadata=metadata, spec=spec)


def _defaulted_failover(failover: FailoverBehavior | None) -> FailoverBehavior | None:
    if failover is None:
        return None
    application, cluster = failover.application, failover.cluster
    if application is not None:
        conditions = application.decision_conditions
        application = msgspec.structs.replace(application, purge_mode=application.purge_mode or GRACEFULLY)
        seconds, grace_s = conditions.toleration_seconds, application.grace_period_seconds
        application = msgspec.structs.replace(
            application,
            decision_conditions=DecisionConditions(_TOLERATION_S if seconds is None else seconds),
            grace_period_seconds=_GRACE_S if grace_s is None and application.is_graceful else grace_s,
        )
    if cluster is not None:
        cluster = msgspec.structs.replace(cluster, purge_mode=cluster.purge_mode or GRACEFULLY)
    return FailoverBehavior(application, cluster)


def defaulted_placement(placement: Placement) -> Placement:
    """Return a placement with its defaults. ``maxGroups`` has none."""
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
