"""A batch with a failure."""

import json
import logging

import pytest
from fake_clock import FakeClock
from fake_metrics import FakeMetrics

from berthmaster.scheduling.karmada.profile import karmada_profile
from extender.protocols.native import examples, schedule
from extender.protocols.services import Call, Services
from extender.state.state import State


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def metrics():
    return FakeMetrics()


@pytest.fixture
def answers(clock, metrics):
    services = Services(State(karmada_profile()), metrics, logging.getLogger("test"), clock)

    def ask(*bursts):
        given = [
            [json.dumps({"id": name, **examples.SCHEDULE_OWN_FLEET}).encode() for name in burst] for burst in bursts
        ]
        call = Call("request-1", clock.passed_s + 10, bursts=given)
        pieces = schedule.schedule_batch(services, call, diagnose=False)
        return [json.loads(line) for piece in pieces for line in piece.splitlines()]

    return ask


def test_a_crash_on_one_line_does_not_affect_the_others(answers, metrics, monkeypatch, caplog):
    decide = schedule.decide

    def fail(services, asked, asking, **how):
        if asked.id == "b":
            raise KeyError("an unexpected error")
        return decide(services, asked, asking, **how)

    monkeypatch.setattr(schedule, "decide", fail)
    found = answers("ab", "c")
    assert [(each["id"], each["line"]) for each in found] == [("a", 1), ("b", 2), ("c", 3)]
    assert [each.get("problem", {}).get("status") for each in found] == [None, 500, None]
    assert "an unexpected error" in caplog.text
    assert "unexpected" not in json.dumps(found), "the cause is in the log only"
    [crash] = [record for record in caplog.records if record.exc_info]  # other tests may have set the level to info
    assert (crash.fields, len(metrics.calls_of("decided"))) == ({"request_id": "request-1", "line": "2"}, 2)


@pytest.mark.parametrize(
    ("bursts", "answered"),
    [
        pytest.param(["abcdefgh"], "abcd", id="between lines that arrived together"),
        pytest.param(["ab", "cd", "ef"], "abcd", id="between lines that arrived separately"),
    ],
)
def test_a_batch_ends_at_its_deadline(answers, clock, monkeypatch, bursts, answered):
    decide = schedule.decide

    def slow(services, asked, asking, **how):
        clock.pass_by(2.5)
        return decide(services, asked, asking, **how)

    monkeypatch.setattr(schedule, "decide", slow)
    *found, last = answers(*bursts)
    assert [each["id"] for each in found] == list(answered)
    assert (last.get("line"), last["problem"]["status"]) == (None, 503)
