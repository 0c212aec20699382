"""Make a scheduling unit from a workload, the policy that it is bound to, and its annotations.

Users write annotations that override the policy, and no webhook validates them. A value that cannot be decoded or is
out of range is ignored: the value of the policy applies, and a note says why. Controllers of KubeAdmiral write the
migration annotations. As in KubeAdmiral, an invalid one is an error, because ignoring it could assign replicas to a
cluster that must get none.

Sources: KubeAdmiral ``scheduler/schedulingunit.go``, ``scheduler/util.go``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, TypeVar

from berthmaster.model.decode import decode_json, encode_json
from berthmaster.model.errors import FieldError, shown
from berthmaster.model.kubeadmiral import objects as names
from berthmaster.model.kubeadmiral.objects import (
    AffinityOverride,
    AppliedMigration,
    AutoMigrationInfo,
    ClusterReference,
    MigrationConfiguration,
    UnavailableCluster,
)
from berthmaster.model.kubeadmiral.policies import DesiredPlacement, KubeAdmiralSpec
from berthmaster.model.meta import Timestamp, int64_of
from berthmaster.model.quantity import Quantity
from berthmaster.model.taint import Toleration
from berthmaster.scheduling.kubeadmiral.unit import (
    GPU,
    PART_NAMES,
    ReplicasStrategy,
    SchedulingUnit,
    parts_of,
    preferences_of,
)

T = TypeVar("T")

_MODES: Final = {"Divide": True, "Duplicate": False}
_SWITCHES: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class UnitWorkload:
    """The properties of an object that do not depend on its policy.

    Attributes:
        replicas_path: the path of the replicas of its kind, such as ``spec.replicas``. Empty for a kind without
            replicas, which cannot be divided.
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
        suppressed: an annotation disables scheduling. The previous assignment stays.
        overrides: the annotations that override the policy.
    """

    unit: SchedulingUnit
    suppressed: bool = False
    notes: Sequence[FieldError] = ()
    overrides: Sequence[str] = ()


def prepare(
    workload: UnitWorkload, policy: KubeAdmiralSpec, annotations: Mapping[str, str], now: Timestamp
) -> Preparation:
    """Make the scheduling unit of a workload from its policy. Annotations override the policy.

    Args:
        policy: not defaulted here; see ``model.kubeadmiral.defaulted_spec``.

    Raises:
        FieldError: the number of replicas to divide is missing, or an annotation that a controller of KubeAdmiral wrote
            cannot be decoded. The path starts at the document that contains the field.
    """
    reading = _Reading(annotations)
    overrides = _overrides(reading, policy)
    unit = replace(policy_unit(workload, policy), **overrides, **_migration_fields(annotations, policy, now))
    if unit.divide and not workload.replicas_path:
        unit = replace(unit, divide=False)
    if unit.divide and workload.replicas is None:
        raise FieldError(workload.replicas_path, "is missing; replicas can be divided only if their number is set")
    unit = replace(unit, replicas=(workload.replicas or 0) if unit.divide else 0)
    return Preparation(unit, bool(annotations.get(names.NO_SCHEDULING)), tuple(reading.notes), tuple(reading.used))


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


def _overrides(reading: "_Reading", policy: KubeAdmiralSpec) -> dict[str, Any]:
    """Return the fields of a SchedulingUnit that the annotations override.

    The policy's preferences for clusters apply where a part of an annotation is ignored.
    """
    fields: dict[str, Any] = {
        "divide": reading.read(names.SCHEDULING_MODE, lambda text: _one_of(_MODES, text)),
        "sticky": reading.read(names.STICKY_CLUSTER, lambda text: _one_of(_SWITCHES, text)),
        "cluster_selector": reading.read(names.CLUSTER_SELECTOR, lambda text: _decoded(text, dict[str, str], {})),
        "tolerations": reading.read(names.TOLERATIONS, lambda text: _decoded(text, tuple[Toleration, ...], ())),
        "max_clusters": reading.read(names.MAX_CLUSTERS, _count),
    }
    given = {name: value for name, value in fields.items() if value is not None}
    return {**given, **_affinity(reading), **_placements(reading, policy)}


def _migration_fields(annotations: Mapping[str, str], policy: KubeAdmiralSpec, now: Timestamp) -> dict[str, Any]:
    """Return the fields of a SchedulingUnit that automatic and custom migration set.

    Args:
        now: a cluster is unavailable until its time, exclusive.

    Raises:
        FieldError: one of the two annotations cannot be decoded. The path starts at ``metadata``.
    """
    fields: dict[str, Any] = {}
    if policy.auto_migration is not None:
        info = _written(annotations, names.AUTO_MIGRATION_INFO, AutoMigrationInfo)
        fields["estimated_capacity"] = {name: count for name, count in info.estimated_capacity.items() if count >= 0}
        fields["scheduled"] = info.scheduled_replicas
    applied = _written(annotations, names.APPLIED_MIGRATION, AppliedMigration)
    fields["limited_capacity"] = applied.limited_capacity
    fields["evicted"] = frozenset(each.cluster for each in applied.unavailable_clusters if now < each.valid_until)
    return fields


class _Reading:
    """Reads annotations one by one. The value of a missing or ignored annotation is None."""

    def __init__(self, annotations: Mapping[str, str]) -> None:
        self.notes: list[FieldError] = []
        self.used: dict[str, None] = {}
        self._annotations = annotations

    def read(self, name: str, parse: Callable[[str], T]) -> T | None:
        text = self._annotations.get(name)
        if text is None:
            return None
        try:
            value = parse(text)
        except FieldError as error:
            self.ignore(name, error)
            return None
        if value is not None:
            self.used[name] = None
        return value

    def ignore(self, name: str, error: FieldError) -> None:
        self.notes.append(error.below(_path(name)))


def _affinity(reading: _Reading) -> dict[str, Any]:
    override = reading.read(names.AFFINITY, lambda text: _decoded(text, AffinityOverride, AffinityOverride()))
    if override is None:
        return {}
    affinity = override.cluster_affinity
    required = affinity.required_during_scheduling_ignored_during_execution
    preferred = affinity.preferred_during_scheduling_ignored_during_execution
    return {
        "required": None if required is None else required.cluster_selector_terms,
        "preferred": tuple((each.weight, each.preference) for each in preferred),
    }


def _placements(reading: _Reading, policy: KubeAdmiralSpec) -> dict[str, Any]:
    """Return the candidates and their preferences. Where a part is invalid, the part of the policy applies."""
    named = reading.read(names.PLACEMENTS, lambda text: _decoded(text, tuple[ClusterReference, ...], ()))
    if named is None:
        return {}
    fields: dict[str, Any] = {"candidates": frozenset(each.cluster for each in named)}
    placements = reading.read(names.PLACEMENTS, lambda text: _decoded(text, tuple[DesiredPlacement, ...], ()))
    if placements is None:
        return fields
    parts = dict(parts_of(placements))
    for name, numbers in parts.items():
        negative = next((cluster for cluster, number in numbers.items() if number < 0), None)
        if negative is not None:
            problem = f"{PART_NAMES[name]} of {shown(negative)} is {numbers[negative]}; accepted are 0 and more"
            reading.ignore(names.PLACEMENTS, FieldError("", problem))
            parts[name] = parts_of(policy.placement)[name]
    return {**fields, "preferences": preferences_of(parts)}


def _written(annotations: Mapping[str, str], name: str, kind: type[T]) -> T:
    """Return what a controller wrote, or an empty value if the annotation is missing."""
    try:
        return _decoded(annotations.get(name, "null"), kind, kind())
    except FieldError as error:
        raise error.below(_path(name)) from None


def _one_of(values: Mapping[str, T], text: str) -> T:
    if text not in values:
        raise FieldError("", f"{shown(text)} is not accepted; accepted are {', '.join(values)}")
    return values[text]


def _count(text: str) -> int:
    """Return a decimal integer, with or without a sign, as Go's ``strconv.Atoi`` reads it. It must not be negative."""
    number = int64_of(text)
    if number is None:
        raise FieldError("", f"{shown(text)} is no decimal integer")
    if number < 0:
        raise FieldError("", f"{shown(text)} is negative; accepted are 0 and more")
    return number


def _decoded(text: str, kind: type[T], nothing: T) -> T:
    """Decode a JSON value. Return ``nothing`` for null."""
    return nothing if text.strip() == "null" else decode_json(kind, text)


def _path(name: str) -> str:
    return f"metadata.annotations[{name}]"


class Applied(NamedTuple):
    """The annotations of a federated object, with its custom migration applied.

    Attributes:
        annotations: all of them, with ``applied-migration-configuration`` up to date.
        problem: why the requested migration is invalid, so that the previous one stays. None if it is valid.
    """

    annotations: Mapping[str, str]
    problem: FieldError | None = None


def with_migration_applied(annotations: Mapping[str, str], *, has_replicas: bool) -> Applied:
    """Update the applied migration. Without a requested migration, none is applied.

    This is the first step of scheduling: both the unit and the snapshot depend on the resulting annotations.
    """
    text = annotations.get(names.MIGRATION_CONFIGURATION)
    if text is None:
        return Applied({name: value for name, value in annotations.items() if name != names.APPLIED_MIGRATION})
    try:
        applied = _applied_migration(decode_json(MigrationConfiguration, text), has_replicas=has_replicas)
    except FieldError as error:
        return Applied(annotations, error.below(_path(names.MIGRATION_CONFIGURATION)))
    return Applied({**annotations, names.APPLIED_MIGRATION: encode_json(applied).decode()})


def _applied_migration(requested: MigrationConfiguration, *, has_replicas: bool) -> AppliedMigration:
    """Return the migration that scheduling applies, ordered by cluster name.

    Raises:
        FieldError: an entry is incomplete or out of range, names a cluster twice, or limits replicas of an object
            without replicas. The path starts at the document in the annotation.
    """
    for error in _errors(requested, has_replicas=has_replicas):
        raise error
    limits = {each.cluster: each.limited_capacity for each in requested.replicas_migrations}
    clear = {each.cluster: each.valid_until for each in requested.workload_migrations}
    return AppliedMigration(
        limited_capacity={cluster: count for cluster, count in sorted(limits.items()) if count is not None},
        unavailable_clusters=tuple(
            UnavailableCluster(cluster, time) for cluster, time in sorted(clear.items()) if time is not None
        ),
    )


def _errors(requested: MigrationConfiguration, *, has_replicas: bool) -> Iterator[FieldError]:
    if requested.replicas_migrations and not has_replicas:
        yield FieldError("replicasMigrations", "the object has no replicas to limit; use workloadMigrations")
    seen: set[str] = set()
    for index, limit in enumerate(requested.replicas_migrations):
        path = f"replicasMigrations[{index}]"
        yield from _cluster_errors(f"{path}.cluster", limit.cluster, seen)
        if limit.limited_capacity is None or limit.limited_capacity < 0:
            found = "is missing" if limit.limited_capacity is None else f"{limit.limited_capacity} is negative"
            yield FieldError(f"{path}.limitedCapacity", f"{found}; accepted are 0 and more")
    for index, keep_clear in enumerate(requested.workload_migrations):
        path = f"workloadMigrations[{index}]"
        yield from _cluster_errors(f"{path}.cluster", keep_clear.cluster, seen)
        if keep_clear.valid_until is None:
            yield FieldError(f"{path}.validUntil", "is missing; accepted is a time as in 2026-01-31T12:00:00Z")


def _cluster_errors(path: str, cluster: str, seen: set[str]) -> Iterator[FieldError]:
    if not cluster:
        yield FieldError(path, "is missing; name a cluster")
    elif cluster in seen:
        yield FieldError(path, f"{shown(cluster)} is named by another entry; each cluster may be named once")
    seen.add(cluster)
