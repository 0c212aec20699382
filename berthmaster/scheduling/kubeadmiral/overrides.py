"""What the annotations of one workload put in the place of its policy (KubeAdmiral ``scheduler/schedulingunit.go``).

What users write there is checked by nobody. A value that cannot be read, or that is out of range, is passed over: what
the policy says stands, and a note says why. What KubeAdmiral's own controllers write there is another matter: passing
that over could place replicas where somebody ordered them away, so that it is an error, as it is in KubeAdmiral.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from berthmaster.model.cluster import Toleration
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import FieldError, shown
from berthmaster.model.federated_object import (
    AFFINITY,
    APPLIED_MIGRATION,
    AUTO_MIGRATION_INFO,
    CLUSTER_SELECTOR,
    MAX_CLUSTERS,
    PLACEMENTS,
    SCHEDULING_MODE,
    STICKY_CLUSTER,
    TOLERATIONS,
    AffinityOverride,
    AppliedMigration,
    AutoMigrationInfo,
    ClusterReference,
)
from berthmaster.model.kubeadmiral import DesiredPlacement, KubeAdmiralSpec
from berthmaster.model.meta import Timestamp, int64_of
from berthmaster.scheduling.kubeadmiral.placement import PART_NAMES, parts_of, preferences_of

T = TypeVar("T")

_MODES: Final = {"Divide": True, "Duplicate": False}
_SWITCHES: Final = {"true": True, "false": False}


class Overrides(NamedTuple):
    """What differs from what the policy says.

    Attributes:
        fields: of a SchedulingUnit, by name.
        notes: the annotations that were passed over, each with its path in the federated object.
    """

    fields: Mapping[str, Any]
    notes: Sequence[FieldError]


def overrides(annotations: Mapping[str, str], policy: KubeAdmiralSpec) -> Overrides:
    """What users say of this workload.

    Args:
        annotations: of the federated object.
        policy: what is said of clusters there stands where an annotation's part is passed over.
    """
    reading = _Reading(annotations)
    fields: dict[str, Any] = {
        "divide": reading.read(SCHEDULING_MODE, lambda text: _one_of(_MODES, text)),
        "sticky": reading.read(STICKY_CLUSTER, lambda text: _one_of(_SWITCHES, text)),
        "cluster_selector": reading.read(CLUSTER_SELECTOR, lambda text: _decoded(text, dict[str, str], {})),
        "tolerations": reading.read(TOLERATIONS, lambda text: _decoded(text, tuple[Toleration, ...], ())),
        "max_clusters": reading.read(MAX_CLUSTERS, _count),
    }
    given = {name: value for name, value in fields.items() if value is not None}
    return Overrides({**given, **_affinity(reading), **_placements(reading, policy)}, reading.notes)


def migration_fields(annotations: Mapping[str, str], policy: KubeAdmiralSpec, now: Timestamp) -> dict[str, Any]:
    """What the fields of a SchedulingUnit are by automatic and by custom migration.

    Args:
        annotations: of the federated object.
        policy: without ``autoMigration`` nothing comes of what was estimated.
        now: a cluster is kept clear up to, and not at, its point in time.

    Raises:
        FieldError: one of the two annotations cannot be read; its path starts at ``metadata``.
    """
    fields: dict[str, Any] = {}
    if policy.auto_migration is not None:
        info = _written(annotations, AUTO_MIGRATION_INFO, AutoMigrationInfo)
        fields["estimated_capacity"] = {name: count for name, count in info.estimated_capacity.items() if count >= 0}
        fields["scheduled"] = info.scheduled_replicas
    applied = _written(annotations, APPLIED_MIGRATION, AppliedMigration)
    fields["limited_capacity"] = applied.limited_capacity
    fields["evicted"] = frozenset(each.cluster for each in applied.unavailable_clusters if now < each.valid_until)
    return fields


class _Reading:
    """Annotations that are read one by one; what is not given, or passed over, is None."""

    def __init__(self, annotations: Mapping[str, str]) -> None:
        self.notes: list[FieldError] = []
        self._annotations = annotations

    def read(self, name: str, parse: Callable[[str], T]) -> T | None:
        text = self._annotations.get(name)
        if text is None:
            return None
        try:
            return parse(text)
        except FieldError as error:
            self.pass_over(name, error)
            return None

    def pass_over(self, name: str, error: FieldError) -> None:
        self.notes.append(error.below(_path(name)))


def _affinity(reading: _Reading) -> dict[str, Any]:
    override = reading.read(AFFINITY, lambda text: _decoded(text, AffinityOverride, AffinityOverride()))
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
    """The clusters that are named, and what they are to get; each part that is not acceptable is the policy's."""
    named = reading.read(PLACEMENTS, lambda text: _decoded(text, tuple[ClusterReference, ...], ()))
    if named is None:
        return {}
    fields: dict[str, Any] = {"candidates": frozenset(each.cluster for each in named)}
    placements = reading.read(PLACEMENTS, lambda text: _decoded(text, tuple[DesiredPlacement, ...], ()))
    if placements is None:
        return fields
    parts = dict(parts_of(placements))
    for name, numbers in parts.items():
        negative = next((cluster for cluster, number in numbers.items() if number < 0), None)
        if negative is not None:
            problem = f"{PART_NAMES[name]} of {shown(negative)} is {numbers[negative]}; accepted are 0 and more"
            reading.pass_over(PLACEMENTS, FieldError("", problem))
            parts[name] = parts_of(policy.placement)[name]
    return {**fields, "preferences": preferences_of(parts)}


def _written(annotations: Mapping[str, str], name: str, kind: type[T]) -> T:
    """What a controller wrote, empty if it did not."""
    try:
        return _decoded(annotations.get(name, "null"), kind, kind())
    except FieldError as error:
        raise error.below(_path(name)) from None


def _one_of(values: Mapping[str, T], text: str) -> T:
    if text not in values:
        raise FieldError("", f"{shown(text)} is not accepted; accepted are {', '.join(values)}")
    return values[text]


def _count(text: str) -> int:
    """A decimal integer that is not negative, as Go's ``strconv.Atoi`` reads it: with a sign or without."""
    number = int64_of(text)
    if number is None:
        raise FieldError("", f"{shown(text)} is no decimal integer")
    if number < 0:
        raise FieldError("", f"{shown(text)} is negative; accepted are 0 and more")
    return number


def _decoded(text: str, kind: type[T], nothing: T) -> T:
    """A JSON value; null is ``nothing``."""
    return nothing if text.strip() == "null" else decode_json(kind, text)


def _path(name: str) -> str:
    return f"metadata.annotations[{name}]"
