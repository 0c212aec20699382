"""``/v1/moves``: what moves, what waits and for what, and how much of the budgets is in use."""

from berthmaster.kube.kinds import BINDINGS, POLICIES
from berthmaster.model.reader import Reader
from berthmaster.native_api.why import MovesView
from berthmaster.views.moves_report import KnownMoves, moves_report
from extender.protocols.native.fleet import staleness_of
from extender.protocols.native.schedule import require_watched
from extender.protocols.services import Services


def moves_view(services: Services, namespaces: frozenset[str] | None, limit: int) -> MovesView:
    """Return what the bindings and the lease of the controllers say about moves.

    Args:
        services: the resources of the service.
        namespaces: as in ``moves_report``.
        limit: the most rows.

    Raises:
        Refusal: bindings are not watched.
    """
    require_watched(services, BINDINGS, subject="the bindings of the control plane are")
    state, version = services.state, services.state.version
    with state.reading() as cache:
        policies = cache.policies
    annotations = None
    gaps = [*state.gaps(Reader(namespaces)), state.lease().gap]
    if state.watched is None or POLICIES in state.watched:
        annotations = {each.reference: each.metadata.annotations for each in policies}
    else:
        gaps.append("policies are not watched: it is not known which of them pause their moves")
    known = KnownMoves(
        list(state.stored_bindings()),
        state.lease().record,
        services.clock.now(),
        annotations,
        tuple(filter(None, gaps)),
    )
    report, counts = moves_report(known, namespaces, limit)
    fields = {name: getattr(report, name) for name in report.__struct_fields__}
    return MovesView(**fields, counts=counts, version=version, staleness=staleness_of(state.freshness))
