"""``/v1/workloads``: the workloads of the service, filtered, sorted and in pages."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec.structs

from berthmaster.kube.kinds import BINDINGS
from berthmaster.model.meta import CLUSTER_SCOPED
from berthmaster.model.reader import Reader
from berthmaster.native_api.fleet import (
    MAX_FACETS,
    MAX_ROWS,
    Restriction,
    SortKey,
    WorkloadFacets,
    WorkloadPage,
    WorkloadQuery,
    WorkloadState,
)
from berthmaster.native_api.wire import Staleness
from extender.protocols.native.fleet import staleness_of
from extender.protocols.native.parameters import choice, count, flag, names, number, text
from extender.protocols.native.schedule import require_watched
from extender.protocols.route import Parameter
from extender.protocols.services import Call, Services
from extender.state.placed_index import PlacedIndex, in_order, namespace_of
from extender.state.placed_totals import WorkloadTotals
from extender.state.placed_workload import PlacedWorkload, clusters_of, is_on, row_of

MAX_OFFSET: Final = 10_000_000
_SORT: Final = [f"{sign}{each.value}" for each in SortKey for sign in ("", "-")]
PARAMETERS: Final = {
    "q": text("Words that NAMESPACE/KIND/NAME contains, in any case."),
    "namespaces": text(
        "The namespaces that the reader may see, with commas; `-` for cluster-scoped workloads. All, if it is absent."
    ),
    "namespace": text("Only workloads of this namespace; `-` for cluster-scoped ones."),
    "policy": text("Only workloads of this policy, such as `PropagationPolicy shop/web`."),
    "cluster": text("Only workloads on this cluster."),
    "group": text("Only workloads in the group of this name."),
    "parts": Parameter(
        "Whether namespace, policy, cluster and group may be parts of names, in any case.",
        {"type": "boolean", "default": False},
    ),
    "only": text(
        f"Only workloads that meet one of these, with commas: {', '.join(each.value for each in Restriction)}."
    ),
    "sort": Parameter("The order; a dash before it reverses it.", {"type": "string", "enum": _SORT}),
    "offset": count("How many workloads to skip.", MAX_OFFSET, least=0),
    "limit": count("The most workloads of the page.", MAX_ROWS),
}

Filter = Callable[[PlacedWorkload], bool]


def workload_page(services: Services, call: Call, query: WorkloadQuery) -> WorkloadPage:
    """Return the page of workloads that a query asks for.

    Raises:
        Refusal: bindings are not watched, or the deadline has passed.
    """
    require_watched(services, BINDINGS, subject="the workloads are")
    state = services.state
    version, staleness = state.version, staleness_of(state.freshness)  # before the data, see ``State.version``
    gaps = state.gaps(Reader(query.namespaces))
    with state.placed() as index:
        services.check_deadline(call)
        found = listed(index, query, services.clock.now())
    services.check_deadline(call)
    return msgspec.structs.replace(found, version=version, gaps=gaps, staleness=staleness)


def listed(index: PlacedIndex, query: WorkloadQuery, now: datetime) -> WorkloadPage:
    """Return the page that a query asks for, without version, gaps and staleness."""
    totals, conditions = index.totals(query.namespaces), _conditions(query, now)
    found, facets = _found(index, query, conditions), _totals_by_facet(totals, index.sizes(query.namespaces), now)
    if conditions.words or conditions.by_facet:
        facets = {name: _counted(name, index, conditions, found, all_of_it, now) for name, all_of_it in facets.items()}
    return WorkloadPage(
        items=[row_of(each, now) for each in found[query.offset : query.offset + query.limit]],
        matched=len(found),
        total=totals.workloads,
        facets=WorkloadFacets(
            **{name: _most_frequent(facets[name]) for name in _COUNTERS},
            states={each.value: facets["states"][each.value] for each in WorkloadState},
            only={each.value: facets["only"][each.value] for each in Restriction},
        ),
        version="",
        gaps=[],
        staleness=Staleness(None, None, ""),
    )


def matching(index: PlacedIndex, query: WorkloadQuery, now: datetime) -> list[PlacedWorkload]:
    """Return all workloads that a query matches, in its order."""
    return _found(index, query, _conditions(query, now))


class _Conditions(NamedTuple):
    """The conditions of a query, the cheapest ones first.

    Attributes:
        visible: whether the reader may see a workload; empty if all are visible.
        words: those of the search.
        by_facet: the others, by the facet whose values they ask for.
    """

    visible: Sequence[Filter]
    words: Sequence[Filter]
    by_facet: Mapping[str, Filter]


def _found(index: PlacedIndex, query: WorkloadQuery, conditions: _Conditions) -> list[PlacedWorkload]:
    filters = [*conditions.visible, *conditions.words, *conditions.by_facet.values()]
    if not filters:
        return index.ordered(query.sort, descending=query.descending)
    return in_order(_accepted(index, filters), query.sort, descending=query.descending)


def _accepted(index: PlacedIndex, filters: Iterable[Filter]) -> list[PlacedWorkload]:
    rows = index.by_name()
    for matches in filters:
        rows = [each for each in rows if matches(each)]
    return rows


def _counted(
    name: str,
    index: PlacedIndex,
    conditions: _Conditions,
    found: Sequence[PlacedWorkload],
    all_of_it: Mapping[str, int],
    now: datetime,
) -> Mapping[str, int]:
    """Return how many of the workloads that all conditions on other facets accept have each value of a facet."""
    rows = found
    if name in conditions.by_facet:
        others = [each for other, each in conditions.by_facet.items() if other != name]
        if not (others or conditions.words):
            return all_of_it
        rows = _accepted(index, [*conditions.visible, *conditions.words, *others])
    match name:
        case "states":
            return Counter(each.state.value for each in rows)
        case "only":
            return {each.value: sum(map(meets, rows)) for each in Restriction for meets in [_meets(each, now)]}
        case _:
            return Counter(_COUNTERS[name](rows))


def _totals_by_facet(
    totals: WorkloadTotals, namespaces: Mapping[str, int], now: datetime
) -> dict[str, Mapping[str, int]]:
    """Return how many of the workloads that a reader may see have each value.

    Args:
        totals: the totals of these workloads.
        namespaces: the number of workloads of each namespace.
        now: the time; a hold-down may be over.
    """
    states = totals.states
    counted: Mapping[Restriction, int] = {
        Restriction.NOT_PREFERRED: totals.not_preferred,
        Restriction.MOVING: totals.moving,
        Restriction.HELD_DOWN: totals.held_down(now),
        **{restriction: states[state.value] for restriction, state in _STATES.items()},
    }
    return {
        "namespaces": namespaces,
        "policies": totals.policies,
        "clusters": totals.clusters,
        "groups": totals.groups,
        "states": states,
        "only": {each.value: counted[each] for each in Restriction},
    }


_COUNTERS: Final[Mapping[str, Callable[[Iterable[PlacedWorkload]], Iterable[str]]]] = {
    "namespaces": partial(map, namespace_of),
    "policies": lambda rows: (each.policy for each in rows if each.policy),
    "clusters": lambda rows: chain.from_iterable(clusters_of(each.binding) for each in rows),
    "groups": lambda rows: (each.group for each in rows if each.group),
}


def query_of(parameters: Mapping[str, str]) -> WorkloadQuery:
    """Return the query of a request with query parameters.

    Raises:
        Refusal: a parameter is invalid.
    """
    sort = parameters.get("sort", SortKey.NAMESPACE.value)
    return WorkloadQuery(
        q=parameters.get("q", ""),
        namespaces=names(parameters, "namespaces"),
        namespace=parameters.get("namespace", ""),
        policy=parameters.get("policy", ""),
        cluster=parameters.get("cluster", ""),
        group=parameters.get("group", ""),
        parts=flag(parameters, "parts"),
        only=frozenset(
            choice("only", each, Restriction) for each in filter(None, parameters.get("only", "").split(","))
        ),
        sort=choice("sort", sort.removeprefix("-"), SortKey),
        descending=sort.startswith("-"),
        offset=number(parameters, "offset", 0, MAX_OFFSET, least=0),
        limit=number(parameters, "limit", WorkloadQuery().limit, MAX_ROWS),
    )


def _conditions(query: WorkloadQuery, now: datetime) -> _Conditions:
    visible: list[Filter] = []
    by_facet: dict[str, Filter] = {}
    if query.namespaces is not None:
        shown = frozenset("" if each == CLUSTER_SCOPED else each for each in query.namespaces if each)
        visible.append(lambda each: each.binding.spec.resource.namespace in shown)
    words = [partial(_contains, word) for word in query.q.lower().split()]
    if query.namespace:
        of_namespace = "".__eq__ if query.namespace == CLUSTER_SCOPED else _meant(query.namespace, query)
        by_facet["namespaces"] = lambda each: of_namespace(each.binding.spec.resource.namespace)
    if query.policy:
        of_policy = _meant(query.policy, query)
        by_facet["policies"] = lambda each: of_policy(each.policy)
    if query.group:
        of_group = _meant(query.group, query)
        by_facet["groups"] = lambda each: each.group != "" and of_group(each.group)
    if query.only:
        restrictions = [_meets(each, now) for each in query.only]
        by_facet["only"] = restrictions[0] if len(restrictions) == 1 else partial(_meets_any, restrictions)
    if query.cluster:
        of_cluster = _meant(query.cluster, query)
        by_facet["clusters"] = lambda each: is_on(each.binding, of_cluster)
    return _Conditions(visible, words, by_facet)


def _meant(wanted: str, query: WorkloadQuery) -> Callable[[str], bool]:
    """Return whether a name is the wanted one, or contains it if the query asks for parts."""
    if not query.parts:
        return wanted.__eq__
    part = wanted.lower()
    return lambda name: part in name.lower()


_STATES: Final = {
    Restriction.NOWHERE: WorkloadState.NOWHERE,
    Restriction.SHORT: WorkloadState.SHORT,
    Restriction.SUSPENDED: WorkloadState.SUSPENDED,
}


def _meets(restriction: Restriction, now: datetime) -> Filter:
    """Return whether a workload meets a restriction."""
    match restriction:
        case Restriction.NOT_PREFERRED:
            return lambda each: bool(each.group_index)
        case Restriction.MOVING:
            return attrgetter("moving")
        case Restriction.HELD_DOWN:
            return lambda each: each.held_down_until is not None and each.held_down(now)
        case Restriction.NOWHERE | Restriction.SHORT | Restriction.SUSPENDED:
            state = _STATES[restriction]
            return lambda each: each.state is state


def _meets_any(restrictions: Sequence[Filter], placed: PlacedWorkload) -> bool:
    return any(meets(placed) for meets in restrictions)


def _contains(word: str, placed: PlacedWorkload) -> bool:
    return word in placed.text


def _most_frequent(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:MAX_FACETS])
