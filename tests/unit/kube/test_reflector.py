"""List and watch over real HTTP: what a mirror is told, whatever happens on the way."""

import random
import threading
import time
from collections.abc import Iterator

import pytest
from api_server import CUT, HOLD, Server, bookmark, event, expired, item, page
from kubernetes.client import Configuration

from berthmaster.kube import reflector as reflecting
from berthmaster.kube.http_client import HTTPClient
from berthmaster.kube.reflector import Reflector
from berthmaster.kube.requests import Collection
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import ApiError
from berthmaster.runtime.backoff import Backoff

THINGS = Collection.of("example.io/v1", "things")
LIMIT_S = 5.0


class Recorder:
    """A mirror that remembers what it was told."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.told: list[str] = []
        self.problems: list[str] = []
        self.lost = False
        self._changed = threading.Condition()

    def replace(self, objects) -> None:
        with self._changed:
            self.names = {name: self._version(raw) for (_, name), raw in objects.items()}
            self.told.append("replace")
            self._changed.notify_all()

    def put(self, key, raw) -> None:
        with self._changed:
            self.names[key[1]] = self._version(raw)
            self.told.append(f"put {key[1]}")
            self._changed.notify_all()

    def drop(self, key) -> None:
        with self._changed:
            self.names.pop(key[1], None)
            self.told.append(f"drop {key[1]}")
            self._changed.notify_all()

    def confirm(self) -> None:
        with self._changed:
            self.lost = False
            self._changed.notify_all()

    def lose(self, problem: str) -> None:
        with self._changed:
            self.lost = True
            self.problems.append(problem)
            self._changed.notify_all()

    def wait(self, check) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: check(self), LIMIT_S), (self.names, self.told, self.problems)

    @staticmethod
    def _version(raw) -> str:
        return decode_json(dict, bytes(raw))["metadata"]["resourceVersion"]


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server(lists=[page([item("a", 1), item("b", 2)], 5)])
    yield made
    made.close()


def client(server: Server) -> HTTPClient:
    configuration = Configuration()
    configuration.host = server.url
    return HTTPClient(configuration)


@pytest.fixture
def mirror(server: Server) -> Iterator[Recorder]:
    """A mirror with a running reflector, started by the first ``wait``."""
    recorder = Recorder()
    reflector = Reflector(client(server), THINGS, recorder, Backoff(0.02, 0.1, random.Random(1)), random.Random(1))
    original, started = recorder.wait, []

    def wait(check) -> None:
        if not started:
            started.append(True)
            reflector.start()
        original(check)

    recorder.wait = wait
    yield recorder
    reflector.stop()
    assert not reflector._thread.is_alive()


def test_what_is_listed_is_what_there_is_and_changes_follow(server, mirror):
    server.watches = [
        [event("ADDED", item("c", 6)), event("MODIFIED", item("a", 7)), event("DELETED", item("b", 8)), HOLD]
    ]
    mirror.wait(lambda seen: seen.names == {"a": "7", "c": "6"})
    assert server.asked[0] == {"path": "/apis/example.io/v1/things", "authorization": "", "limit": "500"}
    watch = server.asked[1]
    assert (watch["resourceVersion"], watch["allowWatchBookmarks"]) == ("5", "true")
    assert 240 <= int(watch["timeoutSeconds"]) <= 360
    assert not mirror.problems


def test_pages_are_put_together(server, mirror):
    server.lists = [page([item("a")], 5, "next page"), page([item("b")], 5)]
    mirror.wait(lambda seen: set(seen.names) == {"a", "b"})
    assert server.asked[1]["continue"] == "next page"
    assert mirror.told == ["replace"]


def test_a_watch_that_ends_goes_on_where_it_ended(server, mirror):
    server.watches = [[event("ADDED", item("c", 9))], [event("ADDED", item("d", 10)), HOLD]]
    mirror.wait(lambda seen: "d" in seen.names)
    assert server.watched_from() == ["5", "9"]
    assert mirror.told.count("replace") == 1


def test_a_bookmark_moves_on_without_a_change(server, mirror):
    server.watches = [[bookmark(77)], [event("ADDED", item("c", 78)), HOLD]]
    mirror.wait(lambda seen: "c" in seen.names)
    assert server.watched_from() == ["5", "77"]


def test_a_connection_that_breaks_is_taken_up_where_it_broke(server, mirror):
    server.watches = [[event("ADDED", item("c", 9)), CUT], [event("ADDED", item("d", 10)), HOLD]]
    mirror.wait(lambda seen: "d" in seen.names)
    assert server.watched_from() == ["5", "9"]
    assert mirror.problems
    assert not mirror.lost


@pytest.mark.parametrize("told", [[expired()], 410, [event("ADDED", item("c", 6)), expired()]], ids=str)
def test_after_410_everything_is_listed_anew_and_what_is_gone_is_gone(server, mirror, told):
    server.lists = [page([item("a"), item("b")], 5), page([item("b", 50)], 60)]
    server.watches = [told]
    mirror.wait(lambda seen: seen.names == {"b": "50"} and len(server.watched_from()) == 2)
    assert server.watched_from() == ["5", "60"]
    assert not mirror.problems, "an expired version is no lost server"


def test_410_in_the_middle_of_a_list_starts_it_over(server, mirror):
    server.lists = [page([item("a")], 5, "token"), 410, page([item("z")], 9)]
    mirror.wait(lambda seen: set(seen.names) == {"z"})


@pytest.mark.parametrize(
    "garbage",
    [b"no json\n", b"{}\n", event("SURPRISE", item("c")), b'{"type":"ADDED","object":[]}\n', b'{"type":"ADDED","obj'],
    ids=repr,
)
def test_garbage_ends_the_watch_and_leaves_what_is_known(server, mirror, garbage):
    server.watches = [[garbage], [event("ADDED", item("c", 9)), HOLD]]
    mirror.wait(lambda seen: "c" in seen.names)
    assert server.watched_from() == ["5", "5"]
    assert set(mirror.names) == {"a", "b", "c"}


@pytest.mark.parametrize("answer", [b"<html>", b"[]", b'{"items": 3}', 500, 503, 403, 404], ids=repr)
def test_a_list_that_fails_is_tried_again(server, mirror, answer):
    server.lists = [answer, page([item("a")], 5)]
    mirror.wait(lambda seen: "a" in seen.names)
    assert mirror.problems


def test_a_servers_own_words_are_told(server, mirror):
    server.lists = [403, page([], 1)]
    mirror.wait(lambda seen: seen.problems)
    assert mirror.problems == ["GET /apis/example.io/v1/things: 403 as told"]


def test_a_server_that_vanishes_leaves_what_is_known_and_is_found_again(server, mirror):
    mirror.wait(lambda seen: seen.names and len(server.watched_from()) == 1)
    server.close()
    mirror.wait(lambda seen: seen.lost)
    assert set(mirror.names) == {"a", "b"}
    server.watches = [[event("ADDED", item("c", 9)), HOLD]]
    server.reopen()
    mirror.wait(lambda seen: "c" in seen.names and not seen.lost)
    assert mirror.told == ["replace", "put c"], "nothing was listed twice"


def test_a_server_that_ends_every_watch_at_once_is_not_asked_all_the_time(server, mirror):
    server.watches = [[]] * 500
    mirror.wait(lambda seen: len(seen.problems) >= 3)
    before = len(server.asked)
    time.sleep(0.3)
    assert len(server.asked) - before < 20


def test_silence_is_given_up(server, mirror, monkeypatch):
    monkeypatch.setattr(reflecting, "_WATCH_SILENCE_S", 0.1)
    # On a busy machine even an event that is sent at once may come too late, a few times.
    server.watches = [[HOLD], *([event("ADDED", item("c", 9)), HOLD] for _ in range(20))]
    mirror.wait(lambda seen: seen.problems)
    mirror.wait(lambda seen: "c" in seen.names)


def test_a_slow_line_is_read_when_it_is_whole(server, mirror):
    line = event("ADDED", item("c", 9))
    server.watches = [[line[:7], line[7:20], line[20:-1], line[-1:] + event("ADDED", item("d", 10))[:5], HOLD]]
    mirror.wait(lambda seen: "c" in seen.names)
    server.more.put(event("ADDED", item("d", 10))[5:])
    mirror.wait(lambda seen: "d" in seen.names)


def test_a_line_without_end_is_given_up(server, mirror, monkeypatch):
    monkeypatch.setattr(reflecting, "MAX_MESSAGE_BYTES", 1000)
    server.watches = [[b"x" * 600, b"x" * 600, HOLD], [event("ADDED", item("c", 9)), HOLD]]
    mirror.wait(lambda seen: "c" in seen.names)
    assert mirror.problems == ["an event of more than 1000 bytes"]


def test_a_list_without_end_is_given_up(server, mirror, monkeypatch):
    monkeypatch.setattr(reflecting, "MAX_OBJECTS", 1000)
    server.lists = [page([item("a")], 5, "again")]
    mirror.wait(lambda seen: seen.problems)
    assert mirror.problems[0] == "there are more than 1000 things"
    assert not mirror.names


def test_a_server_that_cannot_even_list_what_is_new_is_lost(server, mirror):
    server.lists = [410, 410, page([item("a")], 5)]
    mirror.wait(lambda seen: "a" in seen.names)
    assert len(mirror.problems) == 2


def test_a_mirror_that_fails_is_told_and_begins_anew(server, mirror, caplog):
    put, failed = mirror.put, []

    def fail_once(key, raw) -> None:
        if not failed:
            failed.append(key)
            raise ZeroDivisionError
        put(key, raw)

    mirror.put = fail_once
    server.watches = [[event("ADDED", item("c", 6)), HOLD], [event("ADDED", item("d", 7)), HOLD]]
    mirror.wait(lambda seen: "d" in seen.names)
    assert mirror.problems == ["the watch failed; the log says why"]
    assert mirror.told.count("replace") == 2
    assert "ZeroDivisionError" in caplog.text


def test_stopping_ends_a_watch_that_holds(server):
    recorder = Recorder()
    reflector = Reflector(client(server), THINGS, recorder)
    reflector.start()
    recorder.wait(lambda seen: len(server.watched_from()) == 1 and not seen.lost)
    time.sleep(0.05)
    before = time.monotonic()
    reflector.stop()
    assert time.monotonic() - before < 1.0
    assert not reflector._thread.is_alive()
    assert not recorder.problems


class TestBackoff:
    def test_waits_double_up_to_the_longest_and_begin_anew(self):
        backoff = Backoff(1.0, 8.0, random.Random(7))
        waits = [backoff.next_s() for _ in range(6)]
        assert all(ceiling / 2 <= wait <= ceiling for wait, ceiling in zip(waits, [1, 2, 4, 8, 8, 8], strict=True))
        backoff.reset()
        assert backoff.next_s() <= 1.0

    def test_two_do_not_wait_alike(self):
        assert Backoff(draw=random.Random(1)).next_s() != Backoff(draw=random.Random(2)).next_s()


def test_an_error_knows_whether_all_must_be_listed_anew():
    assert [ApiError(status, "", "x").expired for status in (0, 404, 410)] == [False, False, True]
