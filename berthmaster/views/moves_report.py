"""The report about moves, which the command prints and the extender serves. Pure."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, NamedTuple, get_args

import msgspec.structs

from berthmaster.deciding.budget_record import budgets_of
from berthmaster.deciding.config import MovesConfig, Pause, subject_of
from berthmaster.deciding.lease_record import LeaseRecord, SourcesRecord
from berthmaster.model.binding import Binding
from berthmaster.model.errors import InputError
from berthmaster.model.gaps import Gap, GapKind, texts
from berthmaster.model.move import MOVE, as_moved
from berthmaster.model.policy import PolicyReference
from berthmaster.model.reader import Reader
from berthmaster.views.move_budgets import LeaderMoves, active_moves, budget_uses, percent_totals, waits_for
from berthmaster.views.move_rows import (
    ControllersReport,
    MoveQuery,
    MovesReport,
    RowContext,
    brake_report,
    move_rows,
)

_PAUSES: Final[dict[str, Pause]] = {each: each for each in get_args(Pause)}


@dataclass(frozen=True, slots=True)
class KnownMoves:
    """What is known about moves.

    Attributes:
        bindings: all bindings; those without a move only count for budgets with a percentage.
        lease: what the lease of the controllers records; None if it is not known.
        annotations: the annotations of policies; None if they are not known.
        gaps: what is not known and what follows, one sentence each.
        complete: whether ``bindings`` are those of all namespaces. Otherwise the use of budgets is not known.
    """

    bindings: Collection[Binding]
    lease: LeaseRecord | None
    now: datetime
    annotations: Mapping[PolicyReference, Mapping[str, str]] | None = None
    gaps: tuple[str, ...] = ()
    complete: bool = True


class MoveTotals(NamedTuple):
    """How many moves there are.

    Attributes:
        states: the number in each state, by its value, of all that the reader may see.
        matched: how many the query selects.
    """

    states: dict[str, int]
    matched: int


def moves_report(known: KnownMoves, query: MoveQuery = MoveQuery()) -> tuple[MovesReport, MoveTotals]:  # noqa: B008
    """Return the report, and how many bindings have a move.

    Args:
        known: what is known.
        query: which moves the report lists. The default is all; the first ones move, then come those that wait.
    """
    moving = [each for each in known.bindings if MOVE in each.metadata.annotations]
    by_key = {each.metadata.key: each for each in moving}
    config, gaps = _config(known)
    braked = known.lease.brake.reason if known.lease is not None else ""
    leader = LeaderMoves(config, braked, active_moves(moving), known.annotations, _totals(known, config))
    reader = Reader(query.namespaces)
    seen = [each for each in moving if reader.sees(each.metadata.namespace)]
    rows = [
        msgspec.structs.replace(row, waits_for=waits_for(by_key[row.namespace, row.binding], leader, known.now))
        for row in move_rows(seen, RowContext(known.now, braked))
    ]
    matched = query.sorted([each for each in rows if query.accepts(each)])
    end = None if query.limit is None else query.offset + query.limit
    report = MovesReport(
        known.now,
        brake_report(known.lease.brake if known.lease is not None else None),
        _sources(known.lease, reader),
        matched[query.offset : end],
        [*known.gaps, *texts(gaps, reader)],
        budget_uses(leader, [each.waits_for for each in rows], known.now, reader),
        _controllers(known),
    )
    return report, MoveTotals(dict(Counter(row.state.value for row in rows)), len(matched))


def _controllers(known: KnownMoves) -> ControllersReport:
    if known.lease is None:
        return ControllersReport()
    return ControllersReport(known.lease.renewed_at, known.lease.silent(known.now))


def _sources(lease: LeaseRecord | None, reader: Reader) -> SourcesRecord | None:
    """Return the sources without the budgets, which the report has with their use."""
    if lease is None or lease.sources is None:
        return None
    problem = lease.sources.problem
    if problem and reader.namespaces is not None:
        problem = _SEE_LOG
    return msgspec.structs.replace(lease.sources, budgets=None, problem=problem)


def _config(known: KnownMoves) -> tuple[MovesConfig | None, list[Gap]]:
    """Return the configuration of the leader as far as its lease records it, and what is not known."""
    if known.lease is None or not known.complete:
        return None, []
    sources = known.lease.sources
    if sources is None:
        return MovesConfig(), []  # a leader without a file uses the defaults
    pause = _PAUSES.get(sources.pause)
    if pause is None:
        return None, [Gap(GapKind.UNKNOWN_PAUSE, facts={"pause": repr(sources.pause)})]
    if sources.budgets is None:
        return None, [Gap(GapKind.NO_BUDGETS)]
    try:
        return replace(MovesConfig(), pause=pause, budgets=budgets_of(sources.budgets)), []
    except InputError as error:
        return None, [Gap(GapKind.INVALID_BUDGETS, None, {"error": str(error)})]


_SEE_LOG: Final = "the log of the controllers says why"


def _totals(known: KnownMoves, config: MovesConfig | None) -> dict[str, int] | None:
    sources = known.lease.sources if known.lease is not None else None
    if sources is None:
        return None
    return percent_totals(config, ((subject_of(each), _replicas(each)) for each in _own(known.bindings, sources)))


def _own(bindings: Iterable[Binding], sources: SourcesRecord) -> Iterable[Binding]:
    return (each for each in bindings if each.scheduler == sources.scheduler and not each.suspended)


def _replicas(binding: Binding) -> int:
    return sum(each.replicas for each in as_moved(binding).spec.clusters)
