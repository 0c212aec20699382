"""How many workloads had which problem of place on each of the last days, as the native API says it."""

from datetime import date, datetime

from berthmaster.native_api.wire import AnswerPart, Staleness


class FleetDay(AnswerPart, frozen=True):
    """One day in UTC. The numbers of workloads are those of its end; of today, those of now.

    Attributes:
        nowhere, short, not_preferred, moving: the workloads that the list has with the restriction of this name.
        outcomes: how many decisions of the day lost all clusters (``lost``), left fewer replicas (``fewer``), evicted,
            took a ``step`` of a move, placed, and so on.
    """

    date: date
    nowhere: int
    short: int
    not_preferred: int
    moving: int
    outcomes: dict[str, int]


class FleetDays(AnswerPart, frozen=True):
    """The last seven days, today first.

    Attributes:
        days: those of whose end something is on record.
        recorded_since: since when decisions are on record; null if none are. It is not before the first day.
        missing: what the ledger says about records of these days that are missing. It names processes, so only a
            reader of objects without a namespace gets it.
    """

    days: list[FleetDay]
    recorded_since: datetime | None
    missing: list[str]
    computed_at: datetime
    version: str
    gaps: list[str]
    staleness: Staleness
