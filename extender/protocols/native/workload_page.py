"""``/v1/workloads``: the workloads of the service, filtered, sorted and in pages."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Final

import msgspec.structs

from berthmaster.kube.kinds import BINDINGS
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
from extender.protocols.native.parameters import choice, number
from extender.protocols.native.schedule import require_watched
from extender.protocols.services import Call, Services
from extender.state.placed_index import PlacedIndex, VisibleWorkloads, namespace_of
from extender.state.placed_workload import PlacedWorkload, is_on, row_of

PARAMETERS: Final = frozenset({
    "cluster", "group", "limit", "namespace", "namespaces", "offset", "only", "policy", "q", "sort",
})  # fmt: skip
MAX_OFFSET: Final = 10_000_000

Filter = Callable[[PlacedWorkload], bool]


def workload_page(services: Services, call: Call, query: WorkloadQuery) -> WorkloadPage:
    """Return the page of workloads that a query asks for.

    Raises:
        Refusal: bindings are not watched, or the deadline has passed.
    """
    require_watched(services, BINDINGS, subject="the workloads are")
    state = services.state
    version, gaps, staleness = state.version, state.gaps, staleness_of(state.freshness)  # see ``State.version``
    with state.placed() as index:
        services.check_deadline(call)
        found = listed(index, query, services.clock.now())
    services.check_deadline(call)
    return msgspec.structs.replace(found, version=version, gaps=gaps, staleness=staleness)


def listed(index: PlacedIndex, query: WorkloadQuery, now: datetime) -> WorkloadPage:
    """Return the page that a query asks for, without version, gaps and staleness."""
    visible, found = index.visible(query.namespaces), matching(index, query, now)
    page = found[query.offset : query.offset + query.limit]
    return WorkloadPage(
        items=[row_of(each, now) for each in page],
        matched=len(found),
        total=len(visible.rows),
        facets=facets_of(visible, now),
        version="",
        gaps=[],
        staleness=Staleness(None, None, ""),
    )


def matching(index: PlacedIndex, query: WorkloadQuery, now: datetime) -> list[PlacedWorkload]:
    """Return all workloads that a query matches, in its order."""
    rows = index.ordered(query.sort, descending=query.descending)
    for matches in _filters(query, now):
        rows = [each for each in rows if matches(each)]
    return rows


def facets_of(visible: VisibleWorkloads, now: datetime) -> WorkloadFacets:
    """Return how many of the workloads that a reader may see have each value."""
    counted: Mapping[Restriction, int] = {
        Restriction.NOT_PREFERRED: sum(each.preferred is False for each in visible.rows),
        Restriction.NOWHERE: visible.states[WorkloadState.NOWHERE.value],
        Restriction.SHORT: visible.states[WorkloadState.SHORT.value],
        Restriction.MOVING: sum(each.moving for each in visible.rows),
        Restriction.HELD_DOWN: sum(each.held_down(now) for each in visible.held),
        Restriction.SUSPENDED: visible.states[WorkloadState.SUSPENDED.value],
    }
    return WorkloadFacets(
        namespaces=_most_frequent(visible.namespaces),
        policies=_most_frequent(visible.policies),
        clusters=_most_frequent(visible.clusters),
        groups=_most_frequent(visible.groups),
        states={each.value: visible.states[each.value] for each in WorkloadState},
        only={each.value: counted[each] for each in Restriction},
    )


def query_of(parameters: Mapping[str, str]) -> WorkloadQuery:
    """Return the query of a request with query parameters.

    Raises:
        Refusal: a parameter is invalid.
    """
    sort = parameters.get("sort", SortKey.NAMESPACE.value)
    namespaces = parameters.get("namespaces")
    return WorkloadQuery(
        q=parameters.get("q", ""),
        namespaces=None if namespaces is None else frozenset(filter(None, namespaces.split(","))),
        namespace=parameters.get("namespace", ""),
        policy=parameters.get("policy", ""),
        cluster=parameters.get("cluster", ""),
        group=parameters.get("group", ""),
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
        namespaces = query.namespaces
        yield lambda each: namespace_of(each) in namespaces
    if query.namespace:
        yield lambda each: namespace_of(each) == query.namespace
    if query.policy:
        yield lambda each: each.policy == query.policy
    if query.group:
        yield lambda each: each.group == query.group
    if query.only:
        wanted = [_RESTRICTIONS[each] for each in query.only]
        yield lambda each: any(matches(each, now) for matches in wanted)
    for word in query.q.lower().split():
        yield partial(_contains, word)
    if query.cluster:
        yield lambda each: is_on(each.binding, query.cluster)


_RESTRICTIONS: Final[Mapping[Restriction, Callable[[PlacedWorkload, datetime], bool]]] = {
    Restriction.NOT_PREFERRED: lambda each, _: each.preferred is False,
    Restriction.NOWHERE: lambda each, _: each.state is WorkloadState.NOWHERE,
    Restriction.SHORT: lambda each, _: each.state is WorkloadState.SHORT,
    Restriction.MOVING: lambda each, _: each.moving,
    Restriction.HELD_DOWN: lambda each, now: each.held_down(now),
    Restriction.SUSPENDED: lambda each, _: each.state is WorkloadState.SUSPENDED,
}


def _contains(word: str, placed: PlacedWorkload) -> bool:
    resource = placed.binding.spec.resource
    return word in f"{resource.namespace}/{resource.kind}/{resource.name}".lower()


def _most_frequent(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:MAX_FACETS])
