"""From a workload and the policy that it is bound to, to what is scheduled."""

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
    candidates_of,
    parts_of,
    preferences_of,
)


@dataclass(frozen=True, slots=True)
class UnitWorkload:
    """What is known of an object, whatever its policy says.

    Attributes:
        api_version, kind, namespace, name: of the object.
        replicas_path: where its kind has replicas, as in ``spec.replicas``; empty for a kind without. Those cannot be
            divided.
        replicas: the number that stands there; None if none does.
        requests: what a replica requests.
        current: where it was scheduled to before: replicas by cluster, None where the number is not set.
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
    """What is to be scheduled.

    Attributes:
        unit: the workload with all that is asked for it.
        suppressed: an annotation says that it is not to be scheduled: what was decided before stays.
        notes: annotations that were passed over, and why.
    """

    unit: SchedulingUnit
    suppressed: bool = False
    notes: Sequence[FieldError] = ()


def prepare(
    workload: UnitWorkload, policy: KubeAdmiralSpec, annotations: Mapping[str, str], now: Timestamp
) -> Preparation:
    """Put together what is scheduled: what the policy says, or annotations in its place.

    Args:
        workload: the object.
        policy: not defaulted here; see ``model.kubeadmiral.defaulted_spec``.
        annotations: of the federated object.
        now: decides which clusters custom migration keeps clear.

    Raises:
        FieldError: replicas are to be divided, and their number is missing; or an annotation that a controller of
            KubeAdmiral wrote cannot be read. The path starts at the document that it stands in.
    """
    said = overrides(annotations, policy)
    unit = replace(policy_unit(workload, policy), **said.fields, **migration_fields(annotations, policy, now))
    if unit.divide and not workload.replicas_path:
        unit = replace(unit, divide=False)
    if unit.divide and workload.replicas is None:
        raise FieldError(workload.replicas_path, "is missing; replicas cannot be divided unless their number is given")
    unit = replace(unit, replicas=(workload.replicas or 0) if unit.divide else 0)
    return Preparation(unit, bool(annotations.get(NO_SCHEDULING)), tuple(said.notes))


def policy_unit(workload: UnitWorkload, policy: KubeAdmiralSpec) -> SchedulingUnit:
    """A workload with what its policy asks, taken as written: no default is applied."""
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
        candidates=candidates_of(policy.placement),
        preferences=preferences_of(parts_of(policy.placement)),
        sticky=rescheduling is not None and rescheduling.disable_rescheduling,
        avoid_disruption=replica_rescheduling is not None and bool(replica_rescheduling.avoid_disruption),
        keep_unschedulable=migration is not None and migration.keep_unschedulable_replicas,
    )
