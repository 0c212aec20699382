"""Behaviour that all protocols of the extender share, over TCP. A new protocol adds an entry to ``SAMPLES``."""

import time
from collections.abc import Callable
from typing import NamedTuple

import msgspec
from servers import Answer, Wire, request
from tables import cases
from waiting import LIMIT_S

from extender.protocols.native import examples


class Sample(NamedTuple):
    """A request of a protocol, and a check for its refusals."""

    path: str
    body: dict[str, object]
    refused: Callable[[Answer, int], bool]


def is_problem(answer: Answer, status: int) -> bool:
    """Return whether an answer is a problem document (RFC 9457) with the request id."""
    problem = msgspec.json.decode(answer.body)
    return (
        answer.status == problem["status"] == status
        and answer.headers["content-type"] == "application/problem+json"
        and problem["requestId"] == answer.headers["x-request-id"]
        and bool(problem["detail"])
    )


def passes_in_doubt(answer: Answer, _status: int) -> bool:
    """Return whether KubeAdmiral's filter selected the cluster: it rejects no cluster because of an invalid request."""
    return answer.status == 200 and msgspec.json.decode(answer.body) == {"selected": True, "error": ""}


_UNIT = {"apiVersion": "apps/v1", "kind": "Deployment", "resource": "deployments", "name": "web"}
SAMPLES = {
    "native": Sample("/v1/schedule", {"binding": examples.BINDING}, is_problem),
    "kubeadmiral": Sample(
        "/kubeadmiral/v1alpha1/filter",
        {
            "schedulingUnit": {**_UNIT, "schedulingMode": "Duplicate", "currentClusters": [], "resourceRequest": {}},
            "cluster": {"metadata": {"name": "member1"}, "spec": {}, "status": {"resources": {}}},
        },
        passes_in_doubt,
    ),
    "kube-scheduler": Sample(
        "/kube-scheduler/filter",
        {"Pod": {"metadata": {"name": "web-1", "namespace": "shop"}}, "Nodes": None, "NodeNames": ["node-1"]},
        is_problem,
    ),
}
pytestmark = cases("sample", SAMPLES)


def good(sample: Sample, **headers: str) -> bytes:
    return request("POST", sample.path, msgspec.json.encode(sample.body), **headers)


def chunked_head(sample: Sample) -> bytes:
    return request("POST", sample.path, Transfer_Encoding="chunked")


def test_a_good_request_is_answered_with_json(server, sample):
    with Wire(server.port) as wire:
        wire.send(good(sample))
        answer = wire.answer()
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert isinstance(msgspec.json.decode(answer.body), dict)


@cases(
    ("given", "kept"),
    {
        "a safe id is kept": ("req-1.a:b/c+d=", True),
        "a long id is replaced": ("x" * 129, False),
        "an id with spaces is replaced": ("two words", False),
        "an id with markup is replaced": ('"><script>', False),
    },
)
def test_safe_request_ids_are_returned(server, sample, given, kept):
    with Wire(server.port) as wire:
        wire.send(good(sample, X_Request_Id=given))
        request_id = wire.answer().headers["x-request-id"]
    assert request_id
    assert (request_id == given) == kept


@cases(
    "body",
    {
        "an empty body": b"",
        "a body that is not JSON": b"nonsense",
        "a truncated document": b'{"binding"',
        "another type": b"[]",
        "null": b"null",
        "invalid UTF-8": b"\xff\xfe",
        "deep nesting": b"[" * 60_000,
    },
)
def test_a_malformed_body_is_refused_and_the_connection_stays_open(server, sample, body):
    with Wire(server.port) as wire:
        wire.send(request("POST", sample.path, body))
        assert sample.refused(wire.answer(), 400)
        wire.send(good(sample))
        assert wire.answer().status == 200


def test_another_method_is_not_allowed(server, sample):
    with Wire(server.port) as wire:
        wire.send(request("GET", sample.path))
        answer = wire.answer()
    assert is_problem(answer, 405)
    assert answer.headers["allow"] == "POST"


def test_similar_paths_are_unknown(server, sample):
    for path in (f"{sample.path}/", f"{sample.path}x", sample.path.upper()):
        with Wire(server.port) as wire:
            wire.send(request("POST", path, b"{}"))
            assert is_problem(wire.answer(), 404), path


def test_a_declared_length_over_the_limit_is_refused_unread(hasty, sample):
    with Wire(hasty.port) as wire:
        wire.send(request("POST", sample.path, Content_Length=str(2**40)))
        answer = wire.answer()
        assert sample.refused(answer, 413)
        assert answer.headers["connection"] == "close"
        assert wire.ended()


def test_a_chunked_body_over_the_limit_is_refused(server, sample):
    with Wire(server.port) as wire:
        wire.send(chunked_head(sample) + b"20000\r\n" + b" " * 0x20000 + b"\r\n0\r\n\r\n")
        assert sample.refused(wire.answer(), 413)


def test_a_malformed_chunked_body_is_refused(server, sample):
    with Wire(server.port) as wire:
        wire.send(chunked_head(sample) + b"zz\r\n{}\r\n0\r\n\r\n")
        assert sample.refused(wire.answer(), 400)
        assert wire.ended()


def test_an_incomplete_body_is_refused_at_the_deadline(hasty, sample):
    whole = good(sample)
    with Wire(hasty.port) as wire:
        start = time.monotonic()
        wire.send(whole[:-10])
        assert sample.refused(wire.answer(), 408)
        assert 0.5 < time.monotonic() - start < LIMIT_S
        assert wire.ended()
