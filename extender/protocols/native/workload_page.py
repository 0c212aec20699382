"""``/v1/workloads``: the workloads of the service, filtered, sorted and in pages."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Final, NamedTuple

from berthmaster.deciding.running import hosts_of
from berthmaster.kube.watch_options import BINDINGS, WORKLOADS
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import InputError
from berthmaster.model.meta import CLUSTER_SCOPED
from berthmaster.model.readers import Reader
from berthmaster.model.selector import parse_selector
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
from berthmaster.native_api.problems import Damage
from berthmaster.scheduling.diagnosis import largest_first
from extender.protocols.native import parameters
from extender.protocols.native.schedule import require_watched
from extender.protocols.problem import Refusal
from extender.protocols.services import Call, Services
from extender.state.placed_index import PlacedIndex, WorkloadTotals, namespace_of
from extender.state.placed_workload import PlacedWorkload, row_of
from extender.state.problems import known_outages
from extender.state.state import State
from extender.state.workload_order import in_order

PARAMETERS: Final = {
    "q": parameters.text("Words that NAMESPACE/KIND/NAME contains, in any case."),
    "namespace": parameters.text("Only workloads of this namespace; `-` for cluster-scoped ones."),
    "policy": parameters.text("Only workloads of this policy, such as `PropagationPolicy shop/web`."),
    "cluster": parameters.text("Only workloads on this cluster."),
    "group": parameters.text("Only workloads in the group of this name."),
    "label": parameters.text("Only workloads whose labels meet this selector, as in kubectl: `team=shop,tier!=test`."),
    "owner": parameters.text("Only workloads of this owner, as their annotation says."),
    "parts": parameters.flag("Whether namespace, policy, cluster, group and owner may be parts, in any case."),
    "only": parameters.text(
        f"Only workloads that meet one of these, with commas: {', '.join(each.value for each in Restriction)}."
    ),
    "sort": parameters.sort("The order; a dash before it reverses it.", [each.value for each in SortKey]),
    "offset": parameters.number("How many workloads to skip.", parameters.MAX_OFFSET, least=0),
    "limit": parameters.number("The most workloads of the page.", MAX_ROWS),
    **parameters.NAMESPACES,
}

Filter = Callable[[Sequence[PlacedWorkload]], Sequence[PlacedWorkload]]
"""Returns those of some workloads that meet a condition, in their order. One call looks at all: lists are long."""
_STATES: Final = {
    Restriction.NOWHERE: WorkloadState.NOWHERE,
    Restriction.SHORT: WorkloadState.SHORT,
    Restriction.SUSPENDED: WorkloadState.SUSPENDED,
}


def workload_page(services: Services, call: Call) -> WorkloadPage:
    """Return the page of workloads that a query asks for; in a body if it is too long for a request line."""
    query = decode_json(WorkloadQuery, call.body) if call.body else query_of(call.query, parameters.reader_of(call))
    require_watched(services, BINDINGS, subject="the workloads are")
    state = services.state
    version, staleness = state.version, state.staleness  # before the data, see ``State.version``
    gaps = state.gaps(Reader(query.namespaces))
    with state.reading() as cache:
        hosts = hosts_of(cache.world.clusters)
    counts = state.copy_counts()
    with state.placed() as index:
        services.check_deadline(call)
        stopped = [each.placed for each in known_outages(index, hosts, counts) if each.damage is Damage.NO_COPY]
        met = _Met(services.clock.now(), frozenset(map(id, stopped)))
        totals, seen = index.totals(query.namespaces), sum(map(Reader(query.namespaces).sees, map(_place, stopped)))
        conditions = _conditions(index, query, met, _by_metadata(state, query))
        found = _found(index, query, conditions)
        facets = _totals_by_facet(totals, index.sizes(query.namespaces), met.now, seen)
        if conditions.words or conditions.facets:
            facets = {name: _counted(name, index, conditions, found, each, met) for name, each in facets.items()}
        rows = found[query.offset : query.offset + query.limit]
        page = WorkloadPage(
            items=[row_of(each, met.now, stopped=id(each) in met.stopped) for each in rows],
            matched=len(found),
            total=totals.workloads,
            facets=WorkloadFacets(
                **{name: _most_frequent(facets[name]) for name in _COUNTERS},
                states={each.value: facets["states"][each.value] for each in WorkloadState},
                only={each.value: facets["only"][each.value] for each in Restriction},
            ),
            version=version,
            gaps=gaps,
            staleness=staleness,
        )
    services.check_deadline(call)
    return page


class _Met(NamedTuple):
    """What says whether a workload meets a restriction: the time, and the workloads of which no copy runs, by id."""

    now: datetime
    stopped: frozenset[int]


def _place(placed: PlacedWorkload) -> str:
    return placed.binding.spec.resource.namespace


class _Conditions(NamedTuple):
    """The conditions of a query. None stands for all names."""

    visible: frozenset[str] | None
    namespaces: frozenset[str] | None
    clusters: frozenset[str] | None
    words: Sequence[Filter]
    by_facet: Mapping[str, Filter]

    @property
    def facets(self) -> frozenset[str]:
        named = {"namespaces": self.namespaces, "clusters": self.clusters}
        return frozenset(self.by_facet) | {name for name, each in named.items() if each is not None}


def _found(index: PlacedIndex, query: WorkloadQuery, conditions: _Conditions) -> Sequence[PlacedWorkload]:
    if not (conditions.facets or conditions.words or conditions.visible is not None):
        return index.ordered(query.sort, descending=query.descending)
    return in_order(_accepted(index, conditions), query.sort, descending=query.descending)


def _accepted(index: PlacedIndex, conditions: _Conditions, without: str = "") -> Sequence[PlacedWorkload]:
    names = conditions.visible
    if conditions.namespaces is not None and without != "namespaces":
        names = conditions.namespaces if names is None else names & conditions.namespaces
    if conditions.clusters is not None and without != "clusters":
        rows = index.on_clusters(conditions.clusters)
        if names is not None:
            rows = [each for each in rows if namespace_of(each) in names]
    else:
        rows = index.by_name() if names is None else index.in_namespaces(names)
    for accepted in (*conditions.words, *(each for name, each in conditions.by_facet.items() if name != without)):
        rows = accepted(rows)
    return rows


def _counted(
    name: str,
    index: PlacedIndex,
    conditions: _Conditions,
    found: Sequence[PlacedWorkload],
    all_of_it: Mapping[str, int],
    met: _Met,
) -> Mapping[str, int]:
    """Return how many of the workloads that all conditions on other facets accept have each value of a facet."""
    rows = found
    if name in conditions.facets:
        if not conditions.words and conditions.facets == {name}:
            return all_of_it
        rows = _accepted(index, conditions, without=name)
    match name:
        case "states":
            return Counter(each.state.value for each in rows)
        case "only":
            return {each.value: len(_meeting(each, met, rows)) for each in Restriction}
        case _:
            return Counter(_COUNTERS[name](rows))


def _totals_by_facet(
    totals: WorkloadTotals, namespaces: Mapping[str, int], now: datetime, stopped: int
) -> dict[str, Mapping[str, int]]:
    states = totals.states
    counted: Mapping[Restriction, int] = {
        Restriction.NOT_PREFERRED: totals.not_preferred,
        Restriction.MOVING: totals.moving,
        Restriction.HELD_DOWN: totals.held_down(now),
        Restriction.STOPPED: stopped,
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


def query_of(query: Mapping[str, str], reader: Reader) -> WorkloadQuery:
    """Return the query of a request with query parameters."""
    found = parameters.values(PARAMETERS, query)
    only = filter(None, found.pop("only", "").split(","))
    order = found.pop("sort", SortKey.NAMESPACE.value)
    return WorkloadQuery(
        **found,
        namespaces=reader.namespaces,
        only=frozenset(parameters.choice("only", each, Restriction) for each in only),
        sort=SortKey(order.removeprefix("-")),
        descending=order.startswith("-"),
    )


def _by_metadata(state: State, query: WorkloadQuery) -> Iterator[Filter]:
    """Yield the conditions on the resource templates of workloads. Raises ``Refusal`` for a wrong selector."""
    if (query.label or query.owner) and not state.watches(WORKLOADS):
        raise Refusal(409, "labels and owners are not known: start the extender with --watch workloads")
    if query.label:
        try:
            selector = parse_selector(query.label)
        except InputError as error:
            raise parameters.invalid("label", str(error)) from None
        yield lambda rows: [
            each for each in rows if selector.matches(state.metadata_of(each.binding).get("labels") or {})
        ]
    if query.owner:
        yield lambda rows: [each for each in rows if _is_owned(state, each, query)]


def _is_owned(state: State, placed: PlacedWorkload, query: WorkloadQuery) -> bool:
    owner = (state.metadata_of(placed.binding).get("annotations") or {}).get(state.owner, "")
    return query.owner.lower() in owner.lower() if query.parts else query.owner == owner


def _conditions(index: PlacedIndex, query: WorkloadQuery, met: _Met, by_metadata: Iterable[Filter]) -> _Conditions:
    totals = index.totals()
    by_facet: dict[str, Filter] = {}
    if query.policy:
        policies = _meant(query.policy, totals.policies, query)
        by_facet["policies"] = lambda rows: [each for each in rows if each.policy in policies]
    if query.group:
        groups = _meant(query.group, totals.groups, query)
        by_facet["groups"] = lambda rows: [each for each in rows if each.group in groups]
    if query.only:
        by_facet["only"] = partial(_meeting_any, query.only, met)
    return _Conditions(
        visible=query.namespaces,
        namespaces=_meant(query.namespace, index.sizes(), query) if query.namespace else None,
        clusters=_meant(query.cluster, totals.clusters, query) if query.cluster else None,
        words=[*(partial(_containing, word) for word in query.q.lower().split()), *by_metadata],
        by_facet=by_facet,
    )


def _meant(wanted: str, names: Iterable[str], query: WorkloadQuery) -> frozenset[str]:
    """Return the wanted name, or all names that contain it if the query asks for parts."""
    if not query.parts or wanted == CLUSTER_SCOPED:
        return frozenset([wanted])
    part = wanted.lower()
    return frozenset(each for each in names if part in each.lower() and each != CLUSTER_SCOPED)


def _cluster_names(placed: PlacedWorkload) -> Iterable[str]:
    spec = placed.binding.spec
    return placed.binding.deployed if spec.required_by else [target.name for target in spec.clusters]


_COUNTERS: Final[Mapping[str, Callable[[Iterable[PlacedWorkload]], Iterable[str]]]] = {
    "namespaces": partial(map, namespace_of),
    "policies": lambda rows: (each.policy for each in rows if each.policy),
    "clusters": lambda rows: chain.from_iterable(map(_cluster_names, rows)),
    "groups": lambda rows: (each.group for each in rows if each.group),
}


def _containing(word: str, rows: Sequence[PlacedWorkload]) -> Sequence[PlacedWorkload]:
    return [each for each in rows if word in each.text]


def _meeting_any(
    restrictions: frozenset[Restriction], met: _Met, rows: Sequence[PlacedWorkload]
) -> Sequence[PlacedWorkload]:
    if len(restrictions) == 1:
        return _meeting(next(iter(restrictions)), met, rows)
    found = {id(each) for restriction in restrictions for each in _meeting(restriction, met, rows)}
    return [each for each in rows if id(each) in found]


def _meeting(restriction: Restriction, met: _Met, rows: Sequence[PlacedWorkload]) -> Sequence[PlacedWorkload]:
    match restriction:
        case Restriction.NOT_PREFERRED:
            return [each for each in rows if each.group_index]
        case Restriction.MOVING:
            return [each for each in rows if each.moving]
        case Restriction.HELD_DOWN:
            return [each for each in rows if each.held_down_until is not None and each.held_down(met.now)]
        case Restriction.STOPPED:
            return [each for each in rows if id(each) in met.stopped]
        case Restriction.NOWHERE | Restriction.SHORT | Restriction.SUSPENDED:
            state = _STATES[restriction]
            return [each for each in rows if each.state is state]


def _most_frequent(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(largest_first(counts)[:MAX_FACETS])
