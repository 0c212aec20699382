"""The way of requests through the polling thread, step by step, over real sockets and without a server."""

import io
import selectors
import socket
import time
from contextlib import ExitStack

import pytest
from gunicorn.config import Config

from berthmaster.serving import dispatcher
from berthmaster.serving.channel import Channel
from berthmaster.serving.connections import Connection, ConnectionPoller
from berthmaster.serving.dispatcher import Dispatcher
from berthmaster.serving.framing import BodyCollection
from berthmaster.serving.memory_budget import SMALL_BYTES, MemoryBudget
from berthmaster.serving.pool_queue import PoolSizes
from berthmaster.serving.request_parser import BodyError, read_body
from berthmaster.serving.wsgi import WSGICaller

LIMIT_S = 10.0
BODY_BYTES = 2**20
CHEAP, SLOW = b"cheap", b"slow"


def application(environ, start_response):
    """Answer with the body. Its first bytes may be the size of the answer."""
    try:
        body = read_body(environ, BODY_BYTES)
    except BodyError as error:
        start_response(f"{error.status} Refused", [("X-Problem", str(error)), *error.headers])
        return [b""]
    start_response("200 OK", [])
    return [body * (2**19 if body == CHEAP + b"!" else 1)]


class Worker:
    """The rest of a worker. The test is the thread pool: it calls ``serve`` and ``finish``."""

    keeps_connections = True

    def __init__(self):
        self.started, self.closed, self.ended = [], [], []

    def start(self, conn):
        self.started.append(conn)

    def parse_and_answer(self, conn):
        data = b"".join(iter(lambda: conn.channel.recv(2**16) if conn.channel._inbox else b"", b""))
        body = data.partition(b"\r\n\r\n")[2]
        environ = {"gunicorn.socket": conn.channel, "wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
        status = []
        application(environ, lambda line, _fields: status.append(line))
        conn.channel.sendall(f"HTTP/1.1 {status[0]}\r\n\r\n".encode())
        return False

    def crashed(self, conn, error):
        raise AssertionError(conn) from error

    def close(self, conn):
        self.closed.append(conn)

    def end(self, conn):
        self.ended.append(conn)


class Finished:
    def __init__(self, keep):
        self.result = lambda: keep


class Scene:
    """A dispatcher and its clients."""

    def __init__(self, stack, memory_bytes=2**26, threads=2):
        self.stack = stack
        self.selector = stack.enter_context(selectors.DefaultSelector())
        self.connections = ConnectionPoller(self.selector, idle_s=LIMIT_S, requesting_s=LIMIT_S)
        self.worker = Worker()
        self.budget = MemoryBudget(memory_bytes)
        self.dispatcher = Dispatcher(
            self.worker, self.connections, WSGICaller(application, Config()),
            {"/": lambda body: body.startswith(CHEAP), "/waits": lambda _body: False},
            BodyCollection(BODY_BYTES, {"/stream"}), self.budget,
            PoolSizes(threads, 1, 2), {"/waits"},
        )  # fmt: skip

    def client(self, peer="192.0.2.1"):
        ours, theirs = (self.stack.enter_context(each) for each in socket.socketpair())
        conn = Connection(Config(), Channel(ours, LIMIT_S), (peer, 5), ("192.0.2.2", 80))
        conn.environ = {"REMOTE_ADDR": peer}
        self.connections.on(selectors.EVENT_READ, conn, self.dispatcher.read)
        self.connections.start_deadline(conn, self.connections.requesting, time.monotonic())
        theirs.settimeout(30)
        return theirs, conn

    def poll(self, rounds=1):
        for _ in range(rounds):
            for key, _ in self.selector.select(0):
                key.data(key.fileobj)
            self.dispatcher.go_on()

    def send(self, client, data):
        """Send more than the buffer of a socket holds."""
        client.settimeout(0)
        while data:
            try:
                data = data[client.send(data) :]
            except BlockingIOError:
                self.poll()

    def serve(self):
        conn = self.worker.started.pop(0)
        self.dispatcher.finish(conn, Finished(self.dispatcher.serve(conn)))

    def is_read(self, conn):
        return conn.step == (selectors.EVENT_READ, self.dispatcher.read)


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    """No client is slow in these tests, however busy the machine is."""
    monkeypatch.setattr(dispatcher, "_PATIENCE_S", 600.0)


@pytest.fixture
def scene():
    with ExitStack() as stack:
        yield Scene(stack)


def post(body, path="/", length=None):
    return b"POST %b HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (path.encode(), length or len(body), body)


def statuses(client):
    client.settimeout(0)
    try:
        return [int(part[:3]) for part in client.recv(2**20).split(b"HTTP/1.1 ")[1:]]
    except BlockingIOError:
        return []


def test_nothing_is_read_while_arrived_requests_are_unanswered(scene):
    client, conn = scene.client()
    sent = 2000
    client.sendall(post(CHEAP) * sent)
    scene.poll()
    answered, longest = 0, 0
    while answered < sent:
        got = len(statuses(client))
        assert got <= 2, "one request in a turn: other connections come first"
        answered, longest = answered + got, max(longest, len(conn.arrived))
        assert scene.is_read(conn) == (not scene.dispatcher.busy)
        scene.poll()
    scene.poll()
    assert longest <= 2**14
    assert scene.connections.idle.oldest() is conn


def test_a_request_that_is_not_cheap_gets_a_thread_and_the_connection_waits(scene):
    client, conn = scene.client()
    client.sendall(post(SLOW) + post(CHEAP))
    scene.poll(3)
    assert (scene.worker.started, statuses(client), scene.is_read(conn)) == ([conn], [], False)
    scene.serve()
    scene.poll()
    assert statuses(client) == [200, 200]


def test_requests_that_wait_for_another_service_hold_up_no_others(scene):
    waiting = [scene.client() for _ in range(3)]
    for client, _ in waiting:
        client.sendall(post(SLOW, "/waits"))
        scene.poll(2)
    other, other_conn = scene.client()
    other.sendall(post(SLOW))
    scene.poll(2)
    assert scene.worker.started == [waiting[0][1], waiting[1][1], other_conn], "two threads wait at once"
    scene.serve()
    assert scene.worker.started[-1] is waiting[2][1]
    for _ in range(3):
        scene.serve()
    assert [statuses(client) for client, _ in (*waiting, (other, None))] == [[200]] * 4


def test_incomplete_requests_use_no_thread(scene):
    for _ in range(20):
        client, _ = scene.client()
        client.sendall(post(SLOW, length=500_000))
        scene.poll()
    assert scene.worker.started == []
    good, conn = scene.client()
    good.sendall(post(SLOW))
    scene.poll()
    assert scene.worker.started == [conn]


def test_a_large_body_is_collected_and_answered(scene):
    client, conn = scene.client()
    scene.send(client, post(SLOW + b"x" * (BODY_BYTES - len(SLOW))))
    while not scene.worker.started:
        scene.poll()
    assert len(conn.plain.body) == BODY_BYTES
    scene.serve()
    assert statuses(client) == [200]


def large(scene, peer="192.0.2.1"):
    """Begin to send a large request of which more has arrived than the budget allows."""
    client, conn = scene.client(peer)
    scene.send(client, post(SLOW + b"x" * SMALL_BYTES, length=BODY_BYTES))
    while len(conn.arrived) <= SMALL_BYTES:
        scene.poll()
    client.sendall(b"more")
    scene.poll()
    return client, conn


def test_a_large_request_that_does_not_fit_waits_unread_and_small_ones_do_not():
    with ExitStack() as stack:
        scene = Scene(stack, memory_bytes=4 * SMALL_BYTES)
        _, waiting = large(scene)
        assert not scene.is_read(waiting)
        client, _ = scene.client()
        client.sendall(post(CHEAP))
        scene.poll()
        assert statuses(client) == [200]
        scene.dispatcher.check_deadlines(time.monotonic())
        assert scene.is_read(waiting), "if all wait, one goes on"


def test_a_request_that_waits_for_memory_until_its_deadline_may_be_retried():
    with ExitStack() as stack:
        scene = Scene(stack, memory_bytes=4 * SMALL_BYTES)
        large(scene)
        scene.dispatcher.check_deadlines(time.monotonic())
        client, conn = large(scene)
        scene.dispatcher.check_deadlines(conn.channel.began_at + LIMIT_S)
        assert statuses(client) == [503]


def test_large_requests_in_progress_are_limited():
    with ExitStack() as stack:
        scene = Scene(stack, memory_bytes=4 * 2**20, threads=4)
        for _ in range(3):
            client, _ = scene.client()
            scene.send(client, post(SLOW + b"x" * (SMALL_BYTES * 2 - 200)))
            scene.poll(20)
        assert len(scene.worker.started) == 2, "each counts 1 MiB, and a half of 4 MiB is for them"
        scene.serve()
        assert len(scene.worker.started) == 2


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        pytest.param(post(SLOW, length=50), 408, id="the body is late"),
        pytest.param(b"POST /other HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", 408, id="chunks are late"),
    ],
)
def test_a_late_request_is_refused_without_a_thread(scene, sent, status):
    client, conn = scene.client()
    client.sendall(sent)
    scene.poll()
    scene.dispatcher.check_deadlines(conn.channel.began_at + LIMIT_S - 0.01)
    assert statuses(client) == []
    scene.dispatcher.check_deadlines(conn.channel.began_at + LIMIT_S)
    assert (statuses(client), scene.worker.started, scene.worker.ended) == ([status], [], [conn])


def test_the_deadline_includes_the_time_in_the_queue():
    with ExitStack() as stack:
        scene = Scene(stack, threads=1)
        (first, _), (second, conn) = scene.client(), scene.client()
        for client in (first, second):
            client.sendall(post(SLOW))
            scene.poll()
        scene.dispatcher.check_deadlines(conn.channel.began_at + LIMIT_S)
        assert (statuses(first), statuses(second)) == ([], [503])
        scene.serve()
        assert (statuses(first), scene.worker.started) == ([200], [])


def test_an_answer_does_not_restart_the_deadline_of_the_next_request(scene):
    client, conn = scene.client()
    client.sendall(post(CHEAP) + post(CHEAP, length=50))
    scene.poll()
    read_at = conn.read_at
    scene.poll()
    assert statuses(client) == [200]
    scene.dispatcher.check_deadlines(read_at + LIMIT_S)
    assert statuses(client) == [408]


def test_a_client_that_does_not_read_its_answer_is_dropped_at_the_deadline_of_its_request(scene):
    client, conn = scene.client()
    client.sendall(post(CHEAP + b"!"))
    scene.poll(3)
    scene.dispatcher.check_deadlines(conn.channel.began_at + LIMIT_S - 0.01)
    assert scene.worker.closed == []
    scene.dispatcher.check_deadlines(conn.channel.began_at + LIMIT_S)
    assert scene.worker.closed == [conn]


def test_too_much_of_unread_answers_drops_the_client_that_has_waited_longest():
    with ExitStack() as stack:
        scene = Scene(stack, memory_bytes=2**24)
        conns = []
        for _ in range(2):
            client, conn = scene.client()
            client.sendall(post(CHEAP + b"!"))
            scene.poll()
            conns.append(conn)
        assert scene.worker.closed == conns[:1], "each answer has 3 MiB, the budget for both 4"


def test_peers_share_the_threads(scene):
    for peer in ("192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.9"):
        client, _ = scene.client(peer)
        client.sendall(post(SLOW))
        scene.poll()
    scene.serve()
    assert [conn.environ["REMOTE_ADDR"] for conn in scene.worker.started] == ["192.0.2.1", "192.0.2.9"]


def test_a_stream_gets_a_thread_before_it_is_complete(scene):
    client, conn = scene.client()
    client.sendall(post(b"line", "/stream", length=100))
    scene.poll()
    assert scene.worker.started == [conn]


def test_a_client_that_waits_for_100_continue_gets_it_once(scene):
    client, conn = scene.client()
    client.sendall(b"POST /other HTTP/1.1\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
    scene.poll()
    assert statuses(client) == [100]
    client.sendall(b"hello")
    scene.poll()
    conn.channel.send(b"HTTP/1.1 100 Continue\r\n\r\n")  # as gunicorn does
    scene.serve()
    assert statuses(client) == [200]


INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n"


def stopping(scene):
    """Return a client with an idle connection, when the worker begins to stop."""
    client, conn = scene.client()
    client.sendall(post(CHEAP))
    scene.poll()
    assert b"Connection: keep-alive\r\n" in client.recv(2**16)
    scene.worker.keeps_connections = False
    return client, conn


@pytest.mark.parametrize("body", [pytest.param(CHEAP, id="polling thread"), pytest.param(SLOW, id="pool")])
def test_a_response_closes_the_connection_when_the_server_drains(scene, body):
    client, conn = stopping(scene)
    client.sendall(post(body))
    scene.poll()
    if body is SLOW:
        scene.serve()
    assert b"Connection: close\r\n" in client.recv(2**16)
    assert scene.worker.ended == [conn]


def test_a_client_with_an_idle_connection_gets_an_interim_response_once_and_has_time_to_close_it(scene):
    client, conn = stopping(scene)
    now = time.monotonic()
    for later_s in (0.0, 1.0):
        scene.dispatcher.dismiss_idle(now + later_s)
    assert client.recv(2**16) == INTERIM
    leaving = scene.connections.leaving
    assert (leaving.overdue(now + leaving.limit_s - 0.01), leaving.overdue(now + leaving.limit_s)) == ([], [conn])
    client.close()
    scene.poll()
    assert scene.worker.closed == [conn]


@pytest.mark.parametrize("pieces", [1, 2])
def test_a_request_that_crosses_the_interim_response_is_answered(scene, pieces):
    client, conn = stopping(scene)
    scene.dispatcher.dismiss_idle(time.monotonic())
    data = post(CHEAP)
    for part in (data,) if pieces == 1 else (data[:9], data[9:]):
        client.sendall(part)
        scene.poll()
    assert client.recv(2**16).startswith(INTERIM + b"HTTP/1.1 200 OK\r\n")
    assert scene.worker.ended == [conn]


def test_a_new_connection_has_time_for_its_first_request_when_the_worker_stops(scene):
    (quiet, quiet_conn), (busy, _) = scene.client(), scene.client()
    busy.sendall(post(CHEAP)[:9])
    scene.poll()
    accepted_at = time.monotonic()
    scene.dispatcher.dismiss_idle(quiet_conn.channel.began_at)
    assert scene.connections.leaving.oldest() is None
    scene.dispatcher.dismiss_idle(accepted_at + dispatcher._FIRST_REQUEST_S)
    assert list(scene.connections.leaving) == [quiet_conn]
    assert quiet.recv(2**16) == INTERIM
    assert statuses(busy) == [], "its request is arriving"


def test_a_client_of_http_1_0_gets_no_interim_response(scene):
    client, conn = stopping(scene)
    conn.knows_interim = False
    scene.dispatcher.dismiss_idle(time.monotonic())
    assert (statuses(client), list(scene.connections.leaving)) == ([], [conn])
