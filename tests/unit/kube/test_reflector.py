"""List and watch over real HTTP, with faults."""

import random
import threading
import time
from collections.abc import Iterator
from functools import partial

import pytest
from scripted_server import CUT, HOLD, ScriptedServer, bookmark, event, expired, item, page
from tables import cases
from waiting import wait_for

from berthmaster.kube import reflector as reflecting
from berthmaster.kube.connection_settings import ConnectionSettings
from berthmaster.kube.http_client import HTTPClient
from berthmaster.kube.listing import TOO_DEEP, Unread, pages
from berthmaster.kube.reflector import Reflector
from berthmaster.kube.requests import Collection
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import ApiError
from berthmaster.runtime.backoff import Backoff

THINGS = Collection.of("example.io/v1", "things")


class RecordingStore:
    """A store that records all calls."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.calls: list[str] = []
        self.problems: list[str] = []
        self.stale = False

    def replace(self, objects) -> None:
        self.names = {name: self._version(raw) for (_, name), raw in objects}
        self.calls.append("replace")

    def put(self, key, raw) -> None:
        self.names[key[1]] = self._version(raw)
        self.calls.append(f"put {key[1]}")

    def delete(self, key) -> None:
        self.names.pop(key[1], None)
        self.calls.append(f"delete {key[1]}")

    def mark_fresh(self) -> None:
        self.stale = False

    def mark_stale(self, problem: str, *, unlistable: bool = False) -> None:
        self.stale, self.unlistable = True, unlistable
        self.problems.append(problem)

    def wait(self, check) -> None:
        wait_for(lambda: check(self), lambda: (self.names, self.calls, self.problems))

    @staticmethod
    def _version(raw) -> str:
        if isinstance(raw, Unread):
            return raw.problem
        return decode_json(dict, bytes(raw))["metadata"]["resourceVersion"]


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    made = ScriptedServer(lists=[page([item("a", 1), item("b", 2)], 5)])
    yield made
    made.close()


def client(server: ScriptedServer) -> HTTPClient:
    return HTTPClient(ConnectionSettings(server.url))


def is_running() -> bool:
    return any(thread.name == f"reflect-{THINGS.plural}" for thread in threading.enumerate())


@pytest.fixture
def store(server: ScriptedServer) -> Iterator[RecordingStore]:
    """A store with a reflector that the first ``wait`` starts."""
    store = RecordingStore()
    reflector = Reflector(client(server), THINGS, store, Backoff(0.02, 0.1, random.Random(1)), random.Random(1))
    original, started = store.wait, []

    def wait(check) -> None:
        if not started:
            started.append(True)
            reflector.start()
        original(check)

    store.wait = wait
    yield store
    reflector.stop()
    assert not is_running()


def test_the_list_is_followed_by_changes(server, store):
    server.watches = [
        [event("ADDED", item("c", 6)), event("MODIFIED", item("a", 7)), event("DELETED", item("b", 8)), HOLD]
    ]
    store.wait(lambda seen: seen.names == {"a": "7", "c": "6"})
    assert server.asked[0] == {"path": "/apis/example.io/v1/things", "authorization": "", "limit": "500"}
    watch = server.asked[1]
    assert (watch["resourceVersion"], watch["allowWatchBookmarks"]) == ("5", "true")
    assert 30 <= int(watch["timeoutSeconds"]) <= 45, "the API server ends it before a dead connection is suspected"
    assert not store.problems


def test_pages_are_joined(server, store):
    server.lists = [page([item("a")], 5, "next page"), page([item("b")], 5)]
    store.wait(lambda seen: set(seen.names) == {"a", "b"})
    assert server.asked[1]["continue"] == "next page"
    assert store.calls == ["replace"]


def test_a_page_is_read_before_the_next_one_is_requested(server, store):
    server.lists = [page([item("a")], 5, "next page"), page([item("b")], 5)]
    requests: dict[str, int] = {}
    kept = store.replace

    def replace(objects) -> None:
        def counted():
            for (namespace, name), raw in objects:
                requests[name] = len(server.asked)
                yield (namespace, name), raw

        kept(counted())

    store.replace = replace
    store.wait(lambda seen: set(seen.names) == {"a", "b"})
    assert requests == {"a": 1, "b": 2}


@cases(
    ("lines", "version", "problems"),
    {
        "after its last event": ([event("ADDED", item("c", 9))], "9", False),
        "after a bookmark, which is no change": ([bookmark(77)], "77", False),
        "after a broken connection": ([event("ADDED", item("c", 9)), CUT], "9", True),
    },
)
def test_the_next_watch_continues_where_the_last_one_ended(server, store, lines, version, problems):
    server.watches = [lines, [event("ADDED", item("d", 100)), HOLD]]
    store.wait(lambda seen: "d" in seen.names)
    assert server.watched_from() == ["5", version]
    assert store.calls.count("replace") == 1
    assert (bool(store.problems), store.stale) == (problems, False)


@pytest.mark.parametrize("answer", [[expired()], 410, [event("ADDED", item("c", 6)), expired()]], ids=str)
def test_after_410_the_reflector_lists_again_and_deletes_missing_objects(server, store, answer):
    server.lists = [page([item("a"), item("b")], 5), page([item("b", 50)], 60)]
    server.watches = [answer]
    store.wait(lambda seen: seen.names == {"b": "50"} and len(server.watched_from()) == 2)
    assert server.watched_from() == ["5", "60"]
    assert not store.problems, "an expired version is not a failure"


def test_410_in_the_middle_of_a_list_restarts_the_list(server, store):
    server.lists = [page([item("a")], 5, "token"), 410, page([item("z")], 9)]
    store.wait(lambda seen: set(seen.names) == {"z"})


@pytest.mark.parametrize(
    "garbage",
    [b"no json\n", b"{}\n", event("SURPRISE", item("c")), b'{"type":"ADDED","object":[]}\n', b'{"type":"ADDED","obj'],
    ids=repr,
)
def test_an_invalid_line_ends_the_watch_and_keeps_the_objects(server, store, garbage):
    server.watches = [[garbage], [event("ADDED", item("c", 9)), HOLD]]
    store.wait(lambda seen: "c" in seen.names)
    assert server.watched_from() == ["5", "5"]
    assert set(store.names) == {"a", "b", "c"}


@pytest.mark.parametrize("answer", [b"<html>", b"[]", b'{"items": 3}', 500, 503, 403, 404], ids=repr)
def test_a_failed_list_is_retried(server, store, answer):
    server.lists = [answer, page([item("a")], 5)]
    store.wait(lambda seen: "a" in seen.names)
    assert store.problems


def test_the_problem_contains_the_message_of_the_server(server, store):
    server.lists = [403, page([], 1)]
    store.wait(lambda seen: seen.problems)
    assert store.problems == ["GET /apis/example.io/v1/things: 403 injected"]


def test_a_server_outage_keeps_the_objects_and_the_watch_continues_afterwards(server, store):
    store.wait(lambda seen: seen.names and len(server.watched_from()) == 1)
    server.close()
    store.wait(lambda seen: seen.stale)
    assert set(store.names) == {"a", "b"}
    server.watches = [[event("ADDED", item("c", 9)), HOLD]]
    server.reopen()
    store.wait(lambda seen: "c" in seen.names and not seen.stale)
    assert store.calls == ["replace", "put c"], "there was no second list"


def test_watches_that_end_at_once_are_retried_with_backoff(server, store):
    server.watches = [[]] * 500
    store.wait(lambda seen: len(seen.problems) >= 3)
    before = len(server.asked)
    time.sleep(0.3)
    assert len(server.asked) - before < 20


def test_a_silent_watch_times_out(server, store, monkeypatch):
    monkeypatch.setattr(reflecting, "_WATCH_READ_TIMEOUT_S", 0.1)
    # On a busy machine even an event that is sent at once may arrive too late a few times.
    server.watches = [[HOLD], *([event("ADDED", item("c", 9)), HOLD] for _ in range(20))]
    store.wait(lambda seen: seen.problems)
    store.wait(lambda seen: "c" in seen.names)


def test_a_line_that_arrives_in_pieces_is_read_once_complete(server, store):
    line = event("ADDED", item("c", 9))
    server.watches = [[line[:7], line[7:20], line[20:-1], line[-1:] + event("ADDED", item("d", 10))[:5], HOLD]]
    store.wait(lambda seen: "c" in seen.names)
    server.more.put(event("ADDED", item("d", 10))[5:])
    store.wait(lambda seen: "d" in seen.names)


def test_a_line_that_is_too_long_ends_the_watch(server, store, monkeypatch):
    monkeypatch.setattr(reflecting, "MAX_MESSAGE_BYTES", 1000)
    server.watches = [[b"x" * 600, b"x" * 600, HOLD], [event("ADDED", item("c", 9)), HOLD]]
    store.wait(lambda seen: "c" in seen.names)
    assert store.problems == ["a watch event is larger than 1000 bytes"]
    assert store.calls.count("replace") == 2, "the list names the object; the same watch would send it again"


def test_an_object_that_is_nested_too_deeply_does_not_end_the_watch(server, store):
    deep = b'{"type":"ADDED","object":{"metadata":{"name":"deep","resourceVersion":"6"},"spec":%b}}\n'
    server.watches = [[deep % (b"[" * 20_000 + b"]" * 20_000), event("ADDED", item("c", 9)), HOLD]]
    store.wait(lambda seen: "c" in seen.names)
    assert store.names["deep"] == TOO_DEEP.problem
    assert not store.problems


def test_a_list_that_is_too_long_fails(server, store, monkeypatch):
    monkeypatch.setattr(reflecting, "pages", partial(pages, most=1000))
    server.lists = [page([item("a")], 5, "again")]
    store.wait(lambda seen: seen.problems)
    assert store.problems[0] == "more than 1000 things"
    assert store.unlistable, "users cause this, not the server"
    assert not store.names
    assert not server.watched_from(), "an incomplete list is not watched"


def test_a_list_that_expires_again_and_again_makes_the_store_stale(server, store):
    server.lists = [410, 410, page([item("a")], 5)]
    store.wait(lambda seen: "a" in seen.names)
    assert len(store.problems) == 2


def test_a_store_that_crashes_is_marked_stale_and_listed_again(server, store, caplog):
    put, failed = store.put, []

    def fail_once(key, raw) -> None:
        if not failed:
            failed.append(key)
            raise ZeroDivisionError
        put(key, raw)

    store.put = fail_once
    server.watches = [[event("ADDED", item("c", 6)), HOLD], [event("ADDED", item("d", 7)), HOLD]]
    store.wait(lambda seen: "d" in seen.names)
    assert store.problems == ["the reflector crashed; the log says why"]
    assert store.calls.count("replace") == 2
    assert "ZeroDivisionError" in caplog.text


def test_stop_aborts_a_watch_that_is_waiting(server):
    store = RecordingStore()
    reflector = Reflector(client(server), THINGS, store)
    reflector.start()
    store.wait(lambda seen: len(server.watched_from()) == 1 and not seen.stale)
    reflector.stop()
    assert not is_running()
    assert not store.problems


class TestBackoff:
    def test_waits_double_up_to_the_longest_until_reset(self):
        backoff = Backoff(1.0, 8.0, random.Random(7))
        waits = [backoff.next_s() for _ in range(6)]
        assert all(ceiling / 2 <= wait <= ceiling for wait, ceiling in zip(waits, [1, 2, 4, 8, 8, 8], strict=True))
        backoff.reset()
        assert backoff.next_s() <= 1.0

    def test_waits_have_jitter(self):
        assert Backoff(draw=random.Random(1)).next_s() != Backoff(draw=random.Random(2)).next_s()


def test_only_410_requires_a_new_list():
    assert [ApiError(status, "", "x").expired for status in (0, 404, 410)] == [False, False, True]
