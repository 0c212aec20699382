"""What decisions did on each of the last seven days."""

from datetime import timedelta

from console_answers import NOW, history_page, history_row
from console_source import GivenSource, console_client

from console.pages.days import DAYS, days_of
from console.pages.workload_words import RecordOutcome


def at(days, **changes):
    return history_row(time=(NOW - timedelta(days=days)).isoformat(), **changes)


LOST = {"before": {"a": 1}, "after": {}}
RECORDS = [at(0), at(0, **LOST), at(2, trigger="Move"), at(2, kind="exemption"), at(DAYS), history_row(time="no time")]


def test_each_day_counts_its_decisions():
    days = days_of(RECORDS, NOW)
    assert [each.date for each in days] == [(NOW - timedelta(days=number)).date() for number in range(DAYS)]
    assert days[0].counts == {RecordOutcome.PLACED: 1, RecordOutcome.LOST: 1}
    assert days[2].counts == {RecordOutcome.STEP: 1, RecordOutcome.NOTE: 1}
    assert sum(sum(each.counts.values()) for each in days) == 4


def test_a_workload_is_nowhere_from_its_loss_until_it_gets_a_cluster():
    back = {"before": {}, "after": {"b": 1}}
    records = [
        at(1, name="api", **LOST), at(2, name="web", **back), at(4, name="web", **LOST),
        at(4, kind="note", name="db"), at(DAYS + 1, name="old", **LOST),
    ]  # fmt: skip
    assert [each.nowhere for each in days_of(records, NOW)] == [1, 1, 0, 1, 1, 0, 0]


def test_a_week_of_history_begins_with_its_days():
    client = console_client(GivenSource(history=history_page(*RECORDS[:2], following="1.1")))
    page = client.get("/history?range=7d").text
    assert "Decisions by day" in page
    assert "Only the latest decisions are counted" in page
    assert "Decisions by day" not in client.get("/history").text
