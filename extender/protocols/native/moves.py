"""``/v1/moves``: what moves, what waits and for what, and how much of the budgets is in use."""

from collections.abc import Mapping
from typing import Final

from berthmaster.kube.kinds import BINDINGS, POLICIES
from berthmaster.model.gaps import Reader
from berthmaster.native_api.why import MovesView
from berthmaster.views.move_budgets import KnownMoves, moves_report, percent_totals
from berthmaster.views.move_rows import MoveQuery, MoveSort, RowState
from extender.protocols.native.fleet import staleness_of
from extender.protocols.native.parameters import choice, count, number, refused, text
from extender.protocols.native.schedule import require_watched
from extender.protocols.route import Parameter
from extender.protocols.services import Services

_MOVES: Final = 1000
_MAX_MOVES: Final = 10_000
_MAX_OFFSET: Final = 10_000_000
PARAMETERS: Final = {
    "q": text("A part of the name of the workload."),
    "state": Parameter("Only this state.", {"type": "string", "enum": [each.word for each in RowState]}),
    "reason": text("Only this reason, such as Failback."),
    "cluster": text("A part of the name of a cluster that the workload leaves or arrives at."),
    "sort": Parameter(
        f"The order: {', '.join(each.value for each in MoveSort)}; with a leading - the reverse one.",
        {"type": "string", "default": MoveSort.STATE.value},
    ),
    "offset": count("How many moves to leave out first.", _MAX_OFFSET, least=0),
    "limit": count("The most moves.", _MAX_MOVES),
}


def moves_view(services: Services, query: MoveQuery) -> MovesView:
    """Return what the bindings and the lease of the controllers say about moves."""
    require_watched(services, BINDINGS, subject="the bindings of the control plane are")
    state, version = services.state, services.state.version
    with state.reading() as cache:
        policies = cache.policies
    annotations = None
    gaps = [*state.gaps(Reader(query.namespaces)), state.lease().gap]
    if state.watched is None or POLICIES in state.watched:
        annotations = {each.reference: each.metadata.annotations for each in policies}
    else:
        gaps.append("policies are not watched: it is not known which of them pause their moves")
    with state.placed() as index:
        known = KnownMoves(
            index.moves(),
            lambda config, scheduler: index.kept(
                ("percent totals", config, scheduler),
                lambda: percent_totals(config, scheduler, (each.binding for each in index.by_name() if each.present)),
            ),
            state.lease().record,
            services.clock.now(),
            annotations,
            tuple(filter(None, gaps)),
        )
        report, counts = moves_report(known, query)
    fields = {name: getattr(report, name) for name in report.__struct_fields__}
    return MovesView(
        **fields,
        counts=counts.states,
        matched=counts.matched,
        version=version,
        staleness=staleness_of(state.freshness),
    )


def move_query(query: Mapping[str, str], namespaces: frozenset[str] | None) -> MoveQuery:
    """Return the question of a request."""
    state, sort = query.get("state", ""), query.get("sort", MoveSort.STATE.value)
    words = {each.word: each for each in RowState}
    if state and state not in words:
        raise refused("state", state, ", ".join(words))
    return MoveQuery(
        q=query.get("q", ""),
        state=words.get(state),
        reason=query.get("reason", ""),
        cluster=query.get("cluster", ""),
        namespaces=namespaces,
        sort=choice("sort", sort.removeprefix("-"), MoveSort),
        descending=sort.startswith("-"),
        offset=number(query, "offset", 0, _MAX_OFFSET, least=0),
        limit=number(query, "limit", _MOVES, _MAX_MOVES),
    )
