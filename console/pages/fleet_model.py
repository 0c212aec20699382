"""What the page Fleet shows: pure functions of the fleet and of what the visitor chose."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from berthmaster.model.printable import printable
from berthmaster.native_api.fleet import FleetAmount, FleetCluster, FleetView, sum_of
from console.pages import lists
from console.pages.amounts import BASIC, Load, load_of
from console.pages.fleet_tiles import Tile, is_nearly_full, number_text, state_of, tile_of

VIEWS: Final = ("tiles", "table")
STATES: Final = ("ready", "not-ready", "draining", "tainted", "nearly-full", "deleting")
SORTS: Final = ("name", "state", "region", "provider", "cpu", "memory", "pods", "workloads", "replicas")
UNKNOWN: Final = "-"
"""Stands for a region or a provider that clusters do not report."""
TILES: Final = 2000
"""The most tiles of one page."""
ROWS: Final = 100
"""The most rows of one page of the table."""
_MAX_OPTION: Final = 60
_STATE_ORDER: Final = {"deleting": 0, "not ready": 1, "draining": 2, "tainted": 3, "nearly full": 4, "ready": 5}


@dataclass(frozen=True, slots=True)
class FleetQuestion:
    """What the visitor chose.

    Attributes:
        view: one of ``VIEWS``.
        q: a part of the name; empty for all.
        region, provider: the exact value, or ``UNKNOWN``; empty for all.
        state: one of ``STATES``; empty for all.
        sort: one of ``SORTS``, with a leading ``-`` for descending.
        page: the number of the page, from 1.
    """

    view: str = "tiles"
    q: str = ""
    region: str = ""
    provider: str = ""
    state: str = ""
    sort: str = "name"
    page: int = 1


@dataclass(frozen=True, slots=True)
class ClusterSection:
    """The clusters of one region and provider.

    Attributes:
        region, provider: the values; empty if they are not known.
        summary: how many clusters there are and what is wrong with them, in words.
        loads: the resources of all of them together.
        tiles: the clusters of this page.
    """

    region: str
    provider: str
    summary: str
    loads: tuple[Load, ...]
    tiles: tuple[Tile, ...]

    @property
    def title(self) -> str:
        """The name of the section."""
        if not self.region and not self.provider:
            return "No region, no provider"
        return " · ".join((self.region or "no region", self.provider or "no provider"))


class Choice(NamedTuple):
    """A value of a filter, with the number of clusters that have it."""

    value: str
    text: str


@dataclass(frozen=True, slots=True)
class FleetPage:
    """What the page shows.

    Attributes:
        question: what the visitor chose.
        sections: the clusters of this page by region and provider; one section without names for the table.
        figures: the numbers above the clusters: kind, number, text, and the state that is counted, one of ``STATES``.
        loads: the resources of all shown clusters together.
        regions, providers, states: the values of the filters.
        paging: which part of the list this page shows.
        counted: whether the numbers of workloads are shown.
        grouped: whether workloads are known by the position of their group.
    """

    question: FleetQuestion
    sections: tuple[ClusterSection, ...]
    figures: tuple[tuple[str, str, str, str], ...]
    loads: tuple[Load, ...]
    regions: tuple[Choice, ...]
    providers: tuple[Choice, ...]
    states: tuple[Choice, ...]
    paging: lists.Paging
    counted: bool


def fleet_page(view: FleetView, question: FleetQuestion, *, counted: bool = True) -> FleetPage:
    """Return what the page shows.

    Args:
        view: the fleet.
        question: what the visitor chose.
        counted: whether the visitor may see how many workloads there are, in all namespaces.
    """
    found = [each for each in view.clusters if _matches(each, question)]
    found = _sorted(found, question)
    size = TILES if question.view == "tiles" else ROWS
    shown, part = lists.cut(found, question.page, size, len(view.clusters))
    known = any(each.workloads is not None for each in view.clusters)
    return FleetPage(
        question=question,
        sections=_sections(shown, found, counted=counted) if question.view == "tiles" else _rows(shown, counted),
        figures=_figures(found),
        loads=_loads_together(found),
        regions=_choices(each.region for each in view.clusters),
        providers=_choices(each.provider for each in view.clusters),
        states=_state_choices(view.clusters),
        paging=part,
        counted=counted and known,
    )


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
    if question.view == "tiles":
        ordered.sort(key=lambda each: (not each.region, each.region, not each.provider, each.provider))
    return ordered


def _percent_of(name: str) -> Callable[[FleetCluster], int | None]:
    def percent(cluster: FleetCluster) -> int | None:
        amount = cluster.resources.get(name)
        load = load_of(name, amount) if amount is not None else None
        return None if load is None or load.percent is None else load.total

    return percent


_SORT_KEYS: Final[dict[str, Callable[[FleetCluster], int | str | None]]] = {
    "state": lambda each: _STATE_ORDER[state_of(each)[1]],
    "region": lambda each: each.region or None,
    "provider": lambda each: each.provider or None,
    "workloads": lambda each: each.workloads,
    "replicas": lambda each: each.replicas,
    **{name: _percent_of(name) for name in BASIC},
}


def _sections(
    shown: Sequence[FleetCluster], found: Sequence[FleetCluster], *, counted: bool
) -> tuple[ClusterSection, ...]:
    """Return the sections of this page. Their summaries are about all clusters that match, also on other pages."""
    whole: dict[tuple[str, str], list[FleetCluster]] = {}
    for each in found:
        whole.setdefault((each.region, each.provider), []).append(each)
    tiles: dict[tuple[str, str], list[Tile]] = {}
    for each in shown:
        tiles.setdefault((each.region, each.provider), []).append(tile_of(each, counted=counted))
    return tuple(
        ClusterSection(*key, _summary(whole[key]), _loads_together(whole[key]), tuple(of_section))
        for key, of_section in tiles.items()
    )


def _rows(shown: Sequence[FleetCluster], counted: bool) -> tuple[ClusterSection, ...]:  # noqa: FBT001 - one caller
    return (ClusterSection("", "", "", (), tuple(tile_of(each, counted=counted) for each in shown)),)


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


def _summary(clusters: Sequence[FleetCluster]) -> str:
    states = Counter(state_of(each)[1] for each in clusters)
    parts = [f"{states[state]:,} {state}" for state in _STATE_ORDER if states[state]]
    return f"{number_text(len(clusters), 'cluster')}: {', '.join(parts)}"


def _choices(values: Iterable[str]) -> tuple[Choice, ...]:
    counts = Counter(value or UNKNOWN for value in values)
    return tuple(
        Choice(value, f"{'not known' if value == UNKNOWN else printable(value, _MAX_OPTION)} ({count:,})")
        for value, count in sorted(counts.items(), key=lambda pair: (pair[0] == UNKNOWN, pair[0]))
    )


def _state_choices(clusters: Sequence[FleetCluster]) -> tuple[Choice, ...]:
    return tuple(
        Choice(state, f"{state.replace('-', ' ')} ({sum(_has_state(each, state) for each in clusters):,})")
        for state in STATES
    )
