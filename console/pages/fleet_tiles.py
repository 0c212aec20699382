"""One cluster as the page Fleet shows it: its worst state, how full it is, and what is assigned to it."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from berthmaster.native_api.fleet import FleetCluster, FleetView
from console.pages.amounts import BASIC, Load, load_of, nearly_full

_RANKS: Final = ("first choice", "second", "third")
STATE_ORDER: Final = {"deleting": 0, "not ready": 1, "draining": 2, "tainted": 3, "nearly full": 4, "ready": 5}
"""The states of clusters, the worst first."""


@dataclass(frozen=True, slots=True)
class Tile:
    """One cluster, for a tile or a row.

    Attributes:
        counts: how many workloads are assigned to it, in words; empty if that is not known or not shown.
        choices: these workloads by the position of their group, in words; empty as ``counts``.
    """

    name: str
    region: str
    provider: str
    version: str
    kind: str
    state: str
    details: tuple[str, ...]
    loads: tuple[Load, ...]
    others: tuple[Load, ...]
    counts: str
    choices: str
    movements: str
    taints: tuple[str, ...]

    @property
    def path(self) -> str:
        return quote(self.name, safe="")

    @property
    def taint_line(self) -> str:
        """Its first taint, and how many more there are; empty without taints."""
        more = len(self.taints) - 1
        return f"{self.taints[0]} and {more} more" if more > 0 else "".join(self.taints)


@dataclass(frozen=True, slots=True)
class ClusterPage:
    """What the page of one cluster shows: its tile, all its resources, and where it is."""

    tile: Tile
    loads: tuple[Load, ...]
    facts: tuple[tuple[str, str], ...]


def cluster_page(view: FleetView, name: str, *, counted: bool = True) -> ClusterPage | None:
    """Return what the page of one cluster shows; None if there is no such cluster."""
    cluster = next((each for each in view.clusters if each.name == name), None)
    if cluster is None:
        return None
    tile = tile_of(cluster, counted=counted)
    facts = [
        ("Region", cluster.region), ("Zones", ", ".join(cluster.zones)), ("Provider", cluster.provider),
        ("Kubernetes", cluster.kubernetes_version), ("Taints", ", ".join(tile.taints)),
    ]  # fmt: skip
    if tile.counts:
        replicas = "" if cluster.replicas is None else f" with {number_text(cluster.replicas, 'replica')}"
        facts += [("Workloads", f"{tile.counts}{replicas}"), ("By choice", tile.choices)]
    facts.append(("Moves", tile.movements))
    return ClusterPage(tile, (*tile.loads, *tile.others), tuple((key, text) for key, text in facts if text))


def tile_of(cluster: FleetCluster, *, counted: bool = True) -> Tile:
    """Return what a tile or a row shows of a cluster."""
    loads = tuple(load_of(name, cluster.resources[name]) for name in BASIC if name in cluster.resources)
    others = tuple(load_of(name, cluster.resources[name]) for name in sorted(cluster.resources.keys() - set(BASIC)))
    kind, state = state_of(cluster)
    counts = cluster.workloads if counted else None
    return Tile(
        name=cluster.name,
        region=cluster.region,
        provider=cluster.provider,
        version=cluster.kubernetes_version,
        kind=kind,
        state=state,
        details=_details(cluster, state),
        loads=loads,
        others=others,
        counts="" if counts is None else number_text(counts, "workload"),
        choices="" if counts is None else choices_text(cluster),
        movements=_movements(cluster) if counted else "",
        taints=tuple(map(str, cluster.taints)),
    )


def state_of(cluster: FleetCluster) -> tuple[str, str]:
    """Return the kind of the badge and the worst state of a cluster that holds."""
    if cluster.deleting:
        return "bad", "deleting"
    if not cluster.ready:
        return "bad", "not ready"
    if cluster.draining:
        return "busy", "draining"
    if cluster.taints:
        return "warn", "tainted"
    if is_nearly_full(cluster):
        return "warn", "nearly full"
    return "good", "ready"


def choices_text(cluster: FleetCluster) -> str:
    """Return the workloads of a cluster by the position of their group, in words."""
    if cluster.workloads is None or cluster.by_group is None:
        return ""
    parts = [f"{count:,} {name}" for name, count in zip(_RANKS, cluster.by_group, strict=False) if count]
    if later := sum(cluster.by_group[len(_RANKS) :]):
        parts.append(f"{later:,} later")
    if cluster.without_groups:
        parts.append(f"{cluster.without_groups:,} without groups")
    if other := cluster.workloads - sum(cluster.by_group) - (cluster.without_groups or 0):
        parts.append(f"{other:,} in an unknown group")
    return ", ".join(parts)


def is_nearly_full(cluster: FleetCluster) -> bool:
    """Return whether CPU, memory or pods of a cluster are nearly full."""
    return any(nearly_full(cluster.resources[name]) for name in BASIC if name in cluster.resources)


def number_text(count: int, noun: str) -> str:
    """Return a number and its noun."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _details(cluster: FleetCluster, state: str) -> tuple[str, ...]:
    found = []
    if not cluster.ready:
        found.append(cluster.ready_message or "It is not ready, and reports no reason.")
    if cluster.deleting and state != "deleting":
        found.append("It is being removed from the fleet.")
    if not cluster.resources:
        found.append("It reports no resources.")
    return tuple(found)


def _movements(cluster: FleetCluster) -> str:
    parts = []
    if cluster.arriving:
        parts.append(f"{cluster.arriving:,} arriving")
    if cluster.leaving:
        parts.append(f"{cluster.leaving:,} leaving")
    return ", ".join(parts)
