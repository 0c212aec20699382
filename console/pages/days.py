"""What decisions did on each of the last days: pure functions of the records of the ledger."""

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
    """One day in UTC.

    Attributes:
        counts: how many decisions had each outcome.
        nowhere: how many workloads were on no cluster at its end, or now, because a decision of these days took the
            last one. The ledger does not say when a workload was deleted.
    """

    date: date
    counts: Mapping[RecordOutcome, int]
    nowhere: int


def days_of(records: Iterable[HistoryRow], now: datetime) -> list[Day]:
    """Return the last days, today first.

    Args:
        records: what is on record, the latest first. Records of other days do not count.
    """
    today = now.astimezone(UTC).date()
    dates = [today - timedelta(days=number) for number in range(DAYS)]
    by_day: dict[date, list[HistoryRow]] = {each: [] for each in dates}
    for record in records:
        time = moment_of(record.time)
        if time is not None and (day := time.astimezone(UTC).date()) in by_day:
            by_day[day].append(record)
    without_cluster: set[str] = set()
    days = []
    for day in reversed(dates):
        for record in reversed(by_day[day]):
            if record.after:
                without_cluster.discard(record.resource)
            elif record.before:
                without_cluster.add(record.resource)
        days.append(Day(day, Counter(map(outcome_of_record, by_day[day])), len(without_cluster)))
    return days[::-1]
