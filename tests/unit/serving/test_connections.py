"""Deadlines, steps and threads of connections."""

import selectors
import socket
import time
from contextlib import ExitStack

import pytest
from gunicorn.config import Config

from berthmaster.serving.channel import Channel
from berthmaster.serving.connections import Connection, ConnectionPoller, Deadlines, StreamUsage


def test_clients_are_overdue_when_their_time_is_over():
    deadlines = Deadlines(10)
    for client, since in {"b": 1, "a": 0, "c": 2}.items():  # a request that waited is added late
        deadlines.add(client, since)
    assert [deadlines.overdue(now) for now in (9, 10, 11, 99)] == [[], ["a"], ["b", "a"], ["b", "a", "c"]]
    assert (deadlines.oldest(), deadlines.oldest(until=0.5), len(deadlines)) == ("b", None, 3)


def test_adding_a_client_again_restarts_its_time_limit():
    deadlines = Deadlines(10)
    deadlines.add("a", 0)
    deadlines.add("b", 1)
    deadlines.add("a", 2)
    assert (deadlines.oldest(), deadlines.overdue(11)) == ("b", ["b"])


def test_a_discarded_client_is_never_overdue():
    deadlines = Deadlines(10)
    deadlines.add("a", 0)
    deadlines.discard("a")
    deadlines.discard("unknown")
    assert (deadlines.oldest(), deadlines.overdue(99)) == (None, [])


@pytest.fixture
def scene():
    """A selector, a poller that uses it, and two connections whose clients have both sent a byte."""
    with ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        conns = []
        for _ in range(2):
            ours, theirs = (stack.enter_context(each) for each in socket.socketpair())
            theirs.sendall(b"x")
            conns.append(Connection(Config(), Channel(ours, 1.0), ("x", 1), ("y", 2)))
        yield selector, ConnectionPoller(selector, idle_s=1, requesting_s=1), conns


def handle_events(selector):
    for key, _ in selector.select(0):
        key.data(key.fileobj)


def test_a_step_is_called_on_every_event_until_another_step_replaces_it(scene):
    selector, poller, (conn, _) = scene
    called = []
    poller.on(selectors.EVENT_READ, conn, lambda _conn: called.append("read"))
    handle_events(selector)
    handle_events(selector)
    poller.on(selectors.EVENT_WRITE, conn, lambda _conn: called.append("write"))
    handle_events(selector)
    assert called == ["read", "read", "write"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda poller, conn: poller.release(conn), id="it was released to a thread"),
        pytest.param(lambda poller, conn: poller.on(selectors.EVENT_WRITE, conn, pytest.fail), id="its step changed"),
    ],
)
def test_an_event_is_ignored_after_an_earlier_event_of_the_same_poll_changed_the_connection(scene, change):
    selector, poller, conns = scene
    called = []

    def step(conn):
        called.append(conn)
        change(poller, next(each for each in conns if each is not conn))

    for conn in conns:
        poller.on(selectors.EVENT_READ, conn, step)
    handle_events(selector)
    assert len(called) == 1


def test_a_released_connection_has_no_deadline(scene):
    _, poller, (conn, _) = scene
    poller.on(selectors.EVENT_READ, conn, pytest.fail)
    poller.start_deadline(conn, poller.requesting, 0)
    poller.start_deadline(conn, poller.idle, 0)
    assert (poller.requesting.oldest(), poller.idle.oldest()) == (None, conn)
    poller.release(conn)
    assert (poller.idle.oldest(), conn.step, conn.deadlines) == (None, None, None)


@pytest.mark.parametrize(
    ("began", "due"),
    [
        pytest.param(95, 105, id="within the limit of the request"),
        pytest.param(80, 101, id="within a moment if the answer is late"),
    ],
)
def test_an_answer_must_be_read_within_the_time_limit_of_its_request(scene, began, due):
    selector, _, (conn, _) = scene
    poller = ConnectionPoller(selector, idle_s=1, requesting_s=10)
    conn.channel.began_at = began
    poller.await_reader(conn, 100)
    poller.await_reader(conn, 200)  # an answer in several parts does not restart the limit
    assert poller.answering.overdue(due - 0.001) == []
    assert poller.answering.overdue(due) == [conn]


def test_a_paused_connection_keeps_its_deadline(scene):
    selector, poller, (conn, _) = scene
    poller.on(selectors.EVENT_READ, conn, pytest.fail)
    poller.start_deadline(conn, poller.requesting, 0)
    poller.pause(conn)
    handle_events(selector)
    assert poller.requesting.overdue(1) == [conn]


class Client:
    def __init__(self, since_s, *, receiving=True):
        self.started_at, self.receiving, self.interrupted = time.monotonic() - since_s, receiving, False

    def interrupt(self):
        self.interrupted = True


@pytest.mark.parametrize(
    ("threads", "waiting", "dropped"),
    [
        pytest.param(4, 0, [], id="none if no client waits"),
        pytest.param(5, 1, [], id="none if a thread is free"),
        pytest.param(4, 1, [0], id="the slowest for one"),
        pytest.param(4, 2, [0, 1], id="the two slowest for two"),
        pytest.param(4, 9, [0, 1], id="none that has sent its piece or got its thread just now"),
    ],
)
def test_as_many_slow_clients_are_dropped_as_clients_wait(threads, waiting, dropped):
    streams = StreamUsage(threads)
    clients = [Client(9), Client(8), Client(0), Client(7, receiving=False)]
    with ExitStack() as stack:
        for client in clients:
            stack.enter_context(streams.serving(client))
        streams.drop_slowest(waiting)
    assert [index for index, client in enumerate(clients) if client.interrupted] == dropped
