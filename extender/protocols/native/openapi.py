"""The OpenAPI 3.1 document, made from the types of the wire."""

from collections.abc import Mapping
from functools import cache
from http import HTTPStatus
from typing import Any, Final

import msgspec

from berthmaster.model.decode import encode_json
from berthmaster.model.quantity import Quantity
from berthmaster.native_api.outlook import BindingOutlook
from berthmaster.native_api.problem import Problem
from berthmaster.native_api.wire import (
    BatchAnswer,
    BatchLine,
    BindingExplanation,
    BindingView,
    ClusterList,
    Decided,
    HistoryPage,
    PlanAnswer,
    PlanRequest,
    ScheduleRequest,
    SimulateAnswer,
    SimulateRequest,
)
from berthmaster.version import __version__
from extender.protocols.native import examples
from extender.protocols.problem import PROBLEM_JSON
from extender.protocols.route import JSON, JSON_LINES

Schema = dict[str, Any]

_TYPES: Final = (
    ScheduleRequest, BatchLine, SimulateRequest, PlanRequest,
    Decided, BatchAnswer, SimulateAnswer, PlanAnswer, ClusterList, HistoryPage, BindingExplanation,
    BindingView, BindingOutlook, Problem,
)  # fmt: skip
_QUANTITY_PATTERN: Final = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,3})?$"
_QUANTITY: Final[Schema] = {
    "title": "Quantity",
    "description": "A Kubernetes quantity.",
    "anyOf": [{"type": "string", "pattern": _QUANTITY_PATTERN}, {"type": "number"}],
    "examples": ["500m", "1Gi", 2],
}
_REQUEST_ID: Final[Schema] = {
    "name": "X-Request-Id",
    "in": "header",
    "description": "The id of the request in answers, problems and logs: up to 128 of A-Z a-z 0-9 . _ : / + = -. "
    "The service creates an id if it is absent or has other characters.",
    "schema": {"type": "string"},
}
_EXPLAIN: Final[Schema] = {
    "name": "explain",
    "in": "query",
    "description": "Add the diagnosis: why each group and cluster was rejected, or its score.",
    "schema": {"type": "boolean", "default": False},
}
_PROBLEMS: Final[Mapping[int, str]] = {
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


@cache
def document() -> bytes:
    """Return the encoded document."""
    return encode_json(description())


def description() -> Schema:
    """Return the document as a JSON value."""
    schemas, components = msgspec.json.schema_components(
        _TYPES, schema_hook=_custom, ref_template="#/components/schemas/{name}"
    )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Berthmaster extender",
            "version": __version__,
            "description": "Schedules workloads in a fleet of Kubernetes clusters, and explains the decisions.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": _paths(dict(zip(_TYPES, schemas, strict=True))),
        "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"token": []}],
    }


def _paths(schema: Mapping[type, Schema]) -> Schema:
    problems = (400, 401, 404, 405, 408, 413, 415, 503)
    return {
        "/v1/schedule": {
            "post": _operation(
                "schedule", "Schedule a binding", schema, (*problems,), Decided, examples.decided(),
                parameters=[_EXPLAIN],
                body=_body(JSON, schema[ScheduleRequest], {
                    "on the service's fleet": examples.SCHEDULE,
                    "on a fleet of its own": examples.SCHEDULE_OWN_FLEET,
                }),
            )
        },
        "/v1/schedule/batch": {
            "post": _operation(
                "scheduleBatch", "Schedule many bindings, one per line", schema, problems, BatchAnswer,
                {"id": "1", "line": 1, "decision": examples.decided()}, parameters=[_EXPLAIN], content_type=JSON_LINES,
                body=_body(JSON_LINES, schema[BatchLine], {"a line": {"id": "1", **examples.SCHEDULE}}),
            )
        },
        "/v1/simulate": {
            "post": _operation(
                "simulate", "Simulate changes", schema, (*problems, 409, 429), SimulateAnswer, examples.simulated(),
                body=_body(JSON, schema[SimulateRequest], {"a lost cluster": examples.SIMULATE}),
            )
        },
        "/v1/plan": {
            "post": _operation(
                "plan", "Plan changes of policies", schema, (*problems, 409), PlanAnswer, examples.planned(),
                body=_body(JSON, schema[PlanRequest], {"a changed policy": examples.PLAN}),
            )
        },
        "/v1/clusters": {
            "get": _operation(
                "listClusters", "List the clusters of the fleet", schema, (400, 401, 405, 503), ClusterList,
                examples.listed(),
                parameters=[
                    _query("after", "The page contains the names after this one.", {"type": "string"}),
                    _query(
                        "limit", "The most clusters of the page.", {"type": "integer", "minimum": 1, "maximum": 5000}
                    ),
                ],
            )
        },
        "/v1/bindings/{namespace}/{name}": {
            "get": _operation(
                "getBinding", "Read a binding as the service knows it", schema, (400, 401, 404, 405, 409, 503),
                BindingView, examples.described(), parameters=[_path("namespace"), _path("name")],
            )
        },
        "/v1/clusterbindings/{name}": {
            "get": _operation(
                "getClusterBinding", "Read a cluster-scoped binding as the service knows it", schema,
                (400, 401, 404, 405, 409, 503), BindingView, None, parameters=[_path("name")],
            )
        },
        "/v1/bindings/{namespace}/{name}/decision": {
            "get": _operation(
                "explainBinding", "Explain the decision on a binding", schema, (400, 401, 404, 405, 409, 503),
                BindingExplanation, examples.explained(), parameters=[_path("namespace"), _path("name")],
            )
        },
        "/v1/clusterbindings/{name}/decision": {
            "get": _operation(
                "explainClusterBinding", "Explain the decision on a cluster-scoped binding", schema,
                (400, 401, 404, 405, 409, 503), BindingExplanation, None, parameters=[_path("name")],
            )
        },
        "/v1/bindings/{namespace}/{name}/outlook": {
            "get": _operation(
                "outlookOfBinding", "What each group of a binding could hold", schema,
                (400, 401, 404, 405, 409, 503), BindingOutlook, examples.outlook_of_binding(),
                parameters=[_path("namespace"), _path("name"), _GROUP],
            )
        },
        "/v1/clusterbindings/{name}/outlook": {
            "get": _operation(
                "outlookOfClusterBinding", "What each group of a cluster-scoped binding could hold", schema,
                (400, 401, 404, 405, 409, 503), BindingOutlook, None, parameters=[_path("name"), _GROUP],
            )
        },
        "/v1/history": {
            "get": _operation(
                "listHistory", "List what the ledger recorded, the latest first", schema,
                (400, 401, 405, 409, 503), HistoryPage, None,
                parameters=[
                    *_HISTORY,
                    _query("namespace", "Only objects of this namespace.", {"type": "string"}),
                    _query("kind", "Only objects of this kind.", {"type": "string"}),
                    _query("name", "Only objects of this name.", {"type": "string"}),
                    _query("cluster", "Only records that change the replicas on this cluster.", {"type": "string"}),
                    _query("policy", "Only workloads of this policy: NAME or NAMESPACE/NAME.", {"type": "string"}),
                    _query("trigger", "Only decisions with this trigger, or records of this kind.", {"type": "string"}),
                ],
            )
        },
        "/v1/bindings/{namespace}/{name}/decisions": {
            "get": _operation(
                "listBindingDecisions", "List the recorded decisions on a binding", schema,
                (400, 401, 404, 405, 409, 503), HistoryPage, None,
                parameters=[_path("namespace"), _path("name"), *_HISTORY],
            )
        },
        "/v1/clusterbindings/{name}/decisions": {
            "get": _operation(
                "listClusterBindingDecisions", "List the recorded decisions on a cluster-scoped binding", schema,
                (400, 401, 404, 405, 409, 503), HistoryPage, None, parameters=[_path("name"), *_HISTORY],
            )
        },
        "/openapi.json": {
            "get": {
                "operationId": "describe",
                "summary": "This document",
                "parameters": [_REQUEST_ID],
                "responses": {
                    "200": {"description": "OpenAPI 3.1.", "content": {JSON: {"schema": {"type": "object"}}}}
                },
            }
        },
    }  # fmt: skip


def _operation(
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
    media: Schema = {"schema": schema[answer]}
    if example is not None:
        media["example"] = example
    responses: Schema = {"200": {"description": HTTPStatus.OK.phrase, "content": {content_type: media}}}
    for status in problems:
        content = {PROBLEM_JSON: {"schema": schema[Problem]}}
        responses[str(status)] = {"description": _PROBLEMS[status], "content": content}
    operation: Schema = {
        "operationId": name,
        "summary": summary,
        "parameters": [*(parameters or []), _REQUEST_ID],
        "responses": responses,
    }
    return operation if body is None else {**operation, "requestBody": body}


def _body(content_type: str, schema: Schema, given: Mapping[str, Any]) -> Schema:
    values = {name.replace(" ", "-"): {"summary": name, "value": value} for name, value in given.items()}
    return {"required": True, "content": {content_type: {"schema": schema, "examples": values}}}


def _query(name: str, description: str, schema: Schema) -> Schema:
    return {"name": name, "in": "query", "description": description, "schema": schema}


def _path(name: str) -> Schema:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def _custom(kind: type) -> Schema:
    if kind is Quantity:
        return _QUANTITY
    raise NotImplementedError(f"no schema for {kind.__name__}")


_GROUP: Final[Schema] = _query(
    "group", "Explain each cluster in this group; empty for a placement without groups.", {"type": "string"}
)
_HISTORY: Final[tuple[Schema, ...]] = (
    _query("after", "The page contains the records before this one, by its id.", {"type": "string"}),
    _query("limit", "The most records of the page.", {"type": "integer", "minimum": 1, "maximum": 1000}),
    _query("since", "Only records from this time on.", {"type": "string", "format": "date-time"}),
    _query("until", "Only records up to this time.", {"type": "string", "format": "date-time"}),
)
