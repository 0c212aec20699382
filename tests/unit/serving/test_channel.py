"""A client's socket with deadlines and an output buffer."""

import socket
import threading
import time

import pytest
from waiting import wait_for

from berthmaster.serving.channel import Channel, TooSlowError

LIMIT_S = 0.3
MUCH = b"x" * 2**24  # more than a socket buffer holds


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    theirs.settimeout(5)
    with ours, theirs:
        yield Channel(ours, LIMIT_S), theirs


def received(client, length):
    data = b""
    while len(data) < length:
        data += client.recv(2**20)
    return data


def test_arrived_bytes_are_taken_without_waiting(pair):
    channel, client = pair
    assert channel.take() is None
    client.sendall(b"a")
    assert (channel.take(), channel.ended) == (b"a", False)
    client.close()
    assert (channel.take(), channel.ended) == (b"", True)
    assert channel.recv(1) == b"", "the end is final"


def test_an_answer_is_sent_as_a_whole(pair):
    channel, client = pair
    channel.sendall(b"head ")
    channel.sendall(b"body")
    client.settimeout(0)
    with pytest.raises(BlockingIOError):
        client.recv(1)
    assert channel.flush()
    assert client.recv(100) == b"head body"


def test_bytes_that_a_client_does_not_read_stay_in_the_buffer(pair):
    channel, client = pair
    channel.sendall(MUCH)
    assert not channel.flush()
    reader = threading.Thread(target=received, args=(client, len(MUCH)))
    reader.start()
    wait_for(channel.flush)
    reader.join(30)
    assert not reader.is_alive()


@pytest.mark.parametrize(
    "what",
    [
        pytest.param(lambda channel: channel.recv(1), id="a client that sends nothing"),
        pytest.param(lambda channel: channel.send(MUCH), id="a client that reads nothing"),
    ],
)
def test_a_client_is_waited_for_until_its_deadline(pair, what):
    begun = time.monotonic()
    with pytest.raises(TooSlowError), pair[0].waited_for():
        what(pair[0])
    assert LIMIT_S <= time.monotonic() - begun < 30
    assert pair[0].take() is None, "the polling thread does not wait"


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
def test_a_late_answer_reaches_a_client_that_reads_it_at_once(pair, streams):
    channel, client = pair
    with channel.waited_for():
        if streams:
            channel.stream(0)
        time.sleep(LIMIT_S + 0.1)
        channel.sendall(b"too late, because")
    assert client.recv(100) == b"too late, because"


def test_a_client_that_does_not_read_a_late_answer_at_once_is_not_waited_for():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel = Channel(ours, 20)

        def answer_late():
            channel._deadline = time.monotonic()
            channel.sendall(MUCH)

        begun = time.monotonic()
        with pytest.raises(TooSlowError), channel.waited_for():
            answer_late()
        assert time.monotonic() - begun < 20


def test_a_collected_request_is_read_without_waiting_for_its_client(pair):
    channel, client = pair
    client.sendall(b"not read")
    channel.feed(b"x" * 40_000)
    assert [len(channel.recv(1)), len(channel.recv(1))] == [16_384, 16_384]
    assert len(channel.recv(8192)) == 40_000 - 2 * 16_384
    with pytest.raises(TooSlowError):
        channel.recv(1)
    channel.feed(b"abc")
    assert (channel.leftover(), channel.leftover()) == (b"abc", b"")


def test_100_continue_is_not_sent_twice(pair):
    channel, client = pair
    channel.continued = True
    assert channel.send(b"HTTP/1.1 100 Continue\r\n\r\n") == 25
    assert channel.unsent_bytes == 0
    client.close()


def test_a_large_answer_is_sent_in_several_turns(pair):
    channel, client = pair
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**24)
    channel.sendall(MUCH)
    assert not channel.flush()
    assert len(MUCH) - 2**20 <= channel.unsent_bytes < len(MUCH)


def test_a_stream_buffers_what_its_client_does_not_read_yet(pair):
    channel, client = pair
    with channel.waited_for():
        channel.stream(len(MUCH))
        channel.sendall(b"a")
        assert client.recv(1) == b"a"
        begun = time.monotonic()
        channel.sendall(MUCH)  # a wait for the client would fail after LIMIT_S; a busy machine may take longer
        assert time.monotonic() - begun < 30
        reader = threading.Thread(target=received, args=(client, len(MUCH)))
        reader.start()
    reader.join(30)
    assert not reader.is_alive(), "at the end everything is sent"


def test_another_thread_can_end_the_wait(pair):
    channel, _ = pair
    timer = threading.Timer(0.05, channel.interrupt)
    timer.start()
    with channel.waited_for():
        assert channel.recv(1) == b""
    timer.join()
