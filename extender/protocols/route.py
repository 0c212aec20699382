"""A path of a protocol, its requests and its replies."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from berthmaster.model.decode import encode_json
from berthmaster.native_api.wire import Problem
from extender.protocols.cheap_requests import Cheap
from extender.protocols.problem import PROBLEM_JSON
from extender.protocols.services import Call, Services

JSON: Final = "application/json"
JSON_LINES: Final = "application/x-ndjson"


class Reply(NamedTuple):
    """A reply. A body that is an iterator is sent in pieces, as it yields them."""

    body: bytes | Iterator[bytes]
    status: int = 200
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()


Handler = Callable[[Services, Call], Reply]
Refuser = Callable[[Problem], Reply]


def problem_reply(problem: Problem) -> Reply:
    """Return a problem as problem details (RFC 9457)."""
    return Reply(encode_json(problem), problem.status, PROBLEM_JSON)


class Parameter(NamedTuple):
    """A query parameter: what it selects, the JSON schema of its values, and whether it is required."""

    description: str
    schema: Mapping[str, Any]
    required: bool = False


class Operation(NamedTuple):
    """What clients know about a route besides its path, its parameters and the content types of its body.

    Attributes:
        bodies: examples of the body.
        refusals: the statuses of refusals besides those that every route has.
        example: whether the description has the answer to the first of ``bodies``.
    """

    id: str
    summary: str
    answer: type
    body: type | None = None
    bodies: Mapping[str, Any] = {}
    refusals: tuple[int, ...] = ()
    example: bool = False


class Route(NamedTuple):
    """A path and its handler.

    Attributes:
        path: an exact path, or one with ``{names}`` that each match one segment.
        streamed: the reply lasts, and its body is an iterator.
        accepts: the accepted content types of the body; empty for any.
        refuse: writes any error of a request in the format of the protocol, from a wrong method to a crash.
        brings_fleet: whether a request may bring clusters or nodes, so that it may be large.
        decodes_parts: whether the handler decodes only the parts of a body that it needs. Then only the bytes of the
            body are limited, and not its JSON values.
        when_too_large: how the client can send less, as the end of a refusal; empty if it cannot.
        cheap: returns whether the answer to a body takes at most about 2 ms. The thread that serves all connections of
            a process then answers the request, and a thread of a pool answers every other one. Called in the former
            thread for bodies of up to 64 KiB: it must take microseconds, and must not raise. None: never cheap.
    """

    method: str
    path: str
    handler: Handler
    protocol: str
    streamed: bool = False
    accepts: tuple[str, ...] = ()
    query: Mapping[str, Parameter] | None = None
    refuse: Refuser = problem_reply
    brings_fleet: bool = False
    decodes_parts: bool = False
    when_too_large: str = ""
    cheap: Cheap | None = None
    operation: Operation | None = None
