"""The parts of which the OpenAPI document is made: operations, bodies and parameters."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from berthmaster.native_api.problem import Problem
from extender.protocols.problem import PROBLEM_JSON
from extender.protocols.route import JSON

Schema = dict[str, Any]

REQUEST_ID: Final[Schema] = {
    "name": "X-Request-Id",
    "in": "header",
    "description": "The id of the request in answers, problems and logs: up to 128 of A-Z a-z 0-9 . _ : / + = -. "
    "The service creates an id if it is absent or has other characters.",
    "schema": {"type": "string"},
}
PROBLEMS: Final[Mapping[int, str]] = {
    400: "Invalid request; `errors` has the JSON path of every invalid field.",
    401: "No valid bearer token.",
    404: "No such path, or no such binding.",
    405: "The path has another method.",
    408: "The body did not arrive in time.",
    409: "The answer needs objects that the service does not watch, or a policy is not known; `detail` says which.",
    413: "The body, a line or the batch is too large.",
    415: "The body has another content type.",
    429: "Another simulation is running; retry later.",
    503: "No fleet is known yet, or the answer was not ready in time.",
}
ABOUT_BINDING: Final = (400, 401, 404, 405, 409, 503)
"""The statuses of the refusals of a question about a binding."""


def operation(
    name: str,
    summary: str,
    schema: Mapping[type, Schema],
    problems: tuple[int, ...],
    answer: type,
    example: Any,  # noqa: ANN401 - a JSON value; None for none
    *,
    parameters: list[Schema] | None = None,
    body: Schema | None = None,
    content_type: str = JSON,
) -> Schema:
    """Return an operation.

    Args:
        name: its id.
        summary: what it does.
        schema: the schemas by type.
        problems: the statuses of its refusals.
        answer: the type of its answer.
        example: an answer as a JSON value; None for none.
        parameters: its parameters, except for the header with the request's id.
        body: the result of ``request_body``; None without a body.
        content_type: the content type of the answer.
    """
    media: Schema = {"schema": schema[answer]}
    if example is not None:
        media["example"] = example
    responses: Schema = {"200": {"description": HTTPStatus.OK.phrase, "content": {content_type: media}}}
    for status in problems:
        content = {PROBLEM_JSON: {"schema": schema[Problem]}}
        responses[str(status)] = {"description": PROBLEMS[status], "content": content}
    operation: Schema = {
        "operationId": name,
        "summary": summary,
        "parameters": [*(parameters or []), REQUEST_ID],
        "responses": responses,
    }
    return operation if body is None else {**operation, "requestBody": body}


def binding_paths(
    suffix: str,
    names: tuple[str, str],
    summaries: tuple[str, str],
    schema: Mapping[type, Schema],
    answer: type,
    example: Any,  # noqa: ANN401 - a JSON value; None for none
    *parameters: Schema,
) -> Schema:
    """Return the two paths of a question about a binding: for a namespaced one, and for a cluster-scoped one.

    Args:
        suffix: the end of both paths.
        names: the ids of both operations.
        summaries: what both do.
        schema: the schemas by type.
        answer: the type of the answer.
        example: an answer to the first as a JSON value; None for none.
        parameters: the parameters besides namespace and name.
    """
    namespace, name = in_path("namespace"), in_path("name")
    kinds = (
        (f"/v1/bindings/{{namespace}}/{{name}}{suffix}", example, [namespace, name, *parameters]),
        (f"/v1/clusterbindings/{{name}}{suffix}", None, [name, *parameters]),
    )
    return {
        path: {"get": operation(own_name, summary, schema, ABOUT_BINDING, answer, given, parameters=accepted)}
        for (path, given, accepted), own_name, summary in zip(kinds, names, summaries, strict=True)
    }


def request_body(content_type: str, schema: Schema, given: Mapping[str, Any]) -> Schema:
    """Return a required body with examples by name."""
    values = {name.replace(" ", "-"): {"summary": name, "value": value} for name, value in given.items()}
    return {"required": True, "content": {content_type: {"schema": schema, "examples": values}}}


def in_query(name: str, description: str, schema: Schema) -> Schema:
    """Return an optional query parameter."""
    return {"name": name, "in": "query", "description": description, "schema": schema}


def in_path(name: str) -> Schema:
    """Return a parameter in the path."""
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
