"""Live updates: what open pages learn about changes and about the source, and when."""

from datetime import timedelta
from types import SimpleNamespace

import pytest
from fake_clock import START, FakeClock
from prometheus_client import REGISTRY

from berthmaster.native_api.fleet import StateVersion
from berthmaster.native_api.wire import Staleness
from console import live
from console.live import EventStreams, StateWatcher
from console.source import SourceError

FRESH = Staleness(START, None, "")
LOST = SourceError("http://extender cannot be reached: connection refused")


class Watched:
    """A watcher whose extender the test controls."""

    def __init__(self, **options):
        self.clock, self.answer = FakeClock(), StateVersion("1", FRESH)
        self.watcher = StateWatcher(self._ask, self.clock, **options)
        self.watcher.poll()

    def _ask(self):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def poll(self, answer=None, after_s=1.0):
        self.clock.pass_by(after_s)
        self.answer = answer or self.answer
        self.watcher.poll()


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(live, "_CHECK_S", 0.0)


def streams(watched, limit=2):
    return EventStreams(watched.watcher, watched.clock, limit)


def opened(watched):
    """Return a stream after its first events."""
    stream = streams(watched).open("ada")
    next(stream)
    return stream


def test_a_stream_begins_with_what_is_wrong_and_then_says_what_changes():
    watched = Watched()
    stream = streams(watched).open("ada")
    assert next(stream) == b'retry: 2000\n\nevent: notice\ndata: ""\n\nevent: state\ndata: "1~"\n\n'
    watched.poll(StateVersion("2", FRESH))
    assert next(stream) == b'event: state\ndata: "2~"\n\n'


def test_pages_update_once_more_after_a_change_because_the_processes_of_an_extender_differ():
    watched = Watched()
    stream = opened(watched)
    watched.poll(StateVersion("2", FRESH))
    next(stream)
    watched.poll(after_s=4)
    assert next(stream) == b'event: state\ndata: "2"\n\n'


def test_a_stream_repeats_the_state_so_that_a_page_notices_a_dead_one():
    watched = Watched()
    watched.poll(after_s=5)
    stream = opened(watched)
    watched.clock.pass_by(10)
    assert next(stream) == b'event: state\ndata: "1"\n\n'


def test_a_lost_extender_and_its_return_are_reported():
    watched = Watched()
    watched.poll(after_s=5)
    stream = opened(watched)
    watched.poll(LOST)
    notice = "The extender cannot be asked since 00:16:46 UTC: http://extender cannot be reached: connection refused"
    assert next(stream) == f'event: notice\ndata: "{notice}"\n\nevent: state\ndata: ""\n\n'.encode()
    assert (watched.watcher.seen.notice, watched.watcher.seen.known_version, watched.watcher.seen.lost) == (
        notice,
        "",
        LOST,
    )
    watched.poll(StateVersion("1", FRESH))
    assert next(stream) == b'event: notice\ndata: ""\n\nevent: state\ndata: "1"\n\n'


def test_a_lost_extender_is_asked_each_second(monkeypatch):
    watched, threads = Watched(), []
    monkeypatch.setattr(live, "RepeatingThread", lambda *given: threads.append(given) or SimpleNamespace(start=int))
    watched.watcher.start()
    [(_, poll, pause_s, *_)] = threads
    watched.answer = LOST
    assert [(pause_s(), poll())[0] for _ in range(8)] == [0, *7 * [1.0]]


def test_a_stale_extender_is_reported_with_the_age_of_its_state():
    watched = Watched()
    stale = Staleness(START, START + timedelta(minutes=5), "fleet.json: line 3 is invalid")
    watched.poll(StateVersion("1", stale))
    assert watched.watcher.seen.notice == (
        "The extender lost its source at 00:05:00 UTC; the pages show the state of 00:00:00 UTC. "
        "fleet.json: line 3 is invalid"
    )


def test_a_console_whose_visitors_see_few_namespaces_does_not_repeat_what_the_extender_says_about_its_source():
    watched = Watched(shows_cause=False)
    watched.poll(StateVersion("1", Staleness(None, START, "fleet.json: Deployment vault/secret is invalid")))
    assert watched.watcher.seen.notice == (
        "The extender lost its source at 00:00:00 UTC. The log of the extender says why."
    )


def test_the_number_of_streams_is_bounded_and_a_closed_one_makes_room():
    watched = Watched()
    several = streams(watched, limit=2)
    first, second = several.open("ada"), several.open("ada")
    assert several.open("ada") is None
    first.close()
    first.close()
    assert several.open("ada") is not None
    assert several.open("ada") is None
    second.close()
    assert REGISTRY.get_sample_value("berthmaster_console_event_streams") == 1


def test_a_stream_ends_after_some_minutes_so_that_the_visitor_is_checked_again():
    watched = Watched()
    stream = opened(watched)
    watched.clock.pass_by(400)
    assert list(stream) == []


def test_streams_end_and_none_begins_when_the_console_stops():
    watched = Watched()
    several = streams(watched)
    stream = several.open("ada")
    next(stream)
    watched.watcher.stopping = True
    assert list(stream) == []
    assert several.open("ada") is None


def test_one_visitor_leaves_streams_for_others():
    several = streams(Watched(), limit=40)
    assert [several.open("ada") is not None for _ in range(11)] == [True] * 10 + [False]
    assert several.open("grace") is not None
