"""The OpenAPI 3.1 document, made from the routes and the types of the wire."""

import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec

from berthmaster.model.meta import ParsedText
from berthmaster.model.quantity import Quantity
from berthmaster.native_api.wire import Problem
from berthmaster.version import __version__
from extender.protocols.native.examples import answer_of, example_services
from extender.protocols.problem import PROBLEM_JSON
from extender.protocols.route import JSON, JSON_LINES, Operation, Route
from extender.protocols.services import Services

Schema = dict[str, Any]

_PROBLEMS: Final[Mapping[int, str]] = {
    400: "Invalid request; `errors` has the JSON path of every invalid field.",
    401: "No valid bearer token.",
    404: "No such path, or no such binding.",
    405: "The path has another method.",
    408: "The body did not arrive in time.",
    409: "The answer needs objects that the service does not watch, or a policy is not known; `detail` says which.",
    413: "The body is too large.",
    415: "The body has another content type.",
    503: "No fleet is known yet, or the answer was not ready in time.",
}
_OF_ALL: Final = frozenset({400, 401, 405, 503})
_OF_BODIES: Final = frozenset({408, 413, 415})
_REQUEST_ID: Final[Schema] = {
    "name": "X-Request-Id",
    "in": "header",
    "description": "The id of the request in answers, problems and logs: up to 128 of A-Z a-z 0-9 . _ : / + = -. "
    "The service creates an id if it is absent or has other characters.",
    "schema": {"type": "string"},
}
_QUANTITY_PATTERN: Final = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,3})?$"
_QUANTITY: Final[Schema] = {
    "title": "Quantity",
    "description": "A Kubernetes quantity.",
    "anyOf": [{"type": "string", "pattern": _QUANTITY_PATTERN}, {"type": "number"}],
    "examples": ["500m", "1Gi", 2],
}


def description(routes: Iterable[Route]) -> Schema:
    """Return the document of the routes that have an operation, as a JSON value."""
    described = [(each, each.operation) for each in routes if each.operation is not None]
    types = {Problem, *(kind for _, each in described for kind in (each.answer, each.body) if kind is not None)}
    ordered = sorted(types, key=lambda kind: kind.__name__)
    schemas, components = msgspec.json.schema_components(
        ordered, schema_hook=_custom, ref_template="#/components/schemas/{name}"
    )
    schema, components = dict(zip(ordered, schemas, strict=True)), _plain(components)
    paths, services = dict[str, Schema](), example_services()
    for route, operation in described:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, operation, schema, services)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Berthmaster extender",
            "version": __version__,
            "description": "Schedules workloads in a fleet of Kubernetes clusters, and explains the decisions.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"token": []}],
    }


def _operation(route: Route, operation: Operation, schema: Mapping[type, Schema], services: Services) -> Schema:
    media: Schema = {"schema": schema[operation.answer]}
    if operation.example:
        media["example"] = answer_of(route, services)
    answer_type = JSON_LINES if route.streamed else JSON
    responses: Schema = {"200": {"description": HTTPStatus.OK.phrase, "content": {answer_type: media}}}
    refusals = _OF_ALL | {*operation.refusals} | (_OF_BODIES if operation.body is not None else set())
    for status in sorted(refusals):
        content = {PROBLEM_JSON: {"schema": schema[Problem]}}
        responses[str(status)] = {"description": _PROBLEMS[status], "content": content}
    found: Schema = {
        "operationId": operation.id,
        "summary": operation.summary,
        "parameters": _parameters(route),
        "responses": responses,
    }
    if operation.body is not None:
        examples = {what.replace(" ", "-"): {"summary": what, "value": each} for what, each in operation.bodies.items()}
        content = {route.accepts[0]: {"schema": schema[operation.body], "examples": examples}}
        found["requestBody"] = {"required": True, "content": content}
    return found


def _parameters(route: Route) -> list[Schema]:
    in_path = {"in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    return [
        *({"name": name, **in_path} for name in re.findall(r"{(\w+)}", route.path)),
        *({"name": name, "in": "query", **each._asdict()} for name, each in (route.query or {}).items()),
        _REQUEST_ID,
    ]


def _custom(kind: type) -> Schema:
    if kind is Quantity:
        return _QUANTITY
    if issubclass(kind, ParsedText):
        return {"type": "string", "description": (kind.__doc__ or "").partition("\n")[0].replace("``", "`")}
    raise NotImplementedError(f"no schema for {kind.__name__}")


def _plain(value: Any) -> Any:  # noqa: ANN401 - a part of a schema
    """Return a schema in which a tuple is an array of a fixed length. Generators of clients read no ``prefixItems``."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if not isinstance(value, dict):
        return value
    if "prefixItems" not in value:
        return {key: _plain(each) for key, each in value.items()}
    kinds: list[Schema] = []
    for each in value["prefixItems"]:
        kinds += [kind for kind in each.get("anyOf", [each]) if kind not in kinds]
    items = kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    return {key: each for key, each in value.items() if key != "prefixItems"} | {"items": items}
