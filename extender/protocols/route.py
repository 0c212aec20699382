"""One path of a protocol, and what goes in and out of it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from extender.protocols.problem import PROBLEM_JSON, Problem, encode_problem

if TYPE_CHECKING:
    from extender.protocols.services import Services

JSON: Final = "application/json"
JSON_LINES: Final = "application/x-ndjson"
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class Call(NamedTuple):
    """One request.

    Attributes:
        request_id: its name in logs, answers and problem details.
        deadline_s: when its answer is due, on the monotonic clock of ``Services.clock``.
        body: all of it; empty on a streamed route.
        bursts: on a streamed route the body's lines, without their ends, as many at a time as have come; read when it
            is asked for. Raises ``Refusal`` where the body is beyond a bound or does not come.
        query: the first value of each query parameter.
        path_values: what stood at the ``{names}`` of the route's path.
    """

    request_id: str
    deadline_s: float
    body: bytes = b""
    bursts: Iterable[Sequence[bytes]] = ()
    query: Mapping[str, str] = _NOTHING
    path_values: Mapping[str, str] = _NOTHING


class Reply(NamedTuple):
    """An answer. An iterator as its body is sent piece by piece, and made while it is sent."""

    body: bytes | Iterator[bytes]
    status: int = 200
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()


Handler = Callable[["Services", Call], Reply]
Refuser = Callable[[Problem], Reply]


def problem_reply(problem: Problem) -> Reply:
    """A refusal as problem details (RFC 9457)."""
    return Reply(encode_problem(problem), problem.status, PROBLEM_JSON)


class Route(NamedTuple):
    """A path, and who answers there.

    Attributes:
        method: ``GET`` or ``POST``.
        path: exact, or with ``{names}`` that each stand for one segment.
        handler: answers.
        protocol: whose it is; the label of its metrics.
        streamed: the handler reads ``Call.bursts`` instead of ``Call.body``.
        accepts: the content types of its body; empty for any.
        query: the query parameters that it knows; None for any.
        refuse: says in the protocol's own shape that a request was not answered, from wrong method to crash.
        prompt: a small request is answered within a millisecond or so, and waits for nothing but the state.
    """

    method: str
    path: str
    handler: Handler
    protocol: str
    streamed: bool = False
    accepts: tuple[str, ...] = ()
    query: frozenset[str] | None = None
    refuse: Refuser = problem_reply
    prompt: bool = False
