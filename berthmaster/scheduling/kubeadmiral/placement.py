"""What a list of placements says: which clusters may be chosen, and what each of them is to get."""

from collections.abc import Iterable, Mapping
from typing import Final

from berthmaster.model.kubeadmiral import DesiredPlacement
from berthmaster.scheduling.kubeadmiral.unit import Preference

Parts = Mapping[str, Mapping[str, int]]
"""Numbers by cluster, for each field of a Preference; clusters of which nothing is said are left out."""

PART_NAMES: Final[Mapping[str, str]] = {
    "minimum": "minReplicas",
    "maximum": "maxReplicas",
    "weight": "weight",
    "priority": "priority",
}
"""The fields of a Preference with their names in a policy."""


def candidates_of(placement: Iterable[DesiredPlacement]) -> frozenset[str]:
    """The clusters that are listed."""
    return frozenset(each.cluster for each in placement)


def parts_of(placement: Iterable[DesiredPlacement]) -> Parts:
    """What is said of the clusters. Of a cluster that is listed twice, what is said last counts."""
    parts: dict[str, dict[str, int]] = {name: {} for name in PART_NAMES}
    for entry in placement:
        wanted = entry.preferences
        said = {
            "minimum": wanted.min_replicas or 0,
            "maximum": wanted.max_replicas,
            "weight": wanted.weight,
            "priority": wanted.priority,
        }
        for name, number in said.items():
            if number is not None:
                parts[name][entry.cluster] = number
    return parts


def preferences_of(parts: Parts) -> dict[str, Preference]:
    """The same by cluster."""
    clusters = {cluster for numbers in parts.values() for cluster in numbers}
    return {
        cluster: Preference(**{name: numbers[cluster] for name, numbers in parts.items() if cluster in numbers})
        for cluster in clusters
    }
