"""The figures of the fleet that metrics show: workloads by what is wrong, the worst loss, and amounts. Pure functions.

``berthmaster.deciding.running`` says which copies run.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final, NamedTuple

from berthmaster.deciding.running import Hosts
from berthmaster.model.cluster import Cluster
from berthmaster.native_api.fleet import FleetAmount, sums_of
from berthmaster.native_api.problems import Damage
from extender.state.copy_counts import AS_ASSIGNED, CopyCounts
from extender.state.placed_workload import PlacedWorkload
from extender.state.problems import Outage, damage_of

RESOURCES: Final = ("cpu", "memory", "pods")


class Wrong(Enum):
    """What can be wrong with a workload. A workload may have several."""

    NO_COPY = "no_copy"
    """No copy runs: it has no place, or clusters do not run its copies."""
    SHORT = "short"
    NOT_PREFERRED = "not_preferred"
    MOVING = "moving"


class WorstLoss(NamedTuple):
    """The cluster or the region whose loss stops the last copies of the most workloads, and how many these are."""

    name: str
    workloads: int


class FleetFigures(NamedTuple):
    """The figures.

    Attributes:
        wrong: the number of workloads by what is wrong.
        worst: the worst loss by ``cluster`` and ``region``. No failover is assumed.
        clusters, regions: the amounts of each resource of ``RESOURCES`` by name. Clusters without a region are in none.
    """

    wrong: Mapping[Wrong, int]
    worst: Mapping[str, WorstLoss]
    clusters: Mapping[str, Mapping[str, FleetAmount]]
    regions: Mapping[str, Mapping[str, FleetAmount]]


def fleet_figures(
    rows: Iterable[PlacedWorkload],
    outages: Iterable[Outage],
    clusters: Mapping[str, Cluster],
    hosts: Hosts,
    amounts: Mapping[str, Mapping[str, FleetAmount]],
    counts: CopyCounts = AS_ASSIGNED,
) -> FleetFigures:
    """Return the figures of workloads and clusters.

    Args:
        outages: what clusters stop now.
        amounts: what each cluster has of each resource of ``RESOURCES``.
        counts: how many replicas copies have.
    """
    wrong: Counter[Wrong] = Counter()
    stopped = {id(each.placed): each.damage for each in outages}
    region_of = {name: each.spec.region for name, each in clusters.items()}
    itself = {name: name for name in clusters}
    only: dict[str, Counter[str]] = {"cluster": Counter(), "region": Counter()}
    for placed in rows:
        damage = stopped.get(id(placed)) or damage_of(placed)
        wrong[Wrong.NO_COPY] += damage is Damage.NO_COPY
        wrong[Wrong.SHORT] += damage is Damage.SHORT
        wrong[Wrong.NOT_PREFERRED] += placed.preferred is False
        wrong[Wrong.MOVING] += placed.moving
        exist = _copies(placed, counts)
        only["cluster"].update(_ends(exist, itself, hosts))
        only["region"].update(_ends(exist, region_of, hosts))
    regions = sorted({each for each in region_of.values() if each})
    return FleetFigures(
        {each: wrong[each] for each in Wrong},
        {domain: _worst(counts) for domain, counts in only.items()},
        amounts,
        {name: sums_of(amounts[each] for each in clusters if region_of[each] == name) for name in regions},
    )


def _copies(placed: PlacedWorkload, counts: CopyCounts) -> Mapping[str, int]:
    """Return the replicas by cluster of the copies of a workload; none for what has no replicas."""
    counted = placed.present and placed.binding.spec.is_workload
    return counts.existing(placed.binding) if counted else {}


def _ends(exist: Iterable[str], place_of: Mapping[str, str], hosts: Hosts) -> set[str]:
    """Return the places whose loss stops the last copies: no ready cluster elsewhere has one (``only_copy``)."""
    ready = {place_of.get(name, "") for name in exist if hosts.runs(name)}
    return {place for name in exist if (place := place_of.get(name, "")) and ready <= {place}}


def _worst(counts: Mapping[str, int]) -> WorstLoss:
    name = min(counts, key=lambda each: (-counts[each], each), default="")
    return WorstLoss(name, counts.get(name, 0))
