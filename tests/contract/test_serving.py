"""What docs/serving.md promises, over real sockets. The service is ``tests/echo_service.py``."""

import json
import select
import signal
import socket
import sys
import time
from contextlib import ExitStack, contextmanager, suppress

import pytest
from conftest import ROOT
from free_ports import free_port
from servers import Wire, request, started
from waiting import LIMIT_S, wait_for

INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n"
QUICK_S = 2.0


@contextmanager
def serving(folder, **options):
    port, probe_port = free_port(), free_port()
    words = [sys.executable, str(ROOT / "tests" / "echo_service.py")]
    given = json.dumps({"port": port, "probe_port": probe_port, **options})
    with started([*words, given], port, probe_port, log=folder / f"log-{port}") as server:
        yield server


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server whose time limits no machine is too slow for."""
    with serving(tmp_path_factory.mktemp("serving")) as started:
        yield started


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """A server with a short time limit and little memory."""
    folder = tmp_path_factory.mktemp("quick")
    with serving(folder, request_timeout_s=QUICK_S, request_memory_bytes=4 * 2**20) as started:
        yield started


@pytest.fixture
def wire(server):
    with Wire(server.port, timeout_s=60) as opened:
        yield opened


def post(path, body=b"", **fields):
    return request("POST", path, body, **fields)


def asked(wire, data):
    wire.send(data)
    return wire.answer()


def hold(wire, file, path="/hold"):
    """Send a request whose answer waits for a file, and wait until the application has it."""
    wire.send(post(path, str(file).encode()))
    wait_for(file.with_suffix(".begun").exists)


def environ(wire, head):
    return json.loads(asked(wire, head.encode("latin-1")).body)


# Requests.


def is_answered_alone(server, folder, *, in_pool=False, late=False):
    """Return whether an answer comes before the polling thread ends a request that arrived with the answered one."""
    folder.mkdir()
    files = [folder / name for name in ("pool", "before", "between", "behind")]
    with ExitStack() as stack:
        pool, before, cheap, between, behind = wires = [stack.enter_context(Wire(server.port)) for _ in range(5)]
        assert all(asked(each, post("/cheap")).status == 200 for each in wires)  # all are accepted
        if in_pool:
            hold(pool, files[0])
        hold(before, files[1], "/stall")  # while the polling thread waits, the others arrive
        cheap.send(post("/cheap", b"a"))
        for each, file in ((between, files[2]), (behind, files[3])):
            each.send(post("/stall", str(file).encode()))
        files[1 if late else 2].touch()
        files[1].touch()
        time.sleep(0.01 * late)  # the limit is 1 ms
        files[2].touch()
        wait_for(files[3].with_suffix(".begun").exists)
        # An answer that must come alone comes at once, unless the machine is busy.
        alone = select.select([cheap.socket], [], [], 5.0 if in_pool or late else 0.2)[0]
        for file in files:
            file.touch()
        assert cheap.answer().body == b"a"
        assert {each.answer().status for each in (before, between, behind)} == {200}
    return bool(alone)


def test_answers_are_sent_together_unless_one_is_late_or_a_thread_of_the_pool_works(server, tmp_path):
    assert all(is_answered_alone(server, tmp_path / each, **{each: True}) for each in ("in_pool", "late"))
    # On a busy machine an answer waits for longer than 1 ms, and is sent. It is tried until the machine has a moment.
    assert not all(is_answered_alone(server, tmp_path / str(number)) for number in range(300))


def test_the_polling_thread_answers_what_is_cheap_and_the_pool_the_rest(wire):
    threads = [asked(wire, post("/cheap", body)).headers["x-thread"] for body in (b"a", b"slow", b"b" * 70_000)]
    assert threads == ["polling", "pool", "pool"]


@pytest.mark.parametrize("size", [1, 7, 100, 511, 512, 513])
@pytest.mark.parametrize(
    "body",
    [
        pytest.param("Content-Length: 26\r\n\r\nabcdefghijklmnopqrstuvwxyz", id="a length"),
        pytest.param(
            "Transfer-Encoding: chunked\r\n\r\n6;a=b\r\nabcdef\r\n14\r\nghijklmnopqrstuvwxyz\r\n0\r\nT: t\r\n\r\n",
            id="chunks",
        ),
        pytest.param(
            "Connection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 26\r\n\r\nabcdefghijklmnopqrstuvwxyz",
            id="another protocol and a length",
        ),
        pytest.param(
            "Connection: upgrade\r\nUpgrade: h2c\r\nTransfer-Encoding: chunked\r\n\r\n"
            "1a\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\n\r\n",
            id="another protocol and chunks",
        ),
    ],
)
def test_pipelined_requests_are_answered_however_they_arrive(wire, body, size):
    data = f"POST /cheap HTTP/1.1\r\nHost: x\r\n{body}".encode() * 3
    wire.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for at in range(0, len(data), size):
        wire.send(data[at : at + size])
    assert [wire.answer().body for _ in range(3)] == [b"abcdefghijklmnopqrstuvwxyz"] * 3


def test_thousands_of_pipelined_requests_do_not_delay_other_clients(server, wire):
    count = 5000
    with Wire(server.port, timeout_s=60) as greedy:
        greedy.socket.settimeout(0)
        with suppress(BlockingIOError):
            greedy.send(post("/cheap", b"x" * 100) * count)
        began = time.monotonic()
        assert asked(wire, post("/cheap", b"other")).body == b"other"
        assert time.monotonic() - began < LIMIT_S / 2
        greedy.socket.settimeout(60)
        assert all(greedy.answer().body == b"x" * 100 for _ in range(100))


@pytest.mark.parametrize(
    ("data", "status"),
    [
        pytest.param("nonsense\r\n\r\n", 400, id="no HTTP"),
        pytest.param("POST /cheap HTTP/2.0\r\nHost: x\r\n\r\n", 400, id="another version"),
        pytest.param("POST /cheap HTTP/1.1\nHost: x\n\n", 400, id="lines without a carriage return"),
        pytest.param("POST /cheap HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400, id="two hosts"),
        pytest.param("POST /cheap HTTP/1.1\r\nX : y\r\n\r\n", 400, id="a space before the colon"),
        pytest.param("POST /cheap HTTP/1.1\r\nX: y\r\n z\r\n\r\n", 400, id="a folded line"),
        pytest.param("POST /cheap HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 400, id="another coding"),
        pytest.param(
            "POST /cheap HTTP/1.1\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n", 400, id="both framings"
        ),
        pytest.param("POST /cheap HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400, id="chunks over HTTP/1.0"),
        pytest.param(f"POST /{'x' * 4090} HTTP/1.1\r\n\r\n", 414, id="a long line"),
        pytest.param(f"POST /{'x' * 9000}", 414, id="a long line that does not end"),
        pytest.param(f"POST / HTTP/1.1\r\nX: {'x' * 8188}\r\n\r\n", 431, id="a long field"),
        pytest.param(f"POST / HTTP/1.1\r\nX: {'x' * 9000}", 431, id="a long field that does not end"),
        pytest.param("POST / HTTP/1.1\r\n" + "X: y\r\n" * 65 + "\r\n", 431, id="many fields"),
        pytest.param("POST /cheap HTTP/1.1\r\nExpect: a miracle\r\n\r\n", 417, id="another expectation"),
    ],
)
def test_what_is_no_request_is_refused_and_ends_the_connection(server, data, status):
    with Wire(server.port) as wire:
        answer = asked(wire, data.encode())
        assert (answer.status, answer.headers["connection"]) == (status, "close")
        assert wire.ended()


@pytest.mark.parametrize(
    "tail",
    [
        pytest.param(b"zz\r\n", id="no size"),
        pytest.param(b"1;" + b"x" * 9000, id="an extension that is too long"),
        pytest.param(b"0\r\n" + b"T: t\r\n" * 70 + b"\r\n", id="many trailers"),
        pytest.param(b"0\r\nT: " + b"t" * 9000, id="a trailer that is too long"),
    ],
)
def test_a_malformed_chunked_body_is_refused_by_the_application(server, tail):
    with Wire(server.port) as wire:
        answer = asked(wire, b"POST /cheap HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n" + tail)
        assert answer.status in {400, 431}
        assert "x-thread" in answer.headers
        assert wire.ended()


def test_the_environment_of_a_request(wire):
    head = "GET http://other/a%20b%2Fc?q=%20#part HTTP/1.1\r\nHost: x\r\nA: 1\r\nX_Y: bad\r\nA:  2 \r\nB: \xe9\r\n\r\n"
    found = environ(wire, head)
    assert {key: found[key] for key in ("REQUEST_METHOD", "PATH_INFO", "QUERY_STRING", "HTTP_A", "HTTP_B")} == {
        "REQUEST_METHOD": "GET", "PATH_INFO": "/a b/c", "QUERY_STRING": "q=%20", "HTTP_A": "1,2", "HTTP_B": "\xe9",
    }  # fmt: skip
    assert (found["SCRIPT_NAME"], found["SERVER_PROTOCOL"], found["REMOTE_ADDR"]) == ("", "HTTP/1.1", "127.0.0.1")
    assert "HTTP_X_Y" not in found


def test_a_head_request_has_the_length_of_the_body_and_no_body(wire):
    wire.send(request("HEAD", "/environ") + post("/cheap", b"next"))
    head = b""
    while b"\r\n\r\n" not in head:
        head += wire.socket.recv(1)
    assert b"Content-Length: 0\r\n" not in head
    assert b"Content-Length: " in head
    assert wire.answer().body == b"next"


def test_an_error_of_the_application_is_answered_and_logged(server):
    with Wire(server.port) as wire:
        assert asked(wire, post("/crash")).status == 500
        assert wire.ended()
    assert "a test wants this error" in server.log.read_text()


@pytest.mark.parametrize(
    ("fields", "kept"),
    [pytest.param("", False, id="plain"), pytest.param("Connection: keep-alive\r\n", True, id="with keep-alive")],
)
def test_a_client_of_http_1_0_decides_whether_the_connection_stays_open(server, fields, kept):
    with Wire(server.port) as wire:
        for _ in range(2 if kept else 1):
            answer = asked(wire, f"POST /cheap HTTP/1.0\r\n{fields}Content-Length: 2\r\n\r\nab".encode())
            assert (answer.body, answer.headers["connection"]) == (b"ab", "keep-alive" if kept else "close")
        assert kept or wire.ended()


def test_a_client_that_expects_100_continue_gets_it_once(wire):
    for path in ("/cheap", "/stream"):
        wire.send(post(path, Expect="100-continue", Content_Length="3"))
        assert wire.answer().status == 100
        assert asked(wire, b"ab\n").body.lower() == b"ab\n"


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"Content_Length": str(2**40)}, id="a body over the limit"),
        pytest.param({"Content_Length": "5000", "X_Stranger": "yes"}, id="a client that may not send large bodies"),
    ],
)
def test_a_client_that_asks_first_whether_to_send_a_refused_body_need_not_send_it(server, fields):
    with Wire(server.port) as wire:
        assert asked(wire, post("/cheap", Expect="100-continue", **fields)).status in {400, 413}
        assert wire.ended()


# Streams.


def test_a_streamed_answer_to_a_body_leaves_the_connection_open(server):
    with Wire(server.port) as wire:
        wire.send(b"POST /stream HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n")
        wire.send(b"1\r\nc\r\n0\r\n\r\n" + post("/cheap", b"next"))
        received = b""
        while not received.endswith(b"next"):
            received += wire.socket.recv(4096)
    assert b"Transfer-Encoding: chunked" in received
    assert b"1\r\nA\r\n2\r\nBC\r\n0\r\n\r\nHTTP/1.1 200 OK" in received


@pytest.mark.parametrize(("version", "chunked"), [("1.1", True), ("1.0", False)])
def test_the_end_of_a_streamed_answer_is_known_to_every_client(server, version, chunked):
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
        client.sendall(f"GET /events HTTP/{version}\r\nConnection: close\r\n\r\n".encode())
        received = b"".join(iter(lambda: client.recv(4096), b""))
    assert received.endswith(b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n" if chunked else b"\r\n\r\nonetwo")


def test_a_streamed_answer_ends_when_its_client_leaves(server, tmp_path):
    with Wire(server.port) as wire:
        wire.send(f"GET /endless?{tmp_path / 'ended'} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert b"more" in wire.socket.recv(4096) + wire.socket.recv(4096)
        assert not (tmp_path / "ended").exists()
    wait_for((tmp_path / "ended").exists)


def test_a_client_that_sends_slowly_takes_no_thread_of_streams(tmp_path):
    with serving(tmp_path, threads=2) as server, Wire(server.port) as slow, Wire(server.port) as other:
        slow.send(post("/stream", b"a", Content_Length="2"))
        for _ in range(3):
            assert asked(other, post("/stream", b"b\n")).body == b"B\n"
        assert asked(slow, b"b").body == b"AB"


# Threads.


def test_requests_that_wait_hold_up_neither_cheap_ones_nor_those_of_other_kinds(server, tmp_path):
    with ExitStack() as stack:
        wires = [stack.enter_context(Wire(server.port, timeout_s=60)) for _ in range(6)]
        files = [tmp_path / f"{number}" for number in range(4)]
        for wire, file, path in zip(wires, files, ("/hold", "/hold", "/waits", "/waits"), strict=False):
            hold(wire, file, path)
        wires[4].send(post("/cheap", b"slow"))
        assert asked(wires[5], post("/cheap", b"a")).body == b"a"
        wires[4].socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            wires[4].answer()  # both threads for it are taken
        files[0].touch()
        wires[4].socket.settimeout(60)
        assert wires[4].answer().body == b"slow"
        for file in files:
            file.touch()
        assert [wire.answer().status for wire in wires[:4]] == [200] * 4


def test_clients_share_the_threads(server, tmp_path):
    with ExitStack() as stack:
        clients = []
        for number in range(5):
            clients.append(stack.enter_context(Wire(server.port, timeout_s=60)))
            if number < 2:
                hold(clients[-1], tmp_path / f"{number}")
            else:
                clients[-1].send(post("/hold", str(tmp_path / f"{number}").encode()))
        time.sleep(0.2)  # the last two wait now
        address = ("127.0.0.1", server.port)
        other = stack.enter_context(socket.create_connection(address, timeout=60, source_address=("127.0.0.2", 0)))
        other.sendall(post("/hold", str(tmp_path / "other").encode()))
        time.sleep(1)
        (tmp_path / "0").touch()
        wait_for((tmp_path / "other.begun").exists)
        assert not (tmp_path / "2.begun").exists(), "the client with fewer requests in progress comes first"
        for name in ("other", *map(str, range(5))):
            (tmp_path / name).touch()
        assert [each.answer().status for each in clients] == [200] * 5


# Time limits.


def test_the_time_limit_of_a_request_includes_the_time_in_the_queue(quick, tmp_path):
    with ExitStack() as stack:
        held = [stack.enter_context(Wire(quick.port)) for _ in range(2)]
        for number, wire in enumerate(held):
            hold(wire, tmp_path / f"{number}")
        late = stack.enter_context(Wire(quick.port))
        answer = asked(late, post("/cheap", b"slow"))
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert asked(late, post("/cheap", b"next")).body == b"next", "the request had arrived"
        answer = asked(late, request("GET", "/environ"))
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert "x-thread" not in answer.headers, "the application must not hold up the polling thread"
        for number in range(2):
            (tmp_path / f"{number}").touch()
        assert [wire.answer().status for wire in held] == [200, 200], "a late answer is still sent"


def test_an_answer_does_not_restart_the_time_limit_of_the_next_request(quick):
    with Wire(quick.port) as wire:
        began = time.monotonic()
        wire.send(post("/cheap", b"first") + post("/cheap", b"half", Content_Length="50"))
        assert [wire.answer().status for _ in range(2)] == [200, 408]
        assert time.monotonic() - began >= QUICK_S * 0.9
        assert wire.ended()


@pytest.mark.parametrize("data", [b"", b"POST /che", b"\r\n", b"POST /cheap HTTP/1.1\r\nX: "])
def test_a_connection_without_a_complete_head_is_closed(quick, data):
    with Wire(quick.port) as wire:
        wire.send(data)
        for _ in range(20):
            with suppress(OSError):
                wire.send(data[-1:] if data.startswith(b"P") else data)
            time.sleep(QUICK_S / 10)
        assert wire.ended(0.1)


def received_late(client):
    """Return how much a client gets that has not read for some time."""
    with suppress(ConnectionResetError):
        return sum(map(len, iter(lambda: client.recv(2**16), b"")))
    return 0


def reluctant(server, size):
    """Ask for a large answer, and do not read it."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(60)
    client.connect(("127.0.0.1", server.port))
    client.sendall(post("/big", b"%d" % size, Connection="close"))
    return client


def test_a_client_that_does_not_read_its_answer_is_disconnected(tmp_path):
    with (
        serving(tmp_path, request_timeout_s=QUICK_S, request_memory_bytes=2**28) as server,
        reluctant(server, 2 * 10**7) as client,
    ):
        time.sleep(QUICK_S * 2)
        assert received_late(client) < 2 * 10**7


# Memory.


def test_answers_that_nobody_reads_cost_the_oldest_client_its_connection(tmp_path):
    size = 3 * 10**7
    with serving(tmp_path, request_memory_bytes=180 * 2**20) as server, ExitStack() as stack:
        clients = []
        for _ in range(2):
            clients.append(stack.enter_context(reluctant(server, size)))
            time.sleep(1)
        assert received_late(clients[1]) > size
        assert received_late(clients[0]) < size


def test_a_large_request_waits_for_memory_and_a_slow_one_makes_way(quick):
    body = b"x" * 2**20
    with Wire(quick.port) as slow, Wire(quick.port) as large, Wire(quick.port) as small:
        slow.send(post("/cheap", body, Content_Length=str(2 * len(body))))
        time.sleep(0.2)
        large.send(post("/cheap", body[:300_000]))
        assert asked(small, post("/cheap", b"a")).status == 200
        statuses = slow.answer().status, large.answer().status
        assert statuses in {(503, 200), (408, 200), (408, 503)}


def test_large_requests_in_progress_are_limited(tmp_path):
    with serving(tmp_path, request_memory_bytes=4 * 2**20) as server, ExitStack() as stack:
        wires = [stack.enter_context(Wire(server.port, timeout_s=60)) for _ in range(2)]
        files = [tmp_path / "a", tmp_path / "b"]
        large = [str(file).encode() + b" " * 150_000 for file in files]
        wires[0].send(post("/hold", large[0]))
        wait_for(files[0].with_suffix(".begun").exists)
        wires[1].send(post("/hold", large[1]))
        time.sleep(0.3)
        assert not files[1].with_suffix(".begun").exists(), "each counts 1.2 MiB, and a half of 4 MiB is for them"
        for file in files:
            file.touch()
        assert [wire.answer().status for wire in wires] == [200, 200]


# Stops.


@contextmanager
def stopping(folder, **options):
    """Start a server, and yield it with a function that begins its stop."""
    with serving(folder, **options) as server:
        yield server, lambda: server.process.send_signal(signal.SIGTERM)


def test_an_idle_client_gets_an_interim_response_and_its_next_request_is_answered(tmp_path):
    with stopping(tmp_path) as (server, stop), Wire(server.port) as wire, Wire(server.port) as quiet:
        for each in (wire, quiet):
            assert asked(each, post("/cheap", b"a")).headers["connection"] == "keep-alive"
        stop()
        assert wire.socket.recv(4096) == INTERIM
        answer = asked(wire, post("/cheap", b"b"))
        assert (answer.body, answer.headers["connection"]) == (b"b", "close")
        assert quiet.socket.recv(4096) == INTERIM
        began = time.monotonic()
        assert quiet.socket.recv(4096) == b"", "a client that does not close its connection loses it"
        assert time.monotonic() - began > 1


def test_a_new_connection_has_time_for_its_first_request(tmp_path):
    with stopping(tmp_path) as (server, stop), Wire(server.port) as wire:
        wait_for(lambda: asked(wire, post("/cheap")).status == 200)
        with Wire(server.port) as fresh:
            time.sleep(0.2)
            stop()
            fresh.socket.settimeout(0.4)
            with pytest.raises(TimeoutError):
                fresh.socket.recv(1)
            fresh.socket.settimeout(60)
            assert fresh.socket.recv(4096) == INTERIM
            assert asked(fresh, post("/cheap", b"a")).body == b"a"


def test_a_client_of_http_1_0_gets_no_interim_response(tmp_path):
    with stopping(tmp_path) as (server, stop), Wire(server.port) as wire:
        asked(wire, b"POST /cheap HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\na")
        stop()
        assert wire.socket.recv(4096) == b""


def test_a_response_closes_the_connection_while_the_server_drains(tmp_path):
    with stopping(tmp_path, drain_s=300.0) as (server, stop), ExitStack() as stack:
        stack.callback(server.process.send_signal, signal.SIGQUIT)
        wires = [stack.enter_context(Wire(server.port)) for _ in range(3)]
        stop()
        wait_for(lambda: server.probe("/readyz")[0] == 503)
        for wire, body in zip(wires, (b"a", b"slow"), strict=False):
            assert asked(wire, post("/cheap", body)).headers["connection"] == "close"
        assert asked(wires[2], post("/stream", b"a\n")).headers["connection"] == "close"


@pytest.mark.parametrize("path", ["/cheap", "/hold", "/stream"])
def test_an_old_connection_closes_after_a_response(tmp_path, path):
    """Clients that keep their connections would never find a new replica."""
    file = tmp_path / "there"
    file.touch()
    body = str(file).encode() if path == "/hold" else b"x"
    with serving(tmp_path, connection_age_s=1.0) as server, Wire(server.port) as wire:
        first = asked(wire, post(path, body))
        assert first.headers["connection"] == "keep-alive"
        time.sleep(1.1)
        last = asked(wire, post(path, body))
        assert (last.status, last.headers["connection"]) == (200, "close")
        assert wire.ended()
