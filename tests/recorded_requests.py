"""Requests of ``tests/golden/requests`` and a way to send one to a WSGI application as the worker does.

Each line of a file is one request: ``name``, expected ``status``, ``method``, ``path``, ``headers`` and ``body``.
``padding`` appends so many spaces to the body, ``chunked`` sends it in chunks, and ``close`` ends the connection after
it.
"""

import io
import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from berthmaster.serving.request_parser import BodyCollection, RequestParser
from berthmaster.serving.responses import WSGICaller

FOLDER: Final = Path(__file__).parent / "golden" / "requests"
CLIENT: Final = ("192.0.2.1", 5)
SERVER: Final = ("192.0.2.2", 8443)
_CHUNK_BYTES: Final = 5000
_VARIABLE: Final = re.compile(rb"(?m)^Date: .*$|[0-9a-f]{32}|\d{4}-\d\d-\d\dT[\d:.]+Z")


def recorded(service: str) -> list[Any]:
    lines = (FOLDER / f"{service}.jsonl").read_text().splitlines()
    return [pytest.param(case, id=case["name"]) for case in map(json.loads, lines)]


def encoded(case: dict[str, Any]) -> bytes:
    """Return a request as the bytes that a client sends."""
    body = case.get("body", "").encode() + b" " * case.get("padding", 0)
    headers = {"Host": "localhost", **case["headers"]}
    if case.get("chunked"):
        headers["Transfer-Encoding"] = "chunked"
        pieces = [body[at : at + _CHUNK_BYTES] for at in range(0, len(body), _CHUNK_BYTES)]
        body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    elif "body" in case:
        headers.setdefault("Content-Length", str(len(body)))
    lines = [f"{case['method']} {case['path']} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join((*lines, "", "")).encode() + body


def exchange(wsgi: Any, case: dict[str, Any]) -> bytes:
    """Send a request to an application and return the bytes of the response."""
    parser, caller = RequestParser(BodyCollection(2**30)), WSGICaller(wsgi, tls=False, processes=1)
    rest = parser.feed(encoded(case))
    assert (rest, parser.problem) == (b"", None)
    request = parser.requests[0]
    request.began_at = float("inf")  # no deadline: applications of these tests have a clock that stands still
    environ = caller.connection_environ(CLIENT, SERVER)
    body = io.BytesIO(request.body)
    return b"".join(caller.answer(request, environ, body, keep=request.keep and request.complete))


def masked(response: bytes) -> bytes:
    """Return a response without the parts that differ between two equal requests: dates and request ids."""
    return _VARIABLE.sub(b"<variable>", response)
