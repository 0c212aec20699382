"""A batch in which something goes wrong."""

import json
import logging

import pytest
from fake_clock import FakeClock

from berthmaster.scheduling.karmada.profile import karmada_profile
from extender.protocols.native import examples, schedule
from extender.protocols.services import Call, Services
from extender.state.state import State


class Counts:
    """A meter that remembers."""

    def __init__(self) -> None:
        self.decisions = 0

    def decided(self, *_labels: str) -> None:
        self.decisions += 1

    def rejected(self, *_labels: object) -> None:
        """Not looked at."""


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def meter():
    return Counts()


@pytest.fixture
def answers(clock, meter):
    services = Services(State(karmada_profile()), meter, logging.getLogger("test"), clock)

    def ask(*bursts):
        given = [
            [json.dumps({"id": name, **examples.SCHEDULE_OWN_FLEET}).encode() for name in burst] for burst in bursts
        ]
        call = Call("request-1", clock.passed_s + 10, bursts=given)
        pieces = schedule.schedule_batch(services, call, diagnose=False)
        return [json.loads(line) for piece in pieces for line in piece.splitlines()]

    return ask


def test_a_line_that_makes_us_crash_is_told_so_and_the_others_are_answered(answers, meter, monkeypatch, caplog):
    decide = schedule.decide

    def crash(services, asked, **how):
        if asked.id == "b":
            raise KeyError("nobody thought of this")
        return decide(services, asked, **how)

    monkeypatch.setattr(schedule, "decide", crash)
    told = answers("ab", "c")
    assert [(each["id"], each["line"]) for each in told] == [("a", 1), ("b", 2), ("c", 3)]
    assert [each.get("problem", {}).get("status") for each in told] == [None, 500, None]
    assert "nobody thought of this" in caplog.text
    assert "nobody" not in json.dumps(told), "what went wrong inside is the log's"
    assert (caplog.records[0].fields, meter.decisions) == ({"request_id": "request-1", "line": "2"}, 2)


@pytest.mark.parametrize(
    ("bursts", "answered"),
    [
        pytest.param(["abcdefgh"], "abcd", id="within lines that came together"),
        pytest.param(["ab", "cd", "ef"], "abcd", id="between them"),
    ],
)
def test_a_batch_ends_when_its_time_is_over(answers, clock, monkeypatch, bursts, answered):
    decide = schedule.decide

    def slow(services, asked, **how):
        clock.pass_by(2.5)
        return decide(services, asked, **how)

    monkeypatch.setattr(schedule, "decide", slow)
    *told, last = answers(*bursts)
    assert [each["id"] for each in told] == list(answered)
    assert (last.get("line"), last["problem"]["status"]) == (None, 503)
