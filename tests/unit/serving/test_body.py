"""Bodies line by line."""

import io

import pytest
from gunicorn.http.body import Body, ChunkedReader, LengthReader
from gunicorn.http.unreader import IterUnreader
from hypothesis import given
from hypothesis import strategies as st

from berthmaster.serving.body import BodyError, lines, read_body


def sized(parts, length=None):
    # An empty piece would be the end of the connection.
    unreader, whole = IterUnreader(filter(None, parts)), sum(map(len, parts))
    return {"wsgi.input": Body(LengthReader(unreader, whole if length is None else length))}


def chunked(parts):
    data = [b"%x\r\n%b\r\n" % (len(part), part) for part in parts if part] + [b"0\r\n\r\n"]
    return {"wsgi.input": Body(ChunkedReader(None, IterUnreader(data)))}


@given(st.lists(st.binary(max_size=20).map(lambda part: part.replace(b"\0", b"\n"))), st.sampled_from([sized, chunked]))
def test_however_a_body_arrives_its_lines_are_the_same(parts, framed):
    found = [line for burst in lines(framed(parts), 10_000) for line in burst]
    wanted = b"".join(parts).split(b"\n")
    assert found == (wanted if wanted[-1] else wanted[:-1])


def test_lines_come_as_soon_as_they_are_whole():
    bursts = lines(sized([b"a\nb", b"b\nc\n", b"d"]), 100)
    assert [list(burst) for burst in bursts] == [[b"a"], [b"bb", b"c"], [b"d"]]


def test_what_follows_the_body_stays_for_the_next_request():
    environ = sized([b"a\nGET / HTTP/1.1"], length=2)
    assert [list(burst) for burst in lines(environ, 100)] == [[b"a"]]
    assert environ["wsgi.input"].reader.unreader.read() == b"GET / HTTP/1.1"


@pytest.mark.parametrize(
    ("parts", "length", "status"),
    [
        pytest.param([b"x" * 11], None, 413, id="a line that is too long"),
        pytest.param([b"x" * 6, b"x" * 6], None, 413, id="one that becomes so"),
        pytest.param([b"a\n", b"x" * 11 + b"\n"], None, 413, id="one after others"),
        pytest.param([b"a\n" + b"x" * 11 + b"\nb"], None, 413, id="one among others"),
        pytest.param([b"a\n"], 5, 400, id="a body that ends before its end"),
    ],
)
def test_bodies_beyond_their_bounds_are_refused(parts, length, status):
    with pytest.raises(BodyError) as refused:
        list(lines(sized(parts, length), 10))
    assert refused.value.status == status


@pytest.mark.parametrize(
    ("body", "declared", "status"),
    [
        pytest.param(b"x" * 10, "10", None, id="as large as may be"),
        pytest.param(b"x" * 11, "11", 413, id="declared too large"),
        pytest.param(b"x" * 11, "", 413, id="too large without a word"),
        pytest.param(b"x" * 5, "10", 400, id="less than was declared"),
        pytest.param(b"", "ten", 400, id="no number"),
        pytest.param(b"", "9" * 30, 400, id="no number that anything has"),
    ],
)
def test_a_whole_body_is_read_within_bounds(body, declared, status):
    environ = {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": declared}
    if status is None:
        assert read_body(environ, 10) == body
        return
    with pytest.raises(BodyError) as refused:
        read_body(environ, 10)
    assert refused.value.status == status
