"""Events: their content, their series, and the limits."""

import json
import random
import threading
import time

import pytest
from fake_clock import FakeClock
from faults import in_turn, lose, nothing, refuse
from hypothesis import given
from hypothesis import strategies as st
from kube_in_memory import KubeInMemory
from retained import retained
from tables import cases
from waiting import LIMIT_S, wait_for

from berthmaster.kube import events
from berthmaster.kube.events import (
    BURST,
    IDLE_S,
    MAX_SERIES,
    REPEAT_S,
    Correlator,
    EventContent,
    EventRecorder,
    Reference,
    event_base_name,
    truncate,
)
from berthmaster.runtime.clock import SystemClock

WEB = Reference("work.karmada.io/v1alpha2", "ResourceBinding", "shop", "web-deployment", "u1")
GLOBAL = Reference("work.karmada.io/v1alpha2", "ClusterResourceBinding", "", "tls-secret")
EVENTS = "/apis/events.k8s.io/v1/namespaces/shop/events"


def event_key(regarding: Reference = WEB, note: str = "it fits", **more) -> EventContent:
    content = {"kind": "Normal", "reason": "Scheduled", "action": "Scheduling", "related": None, **more}
    return EventContent(regarding=regarding, note=note, **content)


class Writing:
    """A correlator and the series that it yields."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.correlator = Correlator(self.clock)

    def observe(self, key: EventContent) -> bool:
        return self.correlator.observe(key, self.clock.now())

    def written(self) -> list[tuple[str, int]]:
        found = []
        for series in self.correlator.due():
            found.append((series.key.note, series.count))
            self.correlator.written(series)
        return found


@pytest.fixture
def writing() -> Writing:
    return Writing()


class TestSeries:
    def test_the_first_event_and_its_first_repeat_are_written_at_once_and_later_repeats_together(self, writing):
        writing.observe(event_key())
        assert writing.written() == [("it fits", 1)]
        writing.observe(event_key())
        assert writing.written() == [("it fits", 2)]
        for _ in range(5):
            writing.observe(event_key())
            assert writing.written() == []
        writing.clock.pass_by(REPEAT_S)
        assert writing.written() == [("it fits", 7)]
        writing.clock.pass_by(REPEAT_S)
        assert writing.written() == []

    @cases(
        "other",
        {
            "another note": event_key(note="it does not"),
            "another reason": event_key(reason="Other"),
            "another type": event_key(kind="Warning"),
            "another object": event_key(GLOBAL),
            "another related object": event_key(related=GLOBAL),
            "a new object of the same name": event_key(WEB._replace(uid="u2")),
        },
    )
    def test_a_different_content_is_another_event(self, writing, other):
        writing.observe(event_key())
        writing.observe(other)
        names = {series.name for series in writing.correlator.due()}
        assert len(names) == 2

    def test_a_repeat_after_a_long_time_begins_a_new_event(self, writing):
        writing.observe(event_key())
        writing.written()
        writing.clock.pass_by(IDLE_S + 1)
        writing.observe(event_key())
        assert writing.written() == [("it fits", 1)]

    def test_events_about_a_flapping_object_are_limited(self, writing):
        assert [writing.observe(event_key(note=f"{number}")) for number in range(BURST + 5)] == [True] * BURST + [
            False
        ] * 5
        assert writing.observe(event_key(GLOBAL)), "other objects are not limited"
        writing.written()
        writing.clock.pass_by(59)
        assert not writing.observe(event_key(note="early"))
        writing.clock.pass_by(2)
        assert writing.observe(event_key(note="late"))

    def test_repeats_above_the_limit_are_still_counted(self, writing):
        writing.observe(event_key())
        writing.written()
        for number in range(BURST - 1):
            writing.observe(event_key(note=f"{number}"))
        writing.written()
        for _ in range(3):
            writing.observe(event_key())
            assert writing.written() == []
        writing.clock.pass_by(61)
        assert writing.written() == [("it fits", 4)]

    def test_everything_is_written_at_the_end(self, writing):
        writing.observe(event_key())
        writing.written()
        for _ in range(BURST):
            writing.observe(event_key())
            writing.written()
        assert [series.count for series in writing.correlator.due(everything=True)] == [BURST + 1]

    def test_a_series_that_cannot_be_written_is_forgotten(self, writing):
        writing.observe(event_key())
        for series in writing.correlator.due():
            writing.correlator.failed(series)
        assert list(writing.correlator.due(everything=True)) == []
        writing.observe(event_key())
        assert writing.written() == [("it fits", 1)]

    def test_memory_is_bounded(self, writing):
        for number in range(2 * MAX_SERIES):
            assert writing.observe(event_key(WEB._replace(name=f"{number}")))
            writing.written()
            if number == MAX_SERIES:
                full = retained(writing.correlator)
        assert retained(writing.correlator) <= full

    def test_unwritten_series_are_bounded_too(self, writing):
        taken = [writing.observe(event_key(WEB._replace(name=f"{number}"))) for number in range(MAX_SERIES + 10)]
        assert taken.count(False) == 10


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("web-deployment", "web-deployment"),
        ("system:node", "system-node"),
        ("Ümlaut", "mlaut"),
        ("..", "event"),
        ("a.-b", "a.b"),
        ("x" * 253, "x" * 230),
    ],
)
def test_the_base_name_of_an_event_is_valid(name, base):
    assert event_base_name(name) == base


@given(st.text(max_size=1500), st.integers(3, 1100))
def test_a_note_is_truncated_between_characters(text, size):
    found = truncate(text, size)
    assert len(found.encode()) <= size
    assert found == text or (found.endswith("…") and text.startswith(found[:-1]))


class Recording:
    """A recorder and its API server."""

    def __init__(self, clock=None, max_waiting: int = 100) -> None:
        self.api = KubeInMemory()
        self.results: list[str] = []
        self.recorder = EventRecorder(
            self.api, clock or SystemClock(), "berthmaster.io/controllers", "pod-1", self.results.append, max_waiting
        )

    def record(self, regarding: Reference = WEB, note: str = "it fits", related: Reference | None = None) -> None:
        self.recorder.record(EventContent(regarding, "Normal", "Scheduled", "Scheduling", note, related))

    def flush(self) -> None:
        self.recorder.start()
        self.recorder.stop(5)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    class Eager(events.Backoff):
        def __init__(self, **_: float) -> None:
            super().__init__(0.001, 0.001, random.Random(1))

    monkeypatch.setattr(events, "Backoff", Eager)


def test_the_content_of_an_event():
    recording = Recording(FakeClock())
    recording.record(related=GLOBAL)
    recording.flush()
    [path], [event] = recording.api.objects, recording.api.bodies("POST")
    assert path == f"{EVENTS}/{event['metadata']['name']}"
    name = event["metadata"].pop("name")
    assert name.startswith("web-deployment.")
    assert event == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "shop"},
        "eventTime": "2026-01-01T00:16:40.000000Z",
        "type": "Normal",
        "reason": "Scheduled",
        "action": "Scheduling",
        "note": "it fits",
        "regarding": {
            "apiVersion": "work.karmada.io/v1alpha2",
            "kind": "ResourceBinding",
            "namespace": "shop",
            "name": "web-deployment",
            "uid": "u1",
        },
        "related": {"apiVersion": "work.karmada.io/v1alpha2", "kind": "ClusterResourceBinding", "name": "tls-secret"},
        "reportingController": "berthmaster.io/controllers",
        "reportingInstance": "pod-1",
    }


def test_an_event_about_a_cluster_scoped_object_is_stored_in_default():
    recording = Recording()
    recording.record(GLOBAL)
    recording.flush()
    assert recording.api.requests[0].path == "/apis/events.k8s.io/v1/namespaces/default/events"


def test_repeats_become_a_series():
    recording = Recording()
    recording.recorder.start()
    recording.record()
    wait_for(lambda: recording.results == ["created"])
    for _ in range(3):
        recording.record()
    recording.recorder.stop(5)
    [event] = recording.api.objects.values()
    assert event["series"]["count"] == 4
    assert event["series"]["lastObservedTime"] > event["eventTime"]
    assert set(recording.api.methods) == {"POST", "PATCH"}
    assert all(set(body) == {"series"} for body in recording.api.bodies("PATCH"))


def test_repeats_at_the_same_time_are_one_request():
    recording = Recording()
    for _ in range(5):
        recording.record()
    recording.flush()
    assert recording.api.methods == ["POST"]
    assert recording.api.bodies("POST")[0]["series"]["count"] == 5


def test_recording_never_blocks_and_drops_the_newest_above_the_limit():
    recording = Recording(max_waiting=3)
    for number in range(5):
        recording.record(note=str(number))
    assert recording.results == ["dropped", "dropped"]
    recording.flush()
    assert [body["note"] for body in recording.api.bodies("POST")] == ["0", "1", "2"]


@cases(
    ("before", "after", "result", "requests"),
    {
        "two lost requests": (in_turn(lose, lose), nothing, "created", 3),
        "409 twice": (in_turn(refuse(409, "Conflict"), refuse(409, "Conflict")), nothing, "created", 3),
        "429 twice": (in_turn(refuse(429), refuse(429)), nothing, "created", 3),
        "500 twice": (in_turn(refuse(500), refuse(500)), nothing, "created", 3),
        "503 twice": (in_turn(refuse(503), refuse(503)), nothing, "created", 3),
        "503 for ever": (refuse(503), nothing, "failed", 4),
        "a lost response: there is no second event": (nothing, in_turn(lose), "created", 2),
    },
)
def test_transient_errors_are_retried_a_few_times(before, after, result, requests):
    recording = Recording()
    recording.api.before, recording.api.after = before, after
    recording.record()
    recording.recorder.start()
    wait_for(lambda: recording.results)
    recording.recorder.stop(5)
    assert recording.results == [result]
    assert len(recording.api.requests) == requests
    assert len(recording.api.objects) == (result == "created")


@pytest.mark.parametrize("status", [400, 403, 404, 422])
def test_other_errors_are_not_retried(status, caplog):
    recording = Recording()
    recording.api.before = in_turn(refuse(status))
    recording.record()
    recording.flush()
    assert recording.results == ["failed"]
    assert len(recording.api.requests) == 1
    assert "failed to write an event" in caplog.text


def test_a_series_whose_event_expired_is_created_again():
    recording = Recording()
    recording.recorder.start()
    recording.record()
    wait_for(lambda: recording.results == ["created"])
    recording.api.objects.clear()
    recording.record()
    recording.recorder.stop(5)
    assert recording.results == ["created", "created"]
    [event] = recording.api.objects.values()
    assert event["series"]["count"] == 2


def test_stop_returns_on_time_if_the_api_server_hangs():
    recording, let_go = Recording(), threading.Event()
    recording.api.before = lambda _: let_go.wait(LIMIT_S)
    recording.record()
    recording.recorder.start()
    recording.recorder.stop(0.2)
    assert not recording.results, "the write still hangs"
    let_go.set()


def test_events_that_cannot_be_written_before_the_end_are_counted_and_logged(caplog):
    recording = Recording()
    recording.api.before = lambda _: time.sleep(0.02)
    for number in range(100):
        recording.record(WEB._replace(name=f"b-{number}"))
    recording.recorder.start()
    wait_for(lambda: "created" in recording.results)
    recording.recorder.stop(0.2)
    wait_for(lambda: "no time left" in caplog.text)
    assert recording.results.count("dropped") >= 1
    assert "dropped " in caplog.text


def test_a_long_note_is_truncated():
    recording = Recording()
    recording.record(note="ü" * 1000)
    recording.flush()
    assert len(json.loads(recording.api.requests[0].body)["note"].encode()) in {1023, 1024}
