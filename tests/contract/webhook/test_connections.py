"""Connections over TLS to a running webhook: no client slows down another one."""

import json
import socket
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from reviews import POLICY, admission_review
from servers import request
from waiting import LIMIT_S, wait_for
from webhook_process import running

REVIEW = json.dumps(admission_review(POLICY)).encode()
CHUNKED = b"%x\r\n%b\r\n0\r\n\r\n" % (len(REVIEW), REVIEW)
SOON_S = 30  # far above all deadlines of the server, so that a busy machine fails no test


def review(body=REVIEW, **fields):
    return request("POST", "/mutate-propagationpolicy?timeout=10s", body, **fields)


def chunked(body):
    return review(body, Transfer_Encoding="chunked")


def is_allowed(wire):
    answer = wire.answer()
    return answer.status == 200 and json.loads(answer.body)["response"]["allowed"]


def test_chunked_bodies_that_never_end_do_not_delay_others(server):
    with ExitStack() as stack:
        for _ in range(12):  # of 8 threads
            stack.enter_context(server.wire()).send(chunked(b"ff\r\nx"))
        started = time.monotonic()
        client = stack.enter_context(server.wire())
        client.send(chunked(CHUNKED))
        assert is_allowed(client)
        assert time.monotonic() - started < SOON_S


def test_an_incomplete_handshake_ends_at_the_deadline(server, connection):
    with ExitStack() as stack:
        address = ("127.0.0.1", server.port)
        halves = [stack.enter_context(socket.create_connection(address, timeout=LIMIT_S)) for _ in range(20)]
        for half in halves:
            half.sendall(b"\x16\x03\x01\x02\x00\x01")  # the beginning of a ClientHello
        started = time.monotonic()
        connection.request("POST", "/mutate-propagationpolicy", REVIEW, {"Content-Type": "application/json"})
        assert connection.getresponse().status == 200
        for half in halves:
            assert half.recv(1) == b""
        assert time.monotonic() - started < SOON_S


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc to count the sockets of a process")
def test_connections_are_shared_among_the_workers(tmp_path):
    with running(tmp_path, "--workers=3", "--drain-s=0") as server:
        workers = server.workers()
        wait_for(lambda: min(shares(server, workers, 12)) >= 3)  # the last worker may not be ready yet


def test_at_the_limit_idle_connections_are_closed_and_handshakes_are_not(tmp_path):
    options = ("--workers=1", "--max-connections=16", "--request-timeout-s=30", "--drain-s=0")
    with running(tmp_path, *options) as server, ExitStack() as stack:
        address = ("127.0.0.1", server.port)
        halves = [stack.enter_context(socket.create_connection(address, timeout=30)) for _ in range(4)]
        for number in range(40):
            client = stack.enter_context(server.wire())
            client.send(review())
            assert is_allowed(client), f"connection {number} is served"
        client.send(chunked(CHUNKED) * 2)
        assert is_allowed(client), "connections stay open, with fewer connections than threads"
        assert is_allowed(client)
        for half in halves:
            half.sendall(b"not a handshake\r\n")
        refused = "berthmaster_webhook_tls_handshake_failures_total"
        wait_for(lambda: server.metric(refused, reason="refused") >= len(halves))


def shares(server, workers, connections):
    before = [sockets(worker) for worker in workers]
    with ExitStack() as stack:
        for _ in range(connections):
            client = stack.enter_context(server.wire())
            client.send(review())
            assert is_allowed(client)
        return [sockets(worker) - count for worker, count in zip(workers, before, strict=True)]


def sockets(process):
    found = 0
    for each in Path(f"/proc/{process}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed after the folder was listed
            found += "socket:" in str(each.readlink())
    return found
