"""The two routes of a question about a binding: for a namespaced one, and for a cluster-scoped one."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from extender.protocols.native.parameters import for_readers
from extender.protocols.native.schedule import PROTOCOL
from extender.protocols.route import Handler, Operation, Parameter, Route
from extender.protocols.services import Call


def binding_routes(
    suffix: str,
    handler: Handler,
    ids: tuple[str, str],
    summary: str,
    answer: type,
    example: Callable[[], Any] | None = None,
    query: Mapping[str, Parameter] | None = None,
    *,
    readers: bool = False,
) -> Iterator[Route]:
    """Yield the routes.

    Args:
        suffix: the end of both paths.
        handler: replies to both.
        ids: the ids of both operations.
        summary: what the first operation does.
        answer: the type of the answer.
        example: returns an answer of the first operation as a JSON value; None for none.
        query: the query parameters; None for none.
        readers: whether there are routes for readers, too: the answer can name objects of other namespaces.
    """
    own, other = ids
    kinds = (
        ("/v1/bindings/{namespace}/{name}", Operation(own, summary, answer, example, refusals=(404, 409))),
        ("/v1/clusterbindings/{name}", Operation(other, f"{summary}, cluster-scoped", answer, refusals=(404, 409))),
    )
    for path, operation in kinds:
        route = Route("GET", f"{path}{suffix}", handler, PROTOCOL, query=query or {}, operation=operation)
        yield from for_readers(route) if readers else (route,)


def binding_key(call: Call) -> tuple[str, str]:
    """Return the namespace and the name of the binding in the path; an empty namespace for a cluster-scoped one."""
    return call.path_values.get("namespace", ""), call.path_values["name"]
