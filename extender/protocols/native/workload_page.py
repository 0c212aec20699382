"""``/v1/workloads``: the workloads of the service, filtered, sorted and in pages."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Final

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
from extender.state.placed_index import PlacedIndex, in_order
from extender.state.placed_totals import WorkloadTotals
from extender.state.placed_workload import PlacedWorkload, is_on, row_of

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
    totals, found = index.totals(query.namespaces), matching(index, query, now)
    page = found[query.offset : query.offset + query.limit]
    return WorkloadPage(
        items=[row_of(each, now) for each in page],
        matched=len(found),
        total=totals.workloads,
        facets=facets_of(totals, index.sizes(query.namespaces), now),
        version="",
        gaps=[],
        staleness=Staleness(None, None, ""),
    )


def matching(index: PlacedIndex, query: WorkloadQuery, now: datetime) -> list[PlacedWorkload]:
    """Return all workloads that a query matches, in its order."""
    filters = list(_filters(query, now))
    if not filters:
        return index.ordered(query.sort, descending=query.descending)
    rows = index.by_name()
    for matches in filters:
        rows = [each for each in rows if matches(each)]
    return in_order(rows, query.sort, descending=query.descending)


def facets_of(totals: WorkloadTotals, namespaces: Mapping[str, int], now: datetime) -> WorkloadFacets:
    """Return how many of the workloads that a reader may see have each value.

    Args:
        totals: the totals of these workloads.
        namespaces: the number of workloads of each namespace.
        now: the time; a hold-down may be over.
    """
    states = totals.states
    counted: Mapping[Restriction, int] = {
        Restriction.NOT_PREFERRED: totals.not_preferred,
        Restriction.NOWHERE: states[WorkloadState.NOWHERE.value],
        Restriction.SHORT: states[WorkloadState.SHORT.value],
        Restriction.MOVING: totals.moving,
        Restriction.HELD_DOWN: totals.held_down(now),
        Restriction.SUSPENDED: states[WorkloadState.SUSPENDED.value],
    }
    return WorkloadFacets(
        namespaces=_most_frequent(namespaces),
        policies=_most_frequent(totals.policies),
        clusters=_most_frequent(totals.clusters),
        groups=_most_frequent(totals.groups),
        states={each.value: states[each.value] for each in WorkloadState},
        only={each.value: counted[each] for each in Restriction},
    )


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


def _filters(query: WorkloadQuery, now: datetime) -> Iterable[Filter]:
    """Yield a filter for each condition of a query, the cheapest ones first."""
    if query.namespaces is not None:
        visible = frozenset("" if each == CLUSTER_SCOPED else each for each in query.namespaces if each)
        yield lambda each: each.binding.spec.resource.namespace in visible
    if query.namespace:
        of_namespace = "".__eq__ if query.namespace == CLUSTER_SCOPED else _meant(query.namespace, query)
        yield lambda each: of_namespace(each.binding.spec.resource.namespace)
    if query.policy:
        of_policy = _meant(query.policy, query)
        yield lambda each: of_policy(each.policy)
    if query.group:
        of_group = _meant(query.group, query)
        yield lambda each: each.group is not None and of_group(each.group)
    if query.only:
        yield partial(_meets, query.only, frozenset(_STATES[each] for each in query.only if each in _STATES), now)
    for word in query.q.lower().split():
        yield partial(_contains, word)
    if query.cluster:
        of_cluster = _meant(query.cluster, query)
        yield lambda each: is_on(each.binding, of_cluster)


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


def _meets(
    restrictions: frozenset[Restriction], states: frozenset[WorkloadState], now: datetime, placed: PlacedWorkload
) -> bool:
    """Return whether a workload meets one of the restrictions. ``states`` are those that restrictions name."""
    return (
        placed.state in states
        or bool(placed.group_index and Restriction.NOT_PREFERRED in restrictions)
        or (placed.moving and Restriction.MOVING in restrictions)
        or (placed.held_down_until is not None and Restriction.HELD_DOWN in restrictions and placed.held_down(now))
    )


def _contains(word: str, placed: PlacedWorkload) -> bool:
    return word in placed.text


def _most_frequent(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:MAX_FACETS])
