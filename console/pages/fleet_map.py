"""The map of the page Fleet: one square for each cluster, by region, the worst first.

The page stays small for any fleet. In a small fleet each square is a link. In a large one only the worst clusters have
squares with links; all others are drawn together, and their region is one link to its table.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import quote

from berthmaster.native_api.fleet import FleetCluster
from console.pages.amounts import BASIC, Load, load_of
from console.pages.fleet_tiles import STATE_ORDER, number_text, state_of

LINKED: Final = 500
"""The most clusters of a fleet whose squares all have links."""
WORST: Final = 300
"""The most squares with links in a larger fleet."""
REGIONS: Final = 120
LEVELS: Final = 5
_COLUMNS: Final = 50
_SIDE: Final = 10
_READY: Final = "good"


class MapSquare(NamedTuple):
    """A square with a link."""

    name: str
    path: str
    look: str
    title: str


class MapRun(NamedTuple):
    """Squares of one look that are drawn together: the path of their outline."""

    look: str
    path: str


@dataclass(frozen=True, slots=True)
class MapRegion:
    """The clusters of one region and provider."""

    region: str
    provider: str
    summary: str
    squares: tuple[MapSquare, ...]
    runs: tuple[MapRun, ...]
    drawn: int

    @property
    def title(self) -> str:
        if not self.region and not self.provider:
            return "No region, no provider"
        return " · ".join((self.region or "no region", self.provider or "no provider"))

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the drawing of the others."""
        return _SIDE * min(self.drawn, _COLUMNS), _SIDE * -(-self.drawn // _COLUMNS)


class _Ranked(NamedTuple):
    """A cluster with what the order of the map needs. The worst and fullest come first."""

    order: int
    emptiness: int
    name: str
    cluster: FleetCluster

    @property
    def kind(self) -> str:
        return state_of(self.cluster)[0]

    @property
    def look(self) -> str:
        if self.kind != _READY:
            return self.kind
        return f"l{min(LEVELS - 1, (100 - self.emptiness) * LEVELS // 100)}"


def map_regions(clusters: Sequence[FleetCluster]) -> tuple[tuple[MapRegion, ...], int]:
    """Return the regions, those with the most clusters that are not ready first, and how many more there are."""
    placed = sorted((_ranked(each) for each in clusters), key=lambda each: each[:3])
    linked = len(placed) if len(placed) <= LINKED else min(WORST, sum(each.kind != _READY for each in placed))
    whole: dict[tuple[str, str], list[_Ranked]] = {}
    squares: Counter[tuple[str, str]] = Counter()
    for index, each in enumerate(placed):
        key = each.cluster.region, each.cluster.provider
        whole.setdefault(key, []).append(each)
        squares[key] += index < linked
    ordered = sorted(whole, key=lambda key: (-sum(each.kind == "bad" for each in whole[key]), not key[0], key))
    return tuple(_region(key, whole[key], squares[key]) for key in ordered[:REGIONS]), max(0, len(ordered) - REGIONS)


def summary_of(clusters: Sequence[FleetCluster]) -> str:
    """Return how many clusters there are, and how many are in each state."""
    states = Counter(state_of(each)[1] for each in clusters)
    parts = [f"{states[state]:,} {state}" for state in STATE_ORDER if states[state]]
    return f"{number_text(len(clusters), 'cluster')}: {', '.join(parts)}"


def _ranked(cluster: FleetCluster) -> _Ranked:
    fullest = max((load.total for load in _loads(cluster)), default=0)
    return _Ranked(STATE_ORDER[state_of(cluster)[1]], 100 - min(100, fullest), cluster.name, cluster)


def _loads(cluster: FleetCluster) -> list[Load]:
    return [load_of(name, cluster.resources[name]) for name in BASIC if name in cluster.resources]


def _region(key: tuple[str, str], placed: Sequence[_Ranked], squares: int) -> MapRegion:
    rest = placed[squares:]
    return MapRegion(
        *key,
        summary_of([each.cluster for each in placed]),
        tuple(map(_square, placed[:squares])),
        _runs([each.look for each in rest]),
        len(rest),
    )


def _square(placed: _Ranked) -> MapSquare:
    cluster = placed.cluster
    used = ", ".join(f"{load.label} {load.text}" for load in _loads(cluster))
    title = f"{cluster.name}: {state_of(cluster)[1]}{f'; {used}' if used else ''}"
    return MapSquare(cluster.name, quote(cluster.name, safe=""), placed.look, title)


def _runs(looks: Sequence[str]) -> tuple[MapRun, ...]:
    """Return equal neighbours as one outline each: part of a row, whole rows, part of a row."""
    runs, begin = [], 0
    for end in range(1, len(looks) + 1):
        if end == len(looks) or looks[end] != looks[begin]:
            runs.append(MapRun(looks[begin], _outline(begin, end)))
            begin = end
    return tuple(runs)


def _outline(begin: int, end: int) -> str:
    parts = []
    while begin < end:
        row, column = divmod(begin, _COLUMNS)
        rows = (end - begin) // _COLUMNS if column == 0 else 0
        width = _COLUMNS if rows else min(_COLUMNS - column, end - begin)
        height = max(1, rows)
        parts.append(f"M{_SIDE * column} {_SIDE * row}h{_SIDE * width}v{_SIDE * height}h-{_SIDE * width}z")
        begin += width * height
    return "".join(parts)
