"""What the page Fleet shows: pure functions of the fleet and of what the visitor chose.

The map has one square for each cluster, by region, the worst first. The page stays small for any fleet. In a small
fleet each square is a link. In a large one only the worst clusters have squares with links; all others are drawn
together, and their region is one link to its table.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final

from msgspec import structs

from berthmaster.model.cached import cached_property
from berthmaster.model.errors import printable
from berthmaster.native_api.fleet import FleetCluster, FleetView, sum_of
from berthmaster.views.texts import count_text
from console.pages import lists
from console.pages.amounts import BASIC, Load, nearly_full

LINKED: Final = 500
"""The most clusters of a fleet whose squares all have links."""
WORST: Final = 300
"""The most squares with links in a larger fleet."""
REGIONS: Final = 120
_COLUMNS: Final = 50
_SIDE: Final = 10
VIEWS: Final = ("map", "table")
STATES: Final = ("ready", "not-ready", "draining", "tainted", "nearly-full", "deleting")
UNKNOWN: Final = "-"
"""Stands for a region or a provider that clusters do not report."""
ATTENTION: Final = 8
"""The most clusters that stand above the map with their reasons."""
_MAX_OPTION: Final = 60
_WORST_FIRST: Final = ("not ready", "nearly full", "tainted", "draining", "deleting", "ready")
"""Damage first. What people planned comes last."""
STATE_ORDER: Final = {state: number for number, state in enumerate(_WORST_FIRST)}
_RANKS: Final = ("first choice", "second", "third")


def _is_nearly_full(cluster: FleetCluster) -> bool:
    return any(nearly_full(cluster.resources[name]) for name in BASIC if name in cluster.resources)


_STATES: Final[Mapping[str, tuple[str, Callable[[FleetCluster], bool]]]] = {
    "deleting": ("bad", lambda each: each.deleting),
    "not ready": ("bad", lambda each: not each.ready),
    "draining": ("busy", lambda each: each.draining),
    "tainted": ("warn", lambda each: bool(each.taints)),
    "nearly full": ("warn", _is_nearly_full),
    "ready": ("good", lambda each: each.ready and not each.deleting),
}
"""The states of clusters: the kind of the badge, and whether a cluster has it. A cluster is in the first of these."""


def state_of(cluster: FleetCluster) -> tuple[str, str]:
    return next((kind, state) for state, (kind, holds) in _STATES.items() if holds(cluster))


@dataclass(frozen=True)
class Tile:
    """One cluster, for a tile, a row or a page. ``counted`` says whether it has the numbers of its workloads."""

    cluster: FleetCluster
    counted: bool = True

    @cached_property
    def badge(self) -> tuple[str, str]:
        return state_of(self.cluster)

    @property
    def kind(self) -> str:
        return self.badge[0]

    @property
    def state(self) -> str:
        return self.badge[1]

    @property
    def details(self) -> Iterator[str]:
        """What is wrong with the cluster beyond its state."""
        cluster = self.cluster
        if not cluster.ready:
            yield cluster.ready_message or "It is not ready, and reports no reason."
        if cluster.deleting and self.state != "deleting":
            yield "It is being removed from the fleet."
        if not cluster.resources:
            yield "It reports no resources."

    @cached_property
    def loads(self) -> list[Load]:
        resources = self.cluster.resources
        return [Load(name, resources[name]) for name in BASIC if name in resources]

    @property
    def others(self) -> list[Load]:
        resources = self.cluster.resources
        return [Load(name, resources[name]) for name in sorted(resources.keys() - set(BASIC))]

    @cached_property
    def fullness(self) -> int:
        """How much of the fullest resource is in use, in percent, at most 100."""
        return min(100, max((load.total for load in self.loads), default=0))

    @property
    def look(self) -> str:
        return f"l{min(LEVELS - 1, self.fullness * LEVELS // 100)}" if self.kind == _READY else self.kind

    @property
    def title(self) -> str:
        used = ", ".join(f"{load.label} {load.text}" for load in self.loads)
        return f"{self.cluster.name}: {self.state}{f'; {used}' if used else ''}"

    @property
    def counts(self) -> str:
        """How many workloads are assigned to it, in words; empty if that is not known or not shown."""
        known = self.cluster.workloads is not None and self.counted
        return count_text(self.cluster.workloads or 0, "workload") if known else ""

    @property
    def choices(self) -> str:
        """These workloads by the position of their group, in words; empty as ``counts``."""
        cluster = self.cluster
        if not self.counted or cluster.workloads is None or cluster.by_group is None:
            return ""
        named, later = dict(zip(_RANKS, cluster.by_group, strict=False)), sum(cluster.by_group[len(_RANKS) :])
        alone = cluster.without_groups or 0
        other = cluster.workloads - sum(cluster.by_group) - alone
        named |= {"later": later, "without groups": alone, "in an unknown group": other}
        return ", ".join(f"{count:,} {name}" for name, count in named.items() if count)

    @property
    def movements(self) -> str:
        moving = {"arriving": self.cluster.arriving, "leaving": self.cluster.leaving} if self.counted else {}
        return ", ".join(f"{count:,} {what}" for what, count in moving.items() if count)

    @property
    def taint_line(self) -> str:
        """Its first taint, and how many more there are; empty without taints."""
        taints = self.cluster.taints
        return f"{taints[0]}{f' and {len(taints) - 1} more' if len(taints) > 1 else ''}" if taints else ""


LEVELS: Final = 5
_READY: Final = "good"


@dataclass(frozen=True, slots=True)
class MapRegion:
    """The clusters of one region and provider.

    Attributes:
        squares: the clusters that have a square with a link.
        runs: the look and the outline of squares that are drawn together; ``drawn`` is their number.
    """

    region: str
    provider: str
    summary: str
    squares: Sequence[Tile]
    runs: Sequence[tuple[str, str]]
    drawn: int

    @property
    def title(self) -> str:
        if not self.region and not self.provider:
            return "No region, no provider"
        return " · ".join((self.region or "no region", self.provider or "no provider"))

    @property
    def size(self) -> tuple[int, int]:
        return _SIDE * min(self.drawn, _COLUMNS), _SIDE * -(-self.drawn // _COLUMNS)


def map_regions(clusters: Sequence[FleetCluster]) -> tuple[list[MapRegion], int]:
    """Return the regions by name, and how many more there are. A region keeps its place whatever happens in it.

    The worst and fullest clusters of a region come first.
    """
    placed = sorted(map(Tile, clusters), key=lambda each: (STATE_ORDER[each.state], -each.fullness, each.cluster.name))
    linked = len(placed) if len(placed) <= LINKED else min(WORST, sum(each.kind != _READY for each in placed))
    whole: dict[tuple[str, str], list[Tile]] = {}
    squares: Counter[tuple[str, str]] = Counter()
    for index, each in enumerate(placed):
        key = each.cluster.region, each.cluster.provider
        whole.setdefault(key, []).append(each)
        squares[key] += index < linked
    ordered = sorted(whole, key=lambda key: (not key[0], key))
    return [_region(key, whole[key], squares[key]) for key in ordered[:REGIONS]], max(0, len(ordered) - REGIONS)


def _region(key: tuple[str, str], placed: Sequence[Tile], squares: int) -> MapRegion:
    states = Counter(each.state for each in placed)
    parts = [f"{states[state]:,} {state}" for state in STATE_ORDER if states[state]]
    summary = f"{count_text(len(placed), 'cluster')}: {', '.join(parts)}"
    rest = placed[squares:]
    return MapRegion(*key, summary, placed[:squares], list(_runs([each.look for each in rest])), len(rest))


def _runs(looks: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield equal neighbours as one outline each: part of a row, whole rows, part of a row."""
    begin = 0
    for look, group in groupby(looks):
        end = begin + len(list(group))
        yield look, _outline(begin, end)
        begin = end


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


@dataclass(frozen=True, slots=True)
class FleetQuestion:
    """What the visitor chose.

    Attributes:
        region, provider: the exact value, or ``UNKNOWN``; empty for all.
        sort: a key of the orders, with a leading ``-`` for descending.
    """

    view: str = "map"
    q: str = ""
    region: str = ""
    provider: str = ""
    state: str = ""
    sort: str = "state"
    page: int = 1


@dataclass(frozen=True, slots=True)
class FleetPage:
    """What the page shows.

    Attributes:
        same: what all clusters of the table have in common: the name of a column, and its text.
        figures: the numbers above the clusters: kind, number, text, and the state that is counted, one of ``STATES``.
        regions, providers, states: the values of each filter, with the number of clusters that have it.
    """

    rows: Sequence[Tile]
    same: Mapping[str, str]
    areas: Sequence[MapRegion]
    more_areas: int
    attention: Sequence[Tile]
    figures: Sequence[tuple[str, str, str, str]]
    loads: Sequence[Load]
    regions: Sequence[tuple[str, str]]
    providers: Sequence[tuple[str, str]]
    states: Sequence[tuple[str, str]]
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

    others = accepted(replace(question, state=""))
    known = any(each.workloads is not None for each in view.clusters)
    return FleetPage(
        rows=[Tile(each, counted) for each in shown] if table else (),
        same=_same(found) if table else {},
        areas=areas,
        more_areas=more,
        attention=() if table else [Tile(each, counted) for each in _attention(found)],
        figures=list(_figures(found)),
        loads=list(_loads_together(found)),
        regions=_choices((each.region for each in accepted(replace(question, region=""))), question.region),
        providers=_choices((each.provider for each in accepted(replace(question, provider=""))), question.provider),
        states=[(state, f"{_word(state)} ({_count(others, state):,})") for state in STATES],
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
        and (not question.state or _STATES[_word(question.state)][1](cluster))
    )


def _word(state: str) -> str:
    """Return the word for a state of an address."""
    return state.replace("-", " ")


def _count(clusters: Iterable[FleetCluster], state: str) -> int:
    return sum(map(_STATES[_word(state)][1], clusters))


def _sorted(clusters: Sequence[FleetCluster], question: FleetQuestion) -> list[FleetCluster]:
    """Return clusters in the order of the page. What is not known comes last, in both directions."""
    key = _SORT_KEYS[question.sort.removeprefix("-")]
    known = [each for each in clusters if key(each) is not None]
    # Equal values stay in the order of their names.
    known.sort(key=key, reverse=question.sort.startswith("-"))
    return known + [each for each in clusters if key(each) is None]


def _percent_of(name: str) -> Callable[[FleetCluster], int | None]:
    def percent(cluster: FleetCluster) -> int | None:
        amount = cluster.resources.get(name)
        load = Load(name, amount) if amount is not None else None
        return None if load is None or load.percent is None else load.total

    return percent


_SORT_KEYS: Final[Mapping[str, Callable[[FleetCluster], Any]]] = {
    "name": lambda each: each.name,
    "state": lambda each: (STATE_ORDER[state_of(each)[1]], 0 if each.ready else -(each.workloads or 0)),
    "region": lambda each: each.region or None,
    "provider": lambda each: each.provider or None,
    **{name: _percent_of(name) for name in BASIC},
    "workloads": lambda each: each.workloads,
    "replicas": lambda each: each.replicas,
}
SORTS: Final = tuple(_SORT_KEYS)


def _attention(found: Sequence[FleetCluster]) -> list[FleetCluster]:
    """Return the worst clusters that need a look: those that are ready and only nearly full do not.

    Clusters with damage come first, by the number of their workloads. Planned work comes last: drains and deletions.
    """
    wrong = [each for each in found if state_of(each)[1] in {"deleting", "not ready", "draining"}]
    return sorted(wrong, key=_urgency)[:ATTENTION]


def _urgency(cluster: FleetCluster) -> tuple[bool, bool, int, str]:
    return cluster.deleting, cluster.ready, 0 if cluster.ready else -(cluster.workloads or 0), cluster.name


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
    alike = {name: next(iter(of)) for name, of in texts.items() if len(of) == 1}
    return {name: text for name, text in alike.items() if name != "Other resources" or text == "none"}


def _loads_together(clusters: Sequence[FleetCluster]) -> Iterator[Load]:
    for name in BASIC:
        amounts = [each.resources[name] for each in clusters if name in each.resources]
        if any(each.used is not None for each in amounts):
            yield Load(name, sum_of(amounts))


def _figures(clusters: Sequence[FleetCluster]) -> Iterator[tuple[str, str, str, str]]:
    yield "", f"{len(clusters):,}", "clusters" if len(clusters) != 1 else "cluster", ""
    for state, kind in zip(STATES, ("", "bad", "warn", "warn", "warn", "bad"), strict=True):
        if (count := _count(clusters, state)) or state == "ready":
            yield kind, f"{count:,}", _word(state), state


def _choices(values: Iterable[str], chosen: str) -> list[tuple[str, str]]:
    counts = Counter({chosen: 0} if chosen else {})
    counts.update(value or UNKNOWN for value in values)
    return [
        (value, f"{'not known' if value == UNKNOWN else printable(value, _MAX_OPTION)} ({count:,})")
        for value, count in sorted(counts.items(), key=lambda pair: (pair[0] == UNKNOWN, pair[0]))
    ]
