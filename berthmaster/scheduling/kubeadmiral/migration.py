"""Custom migration: from what a user asks for to what scheduling heeds (KubeAdmiral ``scheduler/util.go``)."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from berthmaster.model.decode import decode_json, encode_json
from berthmaster.model.errors import FieldError, shown
from berthmaster.model.federated_object import (
    APPLIED_MIGRATION,
    MIGRATION_CONFIGURATION,
    AppliedMigration,
    MigrationConfiguration,
    UnavailableCluster,
)


class Applied(NamedTuple):
    """The annotations of a federated object, with its custom migration applied.

    Attributes:
        annotations: all of them; ``applied-migration-configuration`` is brought up to date.
        problem: why what is asked for cannot be heeded, so that what was applied before stays; None if it can.
    """

    annotations: Mapping[str, str]
    problem: FieldError | None = None


def with_migration_applied(annotations: Mapping[str, str], *, has_replicas: bool) -> Applied:
    """Bring the applied migration up to date; without anything asked for, none is applied.

    Whoever schedules does this first: both the unit and the snapshot are made of the annotations that come out.

    Args:
        annotations: of the federated object.
        has_replicas: the object says how many replicas it has; only those can be limited.
    """
    text = annotations.get(MIGRATION_CONFIGURATION)
    if text is None:
        return Applied({name: value for name, value in annotations.items() if name != APPLIED_MIGRATION})
    try:
        applied = applied_migration(decode_json(MigrationConfiguration, text), has_replicas=has_replicas)
    except FieldError as error:
        return Applied(annotations, error.below(f"metadata.annotations[{MIGRATION_CONFIGURATION}]"))
    return Applied({**annotations, APPLIED_MIGRATION: encode_json(applied).decode()})


def applied_migration(asked: MigrationConfiguration, *, has_replicas: bool) -> AppliedMigration:
    """What scheduling heeds, clusters by name.

    Raises:
        FieldError: an entry is incomplete or out of range, names a cluster that another one names, or limits replicas
            that there are not; its path starts at the annotation's document.
    """
    for error in _errors(asked, has_replicas=has_replicas):
        raise error
    limits = {each.cluster: each.limited_capacity for each in asked.replicas_migrations}
    clear = {each.cluster: each.valid_until for each in asked.workload_migrations}
    return AppliedMigration(
        limited_capacity={cluster: count for cluster, count in sorted(limits.items()) if count is not None},
        unavailable_clusters=tuple(
            UnavailableCluster(cluster, time) for cluster, time in sorted(clear.items()) if time is not None
        ),
    )


def _errors(asked: MigrationConfiguration, *, has_replicas: bool) -> Iterator[FieldError]:
    if asked.replicas_migrations and not has_replicas:
        yield FieldError("replicasMigrations", "there are no replicas that could be limited; use workloadMigrations")
    seen: set[str] = set()
    for index, limit in enumerate(asked.replicas_migrations):
        path = f"replicasMigrations[{index}]"
        yield from _cluster_errors(f"{path}.cluster", limit.cluster, seen)
        if limit.limited_capacity is None or limit.limited_capacity < 0:
            found = "is missing" if limit.limited_capacity is None else f"{limit.limited_capacity} is negative"
            yield FieldError(f"{path}.limitedCapacity", f"{found}; accepted are 0 and more")
    for index, keep_clear in enumerate(asked.workload_migrations):
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
