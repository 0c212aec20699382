"""``/v1/moves``: what moves, what waits and for what, and how much of the budgets is in use."""

from typing import Final

from msgspec.structs import asdict

from berthmaster.kube.watch_options import BINDINGS, POLICIES
from berthmaster.native_api.why import MovesView
from berthmaster.views.move_budgets import KnownMoves, moves_report, percent_totals
from berthmaster.views.move_rows import MoveQuery, MoveSort, RowState
from extender.protocols.native.parameters import MAX_OFFSET, NAMESPACES, number, reader_of, sort, text, values, word
from extender.protocols.native.schedule import require_watched
from extender.protocols.services import Call, Services

_MOVES: Final = 1000
_MAX_MOVES: Final = 10_000
_STATES: Final = {each.word: each for each in RowState}
PARAMETERS: Final = {
    "q": text("A part of the name of the workload."),
    "state": word("Only this state.", list(_STATES)),
    "reason": text("Only this reason, such as Failback."),
    "cluster": text("A part of the name of a cluster that the workload leaves or arrives at."),
    "sort": sort("The order; a dash before it reverses it. Default: by state.", [each.value for each in MoveSort]),
    "offset": number("How many moves to leave out first.", MAX_OFFSET, least=0),
    "limit": number("The most moves.", _MAX_MOVES, default=_MOVES),
    **NAMESPACES,
}


def moves_view(services: Services, call: Call) -> MovesView:
    """Return what the bindings and the lease of the controllers say about moves."""
    found, reader = values(PARAMETERS, call.query), reader_of(call)
    order = found.pop("sort", MoveSort.STATE.value)
    query = MoveQuery(
        **{**found, "state": _STATES.get(found.get("state", ""))},
        namespaces=reader.namespaces,
        sort=MoveSort(order.removeprefix("-")),
        descending=order.startswith("-"),
    )
    require_watched(services, BINDINGS, subject="the bindings of the control plane are")
    state, version = services.state, services.state.version
    with state.reading() as cache:
        policies = cache.policies
    annotations = None
    gaps = [*state.gaps(reader), state.lease().gap]
    if state.watches(POLICIES):
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
    return MovesView(
        **asdict(report), counts=counts.states, matched=counts.matched, version=version, staleness=state.staleness
    )
