"""What the page Fleet shows: pure functions of the fleet and of what the visitor chose.

The map has one square for each cluster, by region, the worst first. The page stays small for any fleet. In a small
fleet each square is a link. In a large one only the worst clusters have squares with links; all others are drawn
together, and their region is one link to its table.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple
from urllib.parse import quote

from msgspec import structs

from berthmaster.model.errors import printable
from berthmaster.native_api.fleet import FleetAmount, FleetCluster, FleetView, sum_of
from console.pages import lists
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


VIEWS: Final = ("map", "table")
STATES: Final = ("ready", "not-ready", "draining", "tainted", "nearly-full", "deleting")
SORTS: Final = ("name", "state", "region", "provider", "cpu", "memory", "pods", "workloads", "replicas")
UNKNOWN: Final = "-"
"""Stands for a region or a provider that clusters do not report."""
ATTENTION: Final = 8
"""The most clusters that stand above the map with their reasons."""
_MAX_OPTION: Final = 60


@dataclass(frozen=True, slots=True)
class FleetQuestion:
    """What the visitor chose.

    Attributes:
        region, provider: the exact value, or ``UNKNOWN``; empty for all.
        sort: one of ``SORTS``, with a leading ``-`` for descending.
    """

    view: str = "map"
    q: str = ""
    region: str = ""
    provider: str = ""
    state: str = ""
    sort: str = "name"
    page: int = 1


class Choice(NamedTuple):
    """A value of a filter, with the number of clusters that have it."""

    value: str
    text: str


@dataclass(frozen=True, slots=True)
class FleetPage:
    """What the page shows.

    Attributes:
        same: what all clusters of the table have in common: the name of a column, and its text.
        figures: the numbers above the clusters: kind, number, text, and the state that is counted, one of ``STATES``.
    """

    question: FleetQuestion
    rows: tuple[Tile, ...]
    same: Mapping[str, str]
    areas: tuple[MapRegion, ...]
    more_areas: int
    attention: tuple[Tile, ...]
    figures: tuple[tuple[str, str, str, str], ...]
    loads: tuple[Load, ...]
    regions: tuple[Choice, ...]
    providers: tuple[Choice, ...]
    states: tuple[Choice, ...]
    paging: lists.Paging
    counted: bool


def fleet_page(view: FleetView, question: FleetQuestion, rows: int = 50, *, counted: bool = True) -> FleetPage:
    """Return what the page shows.

    Args:
        counted: whether the visitor may see how many workloads there are, in all namespaces.
    """
    found = listed_clusters(view, question)
    table = question.view == "table"
    shown, part = lists.cut(found, question.page, rows if table else max(1, len(found)), len(view.clusters))
    areas, more = ((), 0) if table else map_regions(found)

    def accepted(free: FleetQuestion) -> list[FleetCluster]:
        """Return the clusters that the other filters accept: what a value of the free one would show."""
        return [each for each in view.clusters if _matches(each, free)]

    known = any(each.workloads is not None for each in view.clusters)
    return FleetPage(
        question=question,
        rows=tuple(tile_of(each, counted=counted) for each in shown) if table else (),
        same=_same(found) if table else {},
        areas=areas,
        more_areas=more,
        attention=() if table else _attention(found, counted=counted),
        figures=_figures(found),
        loads=_loads_together(found),
        regions=_choices((each.region for each in accepted(replace(question, region=""))), question.region),
        providers=_choices((each.provider for each in accepted(replace(question, provider=""))), question.provider),
        states=_state_choices(accepted(replace(question, state=""))),
        paging=part,
        counted=counted and known,
    )


def listed_clusters(view: FleetView, question: FleetQuestion, *, counted: bool = True) -> list[FleetCluster]:
    """Return the clusters that the filters accept, in order; without numbers of workloads if ``counted`` is false."""
    found = _sorted([each for each in view.clusters if _matches(each, question)], question)
    if counted:
        return found
    hidden = dict.fromkeys(("workloads", "replicas", "by_group", "without_groups", "arriving", "leaving"))
    return [structs.replace(each, **hidden) for each in found]


def _matches(cluster: FleetCluster, question: FleetQuestion) -> bool:
    return (
        (not question.q or question.q.lower() in cluster.name.lower())
        and question.region in {"", cluster.region or UNKNOWN}
        and question.provider in {"", cluster.provider or UNKNOWN}
        and (not question.state or _has_state(cluster, question.state))
    )


def _has_state(cluster: FleetCluster, state: str) -> bool:
    match state:
        case "ready":
            return cluster.ready and not cluster.deleting
        case "not-ready":
            return not cluster.ready
        case "draining":
            return cluster.draining
        case "tainted":
            return bool(cluster.taints)
        case "nearly-full":
            return is_nearly_full(cluster)
        case _:
            return cluster.deleting


def _sorted(clusters: list[FleetCluster], question: FleetQuestion) -> list[FleetCluster]:
    """Return clusters in the order of the page. What is not known comes last, in both directions."""
    name, descending = question.sort.removeprefix("-"), question.sort.startswith("-")
    if name == "name":
        ordered = sorted(clusters, key=lambda each: each.name, reverse=descending)
    else:
        key = _SORT_KEYS[name]
        known = [(value, each) for each in clusters if (value := key(each)) is not None]
        unknown = [each for each in clusters if key(each) is None]
        # Equal values stay in the order of their names.
        known.sort(key=lambda pair: pair[0], reverse=descending)
        ordered = [each for _, each in known] + unknown
    return ordered


def _percent_of(name: str) -> Callable[[FleetCluster], int | None]:
    def percent(cluster: FleetCluster) -> int | None:
        amount = cluster.resources.get(name)
        load = load_of(name, amount) if amount is not None else None
        return None if load is None or load.percent is None else load.total

    return percent


_SORT_KEYS: Final[dict[str, Callable[[FleetCluster], int | str | None]]] = {
    "state": lambda each: STATE_ORDER[state_of(each)[1]],
    "region": lambda each: each.region or None,
    "provider": lambda each: each.provider or None,
    "workloads": lambda each: each.workloads,
    "replicas": lambda each: each.replicas,
    **{name: _percent_of(name) for name in BASIC},
}


def _attention(found: Sequence[FleetCluster], *, counted: bool) -> tuple[Tile, ...]:
    """Return the worst clusters that need a look: those that are ready and only nearly full do not."""
    wrong = [each for each in found if state_of(each)[1] in {"deleting", "not ready", "draining"}]
    wrong.sort(key=lambda each: (STATE_ORDER[state_of(each)[1]], each.name))
    return tuple(tile_of(each, counted=counted) for each in wrong[:ATTENTION])


def _same(found: Sequence[FleetCluster]) -> Mapping[str, str]:
    """Return the columns that would say the same in each row, with what they would say."""
    if len(found) < 2:
        return {}
    columns: Mapping[str, Callable[[FleetCluster], str]] = {
        "Region": lambda each: each.region or "not known",
        "Provider": lambda each: each.provider or "not known",
        "Taints": lambda each: ", ".join(map(str, each.taints)) or "none",
        "Version": lambda each: each.kubernetes_version or "not known",
        "Other resources": lambda each: ", ".join(sorted(set(each.resources) - set(BASIC))) or "none",
    }
    texts = {name: {text(each) for each in found} for name, text in columns.items()}
    # The amounts of extended resources differ, so their column says the same only if there are none.
    return {
        name: of.copy().pop()
        for name, of in texts.items()
        if len(of) == 1 and (name != "Other resources" or of == {"none"})
    }


def _loads_together(clusters: Sequence[FleetCluster]) -> tuple[Load, ...]:
    loads = []
    for name in BASIC:
        amounts: list[FleetAmount] = [each.resources[name] for each in clusters if name in each.resources]
        if any(each.used is not None for each in amounts):
            loads.append(load_of(name, sum_of(amounts)))
    return tuple(loads)


def _figures(clusters: Sequence[FleetCluster]) -> tuple[tuple[str, str, str, str], ...]:
    ready = sum(_has_state(each, "ready") for each in clusters)
    figures = [
        ("", f"{len(clusters):,}", "clusters" if len(clusters) != 1 else "cluster", ""),
        ("", f"{ready:,}", "ready", "ready"),
    ]
    for state, kind, text in (
        ("not-ready", "bad", "not ready"),
        ("draining", "warn", "draining"),
        ("tainted", "warn", "tainted"),
        ("nearly-full", "warn", "nearly full"),
        ("deleting", "bad", "deleting"),
    ):
        if count := sum(_has_state(each, state) for each in clusters):
            figures.append((kind, f"{count:,}", text, state))
    return tuple(figures)


def _choices(values: Iterable[str], chosen: str) -> tuple[Choice, ...]:
    counts = Counter({chosen: 0} if chosen else {})
    counts.update(value or UNKNOWN for value in values)
    return tuple(
        Choice(value, f"{'not known' if value == UNKNOWN else printable(value, _MAX_OPTION)} ({count:,})")
        for value, count in sorted(counts.items(), key=lambda pair: (pair[0] == UNKNOWN, pair[0]))
    )


def _state_choices(clusters: Sequence[FleetCluster]) -> tuple[Choice, ...]:
    return tuple(
        Choice(state, f"{state.replace('-', ' ')} ({sum(_has_state(each, state) for each in clusters):,})")
        for state in STATES
    )
