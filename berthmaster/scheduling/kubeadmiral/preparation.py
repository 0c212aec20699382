"""Make a scheduling unit from a workload, the policy that it is bound to, and its annotations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from berthmaster.model.errors import FieldError
from berthmaster.model.federated_object import NO_SCHEDULING
from berthmaster.model.kubeadmiral import KubeAdmiralSpec
from berthmaster.model.meta import Timestamp
from berthmaster.model.quantity import Quantity
from berthmaster.scheduling.kubeadmiral.annotations import migration_fields, overrides
from berthmaster.scheduling.kubeadmiral.unit import (
    GPU,
    ReplicasStrategy,
    SchedulingUnit,
    parts_of,
    preferences_of,
)


@dataclass(frozen=True, slots=True)
class UnitWorkload:
    """The properties of an object that do not depend on its policy.

    Attributes:
        api_version, kind, namespace, name: of the object.
        replicas_path: the path of the replicas of its kind, such as ``spec.replicas``. Empty for a kind without
            replicas, which cannot be divided.
        replicas: the number at that path. None if it is missing.
        requests: what a replica requests.
        current: the previous assignment: replicas by cluster, None if the number is not set.
    """

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    replicas_path: str = ""
    replicas: int | None = None
    requests: Mapping[str, Quantity] = field(default_factory=dict)
    current: Mapping[str, int | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Preparation:
    """The result of ``prepare``.

    Attributes:
        unit: the scheduling unit.
        suppressed: an annotation disables scheduling. The previous assignment stays.
        notes: annotations that were ignored, and why.
    """

    unit: SchedulingUnit
    suppressed: bool = False
    notes: Sequence[FieldError] = ()


def prepare(
    workload: UnitWorkload, policy: KubeAdmiralSpec, annotations: Mapping[str, str], now: Timestamp
) -> Preparation:
    """Make the scheduling unit of a workload from its policy. Annotations override the policy.

    Args:
        workload: the object.
        policy: not defaulted here; see ``model.kubeadmiral.defaulted_spec``.
        annotations: of the federated object.
        now: determines which clusters custom migration makes unavailable.

    Raises:
        FieldError: the number of replicas to divide is missing, or an annotation that a controller of KubeAdmiral wrote
            cannot be decoded. The path starts at the document that contains the field.
    """
    overridden = overrides(annotations, policy)
    unit = replace(policy_unit(workload, policy), **overridden.fields, **migration_fields(annotations, policy, now))
    if unit.divide and not workload.replicas_path:
        unit = replace(unit, divide=False)
    if unit.divide and workload.replicas is None:
        raise FieldError(workload.replicas_path, "is missing; replicas can be divided only if their number is set")
    unit = replace(unit, replicas=(workload.replicas or 0) if unit.divide else 0)
    return Preparation(unit, bool(annotations.get(NO_SCHEDULING)), tuple(overridden.notes))


def policy_unit(workload: UnitWorkload, policy: KubeAdmiralSpec) -> SchedulingUnit:
    """Make the scheduling unit of a workload from its policy, without annotations and without defaults."""
    rescheduling = policy.reschedule_policy
    replica_rescheduling = rescheduling.replica_rescheduling if rescheduling is not None else None
    migration = policy.auto_migration
    return SchedulingUnit(
        api_version=workload.api_version,
        kind=workload.kind,
        name=workload.name,
        namespace=workload.namespace,
        divide=policy.scheduling_mode == "Divide",
        replicas=workload.replicas or 0,
        requests={name: amount for name, amount in workload.requests.items() if name == GPU},
        current=workload.current,
        strategy=ReplicasStrategy.BINPACK if policy.replicas_strategy == "Binpack" else ReplicasStrategy.SPREAD,
        cluster_selector=policy.cluster_selector,
        required=policy.cluster_affinity or None,
        tolerations=policy.tolerations,
        max_clusters=policy.max_clusters,
        candidates=frozenset(each.cluster for each in policy.placement),
        preferences=preferences_of(parts_of(policy.placement)),
        sticky=rescheduling is not None and rescheduling.disable_rescheduling,
        avoid_disruption=replica_rescheduling is not None and bool(replica_rescheduling.avoid_disruption),
        keep_unschedulable=migration is not None and migration.keep_unschedulable_replicas,
    )
