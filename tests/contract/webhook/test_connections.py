"""Connections over TLS to a running webhook: no client slows down another one."""

import json
import socket
import ssl
import time
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest
from reviews import admission_review
from servers import FAST_ONLY
from waiting import LIMIT_S, wait_for
from webhook_process import running

POLICY = {"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": {}, "spec": {}}
REVIEW = json.dumps(admission_review(POLICY)).encode()
CHUNKED = b"%x\r\n%b\r\n0\r\n\r\n" % (len(REVIEW), REVIEW)
SOON_S = 30  # far above all deadlines of the server, so that a busy machine fails no test


def opened(server):
    context = ssl.create_default_context(cafile=server.folder / "tls.crt")
    return context.wrap_socket(
        socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT_S), server_hostname="localhost"
    )


def request(*fields, body=REVIEW):
    fields = fields or (f"Content-Length: {len(REVIEW)}",)
    head = ("POST /mutate-propagationpolicy?timeout=10s HTTP/1.1", "Host: x", "Content-Type: application/json", *fields)
    return "\r\n".join((*head, "", "")).encode() + body


def answers(client, count):
    """Read ``count`` answers. Return for each whether it is an allowed review."""
    data, found = b"", []
    while len(found) < count:
        head, end, rest = data.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0) if end else 0
        if end and len(rest) >= length:
            found.append(head.startswith(b"HTTP/1.1 200 ") and json.loads(rest[:length])["response"]["allowed"])
            data = rest[length:]
        else:
            data += client.recv(65536) or pytest.fail(f"the connection ended after {found}")
    return found


@FAST_ONLY
def test_chunked_bodies_that_never_end_do_not_delay_others(server):
    with ExitStack() as stack:
        for _ in range(12):  # of 8 threads
            client = stack.enter_context(closing(opened(server)))
            client.sendall(request("Transfer-Encoding: chunked", body=b"ff\r\nx"))
        started = time.monotonic()
        client = stack.enter_context(closing(opened(server)))
        client.sendall(request("Transfer-Encoding: chunked", body=CHUNKED))
        assert answers(client, 1) == [True]
        assert time.monotonic() - started < SOON_S


@FAST_ONLY
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
        booted = [json.loads(line)["message"] for line in server.log.read_text().splitlines() if "Booting" in line]
        workers = [int(message.rsplit(" ", 1)[1]) for message in booted]
        wait_for(lambda: min(shares(server, workers, 12)) >= 3)  # the last worker may not be ready yet


def test_at_the_limit_idle_connections_are_closed_and_handshakes_are_not(tmp_path):
    options = ("--workers=1", "--max-connections=16", "--request-timeout-s=30", "--drain-s=0")
    with running(tmp_path, *options) as server, ExitStack() as stack:
        address = ("127.0.0.1", server.port)
        halves = [stack.enter_context(socket.create_connection(address, timeout=30)) for _ in range(4)]
        for number in range(40):
            client = stack.enter_context(closing(opened(server)))
            client.settimeout(30)
            client.sendall(request())
            assert answers(client, 1) == [True], f"connection {number} is served"
        client.sendall(request("Transfer-Encoding: chunked", body=CHUNKED) * 2)
        assert answers(client, 2) == [True, True], "connections stay open, with fewer connections than threads"
        for half in halves:
            half.sendall(b"not a handshake\r\n")
        refused = "berthmaster_webhook_tls_handshake_failures_total"
        wait_for(lambda: server.metric(refused, reason="refused") >= len(halves))


def shares(server, workers, connections):
    before = [sockets(worker) for worker in workers]
    with ExitStack() as stack:
        for _ in range(connections):
            client = stack.enter_context(closing(opened(server)))
            client.sendall(request())
            assert answers(client, 1) == [True]
        return [sockets(worker) - count for worker, count in zip(workers, before, strict=True)]


def sockets(process):
    found = 0
    for each in Path(f"/proc/{process}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed after the folder was listed
            found += "socket:" in str(each.readlink())
    return found
