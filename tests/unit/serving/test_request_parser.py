"""Plain requests, with gunicorn's parser as the reference, and bodies within limits."""

import io

import pytest
from gunicorn.config import Config
from gunicorn.http.body import Body, ChunkedReader, LengthReader
from gunicorn.http.errors import ParseException
from gunicorn.http.parser import RequestParser
from gunicorn.http.unreader import IterUnreader
from gunicorn.http.wsgi import create
from hypothesis import event, given, settings
from hypothesis import strategies as st

from berthmaster.serving.request_parser import (
    BodyError,
    PlainRequest,
    Stage,
    plain_request,
    read_body,
    read_lines,
)

PATHS = frozenset({"/mutate", "/validate"})
HEAD = (
    b"POST /mutate?timeout=10s HTTP/1.1\r\nHost: x:8443\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n"
)
CLIENT, SERVER = ("127.0.0.1", 5), ("127.0.0.1", 8443)


def head(*fields, line="POST /mutate HTTP/1.1"):
    return "\r\n".join((line, *fields, "", "")).encode()


def parsed_here(data):
    return plain_request(bytearray(data), PATHS)


def test_a_plain_request_is_parsed():
    fields = {"HTTP_HOST": "x:8443", "CONTENT_TYPE": "application/json", "CONTENT_LENGTH": "2"}
    assert parsed_here(HEAD + b"{}") == PlainRequest("POST", "/mutate", "timeout=10s", fields, b"{}", len(HEAD) + 2)


def test_bytes_after_a_request_belong_to_the_next_one():
    request = parsed_here(HEAD + b"{}" + HEAD)
    assert (request.body, request.size_bytes) == (b"{}", len(HEAD) + 2)


@pytest.mark.parametrize("length", [*range(0, len(HEAD) + 2, 7), len(HEAD) - 1, len(HEAD), len(HEAD) + 1])
def test_a_prefix_of_a_request_is_incomplete(length):
    assert parsed_here((HEAD + b"{}")[:length]) is Stage.INCOMPLETE


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(head("Host: x", line="GET /mutate HTTP/1.1"), id="another method"),
        pytest.param(head("Host: x", line="POST /mutate HTTP/1.0"), id="an older version"),
        pytest.param(head("Host: x", line="POST /other HTTP/1.1"), id="another path"),
        pytest.param(head("Host: x", line="POST /mut%61te HTTP/1.1"), id="an encoded path"),
        pytest.param(head("Host: x", line="POST https://x/mutate HTTP/1.1"), id="an absolute URL"),
        pytest.param(head("Transfer-Encoding: chunked"), id="chunks"),
        pytest.param(head("Content-Length: 5", "Transfer-Encoding: chunked"), id="chunks and a length"),
        pytest.param(head("Content-Length: 5", "Expect: 100-continue"), id="an expectation"),
        pytest.param(head("Content-Length: 5", "content-length: 5"), id="two lengths"),
        pytest.param(head("Content-Length: +5"), id="a length with a sign"),
        pytest.param(head("Content-Length: 5, 5"), id="a list of lengths"),
        pytest.param(head("Content-Length: "), id="an empty length"),
        pytest.param(head("Content-Length: 65537"), id="a large body"),
        pytest.param(head("Content-Length: 000000000005"), id="a long length"),
        pytest.param(head("Connection: close"), id="Connection: close"),
        pytest.param(head("Connection: upgrade", "Upgrade: h2c"), id="an upgrade"),
        pytest.param(head("X-Forwarded-Proto: http"), id="a proxy header"),
        pytest.param(head("Content_Length: 5"), id="an underscore"),
        pytest.param(head("Host : x"), id="a space before the colon"),
        pytest.param(head("Host: x", " y"), id="a folded line"),
        pytest.param(head("Host: \x7f"), id="a control character"),
        pytest.param(head("Host: \xe9"), id="a character beyond ASCII"),
        pytest.param(head("nonsense"), id="a field without a colon"),
        pytest.param(head(), id="no field"),
        pytest.param(b"POST /mutate HTTP/1.1\nHost: x\n\n", id="lines without a carriage return"),
        pytest.param(b"\r\n\r\n", id="an empty head"),
        pytest.param(head(*(f"X-{number}: y" for number in range(65))), id="too many fields"),
        pytest.param(b"POST /mutate HTTP/1.1\r\nX: " + b"y" * 16_384, id="a head that is too long"),
    ],
)
def test_every_other_request_is_for_gunicorns_parser(data):
    assert parsed_here(data) is Stage.NOT_PLAIN


def test_a_head_of_spaces_is_parsed_in_linear_time():
    assert parsed_here(b"POST /mutate HTTP/1.1\r\n" + b"X:" + b" " * 16_000 + b"\x00\r\n\r\n") is Stage.NOT_PLAIN


def parsed_by_gunicorn(data):
    """Return the environment, the body and the remaining bytes by gunicorn's parser, or None if it refuses."""
    config = Config()
    parser = RequestParser(config, iter([data]), CLIENT)
    try:
        request = next(parser)
    except (ParseException, StopIteration):
        return None
    environ = create(request, None, CLIENT, SERVER, config)[1]
    return environ, request.body.read(), parser.unreader.read()


GOOD_FIELDS = st.lists(
    st.sampled_from([
        "Host: x", "Content-Type: a/b", "Content-Length: 2", "content-LENGTH:\t02 ", "Accept: */*, a;q=0.1",
        "X-Request-Id:", "Connection: Keep-Alive", "Authorization:  Bearer a b",
    ]),
    min_size=1, max_size=4, unique_by=lambda field: field.partition(":")[0].lower(),
)  # fmt: skip
BAD_FIELDS = st.lists(
    st.sampled_from([
        "Content-Length: 1", "Content-Length: +1", "Content-Length: 2,2", "Transfer-Encoding: chunked", "A: \xe9",
        "Connection: close", "Expect: 100-continue", "Content_Length: 1", "X-Forwarded-Proto: https", "Host : x",
        ": x", "A b: c", " x",
    ]),
    max_size=1,
)  # fmt: skip
PLAIN_LINES = ["POST /mutate HTTP/1.1", "POST /mutate?a=%20 HTTP/1.1", "POST /validate? HTTP/1.1"]
LINES = st.sampled_from([*PLAIN_LINES, "POST /mutate HTTP/1.0", "GET /mutate HTTP/1.1"])
ENDS = st.sampled_from(["\r\n"] * 20 + ["\n", "\r", "\r\n\r\n"])


@settings(max_examples=400)
@given(LINES, GOOD_FIELDS, BAD_FIELDS, ENDS, st.binary(max_size=6))
def test_gunicorn_understands_plain_requests_in_the_same_way(line, good, bad, end, rest):
    data = (line + "\r\n" + end.join((*good, *bad)) + "\r\n\r\n").encode("latin-1") + rest
    request = parsed_here(data)
    event(type(request).__name__)
    if isinstance(request, PlainRequest):
        reference = parsed_by_gunicorn(data)
        assert reference is not None
        environ, body, left = reference
        assert (request.body, data[request.size_bytes :]) == (body, left)
        assert (request.method, request.path, request.query) == (
            environ["REQUEST_METHOD"], environ["PATH_INFO"], environ["QUERY_STRING"],
        )  # fmt: skip
        sent = {name: value for name, value in environ.items() if name.startswith(("HTTP_", "CONTENT_"))}
        assert request.fields == sent


def sized(parts, length=None):
    # An empty piece would mean the end of the connection.
    unreader, whole = IterUnreader(filter(None, parts)), sum(map(len, parts))
    return {"wsgi.input": Body(LengthReader(unreader, whole if length is None else length))}


def chunked(parts):
    data = [b"%x\r\n%b\r\n" % (len(part), part) for part in parts if part] + [b"0\r\n\r\n"]
    return {"wsgi.input": Body(ChunkedReader(None, IterUnreader(data)))}


@given(st.lists(st.binary(max_size=20).map(lambda part: part.replace(b"\0", b"\n"))), st.sampled_from([sized, chunked]))
def test_the_lines_of_a_body_do_not_depend_on_how_it_arrives(parts, framed):
    found = [line for burst in read_lines(framed(parts), 10_000) for line in burst]
    wanted = b"".join(parts).split(b"\n")
    assert found == (wanted if wanted[-1] else wanted[:-1])


def test_complete_lines_are_returned_at_once():
    bursts = read_lines(sized([b"a\nb", b"b\nc\n", b"d"]), 100)
    assert [list(burst) for burst in bursts] == [[b"a"], [b"bb", b"c"], [b"d"]]


def test_bytes_after_the_body_stay_for_the_next_request():
    environ = sized([b"a\nGET / HTTP/1.1"], length=2)
    assert [list(burst) for burst in read_lines(environ, 100)] == [[b"a"]]
    assert environ["wsgi.input"].reader.unreader.read() == b"GET / HTTP/1.1"


@pytest.mark.parametrize(
    ("parts", "length", "status"),
    [
        pytest.param([b"x" * 11], None, 413, id="a line that is too long"),
        pytest.param([b"x" * 6, b"x" * 6], None, 413, id="a line that becomes too long"),
        pytest.param([b"a\n", b"x" * 11 + b"\n"], None, 413, id="a long line after others"),
        pytest.param([b"a\n" + b"x" * 11 + b"\nb"], None, 413, id="a long line between others"),
        pytest.param([b"a\n"], 5, 400, id="an incomplete body"),
    ],
)
def test_lines_and_bodies_beyond_their_limits_are_refused(parts, length, status):
    with pytest.raises(BodyError) as refused:
        list(read_lines(sized(parts, length), 10))
    assert refused.value.status == status


@pytest.mark.parametrize(
    ("body", "declared", "status"),
    [
        pytest.param(b"x" * 10, "10", None, id="a body at the limit"),
        pytest.param(b"x" * 11, "11", 413, id="a declared length over the limit"),
        pytest.param(b"x" * 11, "", 413, id="a body over the limit without a length"),
        pytest.param(b"x" * 5, "10", 400, id="a body shorter than declared"),
        pytest.param(b"", "ten", 400, id="a length that is not a number"),
        pytest.param(b"", "9" * 30, 400, id="a length that is too large for any body"),
    ],
)
def test_a_whole_body_is_read_within_its_limit(body, declared, status):
    environ = {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": declared}
    if status is None:
        assert read_body(environ, 10) == body
        return
    with pytest.raises(BodyError) as refused:
        read_body(environ, 10)
    assert refused.value.status == status
