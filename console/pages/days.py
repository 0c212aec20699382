"""What decisions did on each of the last days: a pure function of the records of the ledger."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Final, NamedTuple

from berthmaster.ledger.records import HistoryRow
from berthmaster.model.meta import moment_of
from console.pages.workload_words import RecordOutcome, outcome_of_record

DAYS: Final = 7
SHOWN: Final[Mapping[RecordOutcome, str]] = {
    RecordOutcome.LOST: "Lost all clusters",
    RecordOutcome.FEWER: "Fewer replicas",
    RecordOutcome.EVICTED: "Evicted",
    RecordOutcome.STEP: "Steps of moves",
    RecordOutcome.PLACED: "Placed",
}
"""The columns. A decision is counted once."""


class Day(NamedTuple):
    """One day in UTC, and how many decisions had each outcome."""

    date: date
    counts: Mapping[RecordOutcome, int]


def days_of(records: Iterable[HistoryRow], now: datetime) -> list[Day]:
    """Return the last days, today first. Records of other days do not count."""
    counts: dict[date, Counter[RecordOutcome]] = {}
    for record in records:
        time = moment_of(record.time)
        if time is not None:
            counts.setdefault(time.astimezone(UTC).date(), Counter())[outcome_of_record(record)] += 1
    today = now.astimezone(UTC).date()
    dates = [today - timedelta(days=number) for number in range(DAYS)]
    return [Day(each, counts.get(each, Counter())) for each in dates]
