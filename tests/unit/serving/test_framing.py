"""When a request is complete, with gunicorn's parser as the reference: it must never need more bytes."""

import pytest
from gunicorn.config import Config
from gunicorn.http.errors import ParseException
from gunicorn.http.parser import RequestParser
from hypothesis import given, settings
from hypothesis import strategies as st

from berthmaster.serving.framing import BodyCollection, Framing

LIMIT = 1000
COLLECTION = BodyCollection(LIMIT, frozenset({"/stream"}), lambda fields: fields.get("HTTP_AUTHORIZATION") != "bad")


def head(*fields, line="POST /x HTTP/1.1"):
    return "\r\n".join((line, *fields, "", "")).encode()


def chunks(*parts, end=b"0\r\n\r\n"):
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + end


def size_when_complete(data):
    """Return how many bytes have arrived when the request is complete; None if it never is."""
    framing, arrived = Framing(COLLECTION), bytearray()
    for byte in data:
        arrived.append(byte)
        if framing.complete(arrived):
            assert Framing(COLLECTION).complete(arrived), "the result does not depend on how the bytes arrive"
            return len(arrived)
    return None


CHUNKED = "Transfer-Encoding: chunked"


@pytest.mark.parametrize(
    ("first", "rest"),
    [
        pytest.param(head("Host: x", line="GET / HTTP/1.1"), b"GET", id="a request without a body"),
        pytest.param(b"\r\n" + head("Content-Length: 2") + b"{}", b"P", id="an empty line before the request"),
        pytest.param(head("Content-Length: 5") + b"12345", b"6", id="a body with a length"),
        pytest.param(head("Content-Length: 1000") + b"x" * 1000, b"", id="a body at the limit"),
        pytest.param(head("Content-Length: 5000") + b"x" * 4096, b"x" * 904, id="the beginning of a large body"),
        pytest.param(head("Content-Length: 0"), b"P", id="a body of length 0"),
        pytest.param(head("Content-Length: x"), b"12", id="a length that is not a number"),
        pytest.param(head("Content-Length: 5000", "Expect: 100-continue"), b"x", id="a large body that waits for 100"),
        pytest.param(head("Content-Length: 5000", "Authorization: bad") + b"x" * 4096, b"x", id="no rights"),
        pytest.param(head(CHUNKED) + chunks(b"abc", b"d"), b"P", id="chunks"),
        pytest.param(head(CHUNKED) + b"1;a=b\r\nx\r\n0\r\n\r\n", b"P", id="a chunk extension"),
        pytest.param(head(CHUNKED) + chunks(b"x", end=b"0\r\nA: b\r\n\r\n"), b"P", id="trailers"),
        pytest.param(head(CHUNKED) + b"00000000000000000003\r\nabc\r\n0\r\n\r\n", b"P", id="a long chunk size"),
        pytest.param(head(CHUNKED) + b"800\r\n" + b"x" * 1001, b"x", id="chunks over the limit"),
        pytest.param(head(CHUNKED) + b"5z\r\n", b"x", id="a malformed chunk size"),
        pytest.param(head(CHUNKED, "Content-Length: 5"), b"12345", id="a length and chunks"),
        pytest.param(head(CHUNKED, line="POST /x HTTP/1.0"), b"5", id="chunks in HTTP/1.0"),
        pytest.param(head("Content-Length: 5", line="POST /stream HTTP/1.1"), b"12345", id="a stream"),
        pytest.param(b"POST /x HTTP/1.1\n", b"Host: x\n\n", id="a line without a carriage return"),
        pytest.param(b"POST /" + b"x" * 4091, b"x" * 99, id="a request line that is too long"),
    ],
)
def test_a_request_is_complete_as_soon_as_the_parser_can_decide(first, rest):
    assert size_when_complete(first + rest) == len(first)


@pytest.mark.parametrize(
    ("line", "streamed"), [("GET /events", True), ("GET /events?a=1", True), ("GET /", False), ("POST /events", False)]
)
def test_a_get_request_with_a_lasting_answer_gets_a_thread_of_streams(line, streamed):
    framing = Framing(BodyCollection(100, events={"/events"}))
    assert framing.complete(bytearray(f"{line} HTTP/1.1\r\n\r\n".encode()))
    assert framing.streamed == streamed


@pytest.mark.parametrize(
    ("fields", "path", "streamed", "refused", "expects"),
    [
        pytest.param(("Content-Length: 5", "Expect: 100-Continue"), "/x", False, False, True, id="an expectation"),
        pytest.param((CHUNKED, "Expect: 100-continue"), "/x", False, False, True, id="an expectation with chunks"),
        pytest.param(("Expect: 100-continue",), "/x", False, False, False, id="an expectation without a body"),
        pytest.param(("Content-Length: 5000", "Expect: 100-continue"), "/x", False, True, False, id="too large"),
        pytest.param(("Content-Length: 5", "Expect: 100-continue"), "/stream?a=b", True, False, False, id="a stream"),
        pytest.param(("Transfer-Encoding: gzip, chunked",), "/x", True, False, False, id="another coding"),
    ],
)
def test_a_head_says_how_the_body_arrives(fields, path, streamed, refused, expects):
    framing = Framing(COLLECTION)
    framing.complete(bytearray(head(*fields, line=f"POST {path} HTTP/1.1")))
    assert (framing.streamed, framing.refused, framing.expects) == (streamed, refused, expects)


def test_each_byte_of_a_long_head_is_searched_a_constant_number_of_times():
    class Counted(bytearray):
        searched = 0

        def find(self, what, start=0, end=None):
            type(self).searched += (len(self) if end is None else min(end, len(self))) - start
            return super().find(what, start, len(self) if end is None else end)

        def count(self, what, start=0):
            type(self).searched += len(self) - start
            return super().count(what, start)

    framing, arrived = Framing(COLLECTION), Counted(b"POST /x HTTP/1.1\r\n")
    for number in range(3000):
        arrived.extend(b"X-%04d: y\r\n" % number)
        assert not framing.complete(arrived)
    assert Counted.searched < 10 * len(arrived)


class NoMoreBytes(Exception):  # noqa: N818 - the end of the bytes that have arrived
    pass


def left_by_gunicorn(data):
    """Read a request with gunicorn's parser. Return the bytes after it, or None if it refuses the request."""

    def pieces():
        yield data
        raise NoMoreBytes

    parser = RequestParser(Config(), pieces(), ("x", 1))
    try:
        next(parser).body.read(LIMIT + 1)
    except (ParseException, StopIteration):
        return None
    return parser.unreader.buf.getvalue()


LINES = st.sampled_from(["POST /x HTTP/1.1", "GET /x HTTP/1.1", "POST /x HTTP/1.0", "X", "POST /x\n HTTP/1.1"])
FIELDS = st.lists(
    st.sampled_from([
        "Host: x", "Content-Length: 3", "Content-Length: +3", "Content-Length: \xb2", "content-length:3 ", CHUNKED,
        "Transfer-Encoding: Chunked", "Transfer-Encoding: identity", "Expect: 100-continue", "A\n: b", " folded",
        "Connection: close",
    ]),
    max_size=3,
)  # fmt: skip
BODIES = st.lists(
    st.sampled_from([b"3\r\n", b"abc", b"\r\n", b"0\r\n", b"0;x\r\n", b"A: b\r\n", b"\n", b"z", b"ffffffffff\r\n"]),
    max_size=6,
).map(b"".join)


@settings(max_examples=400)
@given(st.sampled_from([b"", b"\r\n"]), LINES, FIELDS, BODIES)
def test_gunicorn_reads_a_complete_request_without_waiting(before, line, fields, body):
    data = before + "\r\n".join((line, *fields, "", "")).encode("latin-1") + body
    size = size_when_complete(data)
    framing = Framing(COLLECTION)
    if size is None or (framing.complete(bytearray(data[:size])) and (framing.streamed or framing.refused)):
        return
    left_by_gunicorn(data[:size])  # raises NoMoreBytes if it needs more
