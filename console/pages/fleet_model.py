"""What the page Fleet shows: pure functions of the fleet and of what the visitor chose."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from msgspec import structs

from berthmaster.model.errors import printable
from berthmaster.native_api.fleet import FleetAmount, FleetCluster, FleetView, sum_of
from console.pages import lists
from console.pages.amounts import BASIC, Load, load_of
from console.pages.fleet_map import MapRegion, map_regions
from console.pages.fleet_tiles import STATE_ORDER, Tile, is_nearly_full, state_of, tile_of

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
