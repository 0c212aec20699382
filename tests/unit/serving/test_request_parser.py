"""Plain requests out of bytes, and gunicorn's parser as the judge of what they mean."""

import pytest
from gunicorn.config import Config
from gunicorn.http.errors import ParseException
from gunicorn.http.parser import RequestParser
from gunicorn.http.wsgi import create
from hypothesis import event, given, settings
from hypothesis import strategies as st

from berthmaster.serving.request_parser import PlainRequest, Stage, plain_request

PATHS = frozenset({"/mutate", "/validate"})
HEAD = (
    b"POST /mutate?timeout=10s HTTP/1.1\r\nHost: x:8443\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n"
)
CLIENT, SERVER = ("127.0.0.1", 5), ("127.0.0.1", 8443)


def head(*fields, line="POST /mutate HTTP/1.1"):
    return "\r\n".join((line, *fields, "", "")).encode()


def read(data):
    return plain_request(bytearray(data), PATHS)


def test_a_plain_request_is_taken_apart():
    fields = {"HTTP_HOST": "x:8443", "CONTENT_TYPE": "application/json", "CONTENT_LENGTH": "2"}
    assert read(HEAD + b"{}") == PlainRequest("POST", "/mutate", "timeout=10s", fields, b"{}", len(HEAD) + 2)


def test_what_follows_belongs_to_the_next_one():
    request = read(HEAD + b"{}" + HEAD)
    assert (request.body, request.size_bytes) == (b"{}", len(HEAD) + 2)


@pytest.mark.parametrize("length", [*range(0, len(HEAD) + 2, 7), len(HEAD) - 1, len(HEAD), len(HEAD) + 1])
def test_until_it_is_whole_more_has_to_come(length):
    assert read((HEAD + b"{}")[:length]) is Stage.BEGUN


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(head("Host: x", line="GET /mutate HTTP/1.1"), id="another method"),
        pytest.param(head("Host: x", line="POST /mutate HTTP/1.0"), id="an older version"),
        pytest.param(head("Host: x", line="POST /other HTTP/1.1"), id="another path"),
        pytest.param(head("Host: x", line="POST /mut%61te HTTP/1.1"), id="a path that has to be decoded"),
        pytest.param(head("Host: x", line="POST https://x/mutate HTTP/1.1"), id="an absolute path"),
        pytest.param(head("Transfer-Encoding: chunked"), id="chunks"),
        pytest.param(head("Content-Length: 5", "Transfer-Encoding: chunked"), id="chunks and a length"),
        pytest.param(head("Content-Length: 5", "Expect: 100-continue"), id="an expectation"),
        pytest.param(head("Content-Length: 5", "content-length: 5"), id="two lengths"),
        pytest.param(head("Content-Length: +5"), id="a length with a sign"),
        pytest.param(head("Content-Length: 5, 5"), id="a list of lengths"),
        pytest.param(head("Content-Length: "), id="an empty length"),
        pytest.param(head("Content-Length: 65537"), id="a large body"),
        pytest.param(head("Content-Length: 000000000005"), id="a long length"),
        pytest.param(head("Connection: close"), id="a connection that ends"),
        pytest.param(head("Connection: upgrade", "Upgrade: h2c"), id="an upgrade"),
        pytest.param(head("X-Forwarded-Proto: http"), id="what a proxy says"),
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
def test_everything_else_is_for_the_parser(data):
    assert read(data) is Stage.OTHER


def test_a_head_of_spaces_takes_no_time():
    assert read(b"POST /mutate HTTP/1.1\r\n" + b"X:" + b" " * 16_000 + b"\x00\r\n\r\n") is Stage.OTHER


def parsed(data):
    """The environment and the body by gunicorn's parser, and what it leaves; None if it refuses."""
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
def test_what_is_plain_means_the_same_to_gunicorn(line, good, bad, end, rest):
    data = (line + "\r\n" + end.join((*good, *bad)) + "\r\n\r\n").encode("latin-1") + rest
    request = read(data)
    event(type(request).__name__)
    if isinstance(request, PlainRequest):
        judged = parsed(data)
        assert judged is not None
        environ, body, left = judged
        assert (request.body, data[request.size_bytes :]) == (body, left)
        assert (request.method, request.path, request.query) == (
            environ["REQUEST_METHOD"], environ["PATH_INFO"], environ["QUERY_STRING"],
        )  # fmt: skip
        sent = {name: value for name, value in environ.items() if name.startswith(("HTTP_", "CONTENT_"))}
        assert request.fields == sent
