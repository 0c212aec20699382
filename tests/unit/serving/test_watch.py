"""Steps that connections take."""

import selectors
import socket
from contextlib import ExitStack

import pytest
from gunicorn.config import Config

from berthmaster.serving.channel import Channel
from berthmaster.serving.watch import Connection, Watch


@pytest.fixture
def scene():
    """A poller, a watch on it, and two connections whose clients have both said something."""
    with ExitStack() as stack:
        poller = stack.enter_context(selectors.DefaultSelector())
        conns = []
        for _ in range(2):
            ours, theirs = (stack.enter_context(each) for each in socket.socketpair())
            theirs.sendall(b"x")
            conns.append(Connection(Config(), Channel(ours, 1.0), ("x", 1), ("y", 2)))
        yield poller, Watch(poller, idle_s=1, asking_s=1), conns


def work_off(poller):
    for key, _ in poller.select(0):
        key.data(key.fileobj)


def test_a_step_is_taken_with_every_event_until_there_is_another(scene):
    poller, watch, (conn, _) = scene
    taken = []
    watch.on(selectors.EVENT_READ, conn, lambda _conn: taken.append("read"))
    work_off(poller)
    work_off(poller)
    watch.on(selectors.EVENT_WRITE, conn, lambda _conn: taken.append("write"))
    work_off(poller)
    assert taken == ["read", "read", "write"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda watch, conn: watch.leave(conn), id="it was left to a thread"),
        pytest.param(lambda watch, conn: watch.on(selectors.EVENT_WRITE, conn, pytest.fail), id="its step changed"),
    ],
)
def test_an_event_is_nothing_once_another_of_the_same_moment_changed_things(scene, change):
    poller, watch, conns = scene
    taken = []

    def step(conn):
        taken.append(conn)
        change(watch, next(each for each in conns if each is not conn))

    for conn in conns:
        watch.on(selectors.EVENT_READ, conn, step)
    work_off(poller)
    assert len(taken) == 1


def test_who_is_left_is_not_waited_for(scene):
    _, watch, (conn, _) = scene
    watch.on(selectors.EVENT_READ, conn, pytest.fail)
    watch.wait(conn, watch.asking)
    watch.wait(conn, watch.idle)
    assert (watch.asking.longest(), watch.idle.longest()) == (None, conn)
    watch.leave(conn)
    assert (watch.idle.longest(), conn.step, conn.waiting) == (None, None, None)
