"""The OpenAPI 3.1 document, made from the types of the wire."""

from collections.abc import Mapping
from functools import cache
from typing import Final

import msgspec

from berthmaster.model.decode import encode_json
from berthmaster.model.quantity import Quantity
from berthmaster.native_api.outlook import BindingOutlook
from berthmaster.native_api.problem import Problem
from berthmaster.native_api.review import ChangeReview, ReviewAnswer
from berthmaster.native_api.what_if import PlanAnswer, PlanRequest, SimulateAnswer, SimulateRequest
from berthmaster.native_api.wire import (
    BatchAnswer,
    BatchLine,
    BindingExplanation,
    BindingView,
    ClusterList,
    Decided,
    HistoryPage,
    ScheduleRequest,
)
from berthmaster.version import __version__
from extender.protocols.native import examples
from extender.protocols.native.openapi_fleet import FLEET_TYPES, fleet_paths
from extender.protocols.native.openapi_parts import (
    REQUEST_ID,
    Schema,
    binding_paths,
    in_query,
    operation,
    request_body,
)
from extender.protocols.native.openapi_why import WHY_TYPES, add_readers, why_paths
from extender.protocols.route import JSON, JSON_LINES

_TYPES: Final = (
    ScheduleRequest, BatchLine, SimulateRequest, PlanRequest, ChangeReview,
    Decided, BatchAnswer, SimulateAnswer, PlanAnswer, ReviewAnswer, ClusterList, HistoryPage, BindingExplanation,
    BindingView, BindingOutlook, Problem, *FLEET_TYPES, *WHY_TYPES,
)  # fmt: skip
_QUANTITY_PATTERN: Final = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,3})?$"
_QUANTITY: Final[Schema] = {
    "title": "Quantity",
    "description": "A Kubernetes quantity.",
    "anyOf": [{"type": "string", "pattern": _QUANTITY_PATTERN}, {"type": "number"}],
    "examples": ["500m", "1Gi", 2],
}
_EXPLAIN: Final[Schema] = {
    "name": "explain",
    "in": "query",
    "description": "Add the diagnosis: why each group and cluster was rejected, or its score.",
    "schema": {"type": "boolean", "default": False},
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
    paths: Schema = {
        **_computing_paths(schema),
        **_reading_paths(schema),
        **fleet_paths(schema),
        **why_paths(schema),
        "/openapi.json": {
            "get": {
                "operationId": "describe",
                "summary": "This document",
                "parameters": [REQUEST_ID],
                "responses": {
                    "200": {"description": "OpenAPI 3.1.", "content": {JSON: {"schema": {"type": "object"}}}}
                },
            }
        },
    }  # fmt: skip
    return add_readers(paths, schema)


def _computing_paths(schema: Mapping[type, Schema]) -> Schema:
    problems = 400, 401, 404, 405, 408, 413, 415, 503
    return {
        "/v1/schedule": {
            "post": operation(
                "schedule", "Schedule a binding", schema, problems, Decided, examples.decided(),
                parameters=[_EXPLAIN],
                body=request_body(JSON, schema[ScheduleRequest], {
                    "on the service's fleet": examples.SCHEDULE,
                    "on a fleet of its own": examples.SCHEDULE_OWN_FLEET,
                }),
            )
        },
        "/v1/schedule/batch": {
            "post": operation(
                "scheduleBatch", "Schedule many bindings, one per line", schema, problems, BatchAnswer,
                {"id": "1", "line": 1, "decision": examples.decided()}, parameters=[_EXPLAIN], content_type=JSON_LINES,
                body=request_body(JSON_LINES, schema[BatchLine], {"a line": {"id": "1", **examples.SCHEDULE}}),
            )
        },
        "/v1/simulate": {
            "post": operation(
                "simulate", "Simulate changes", schema, (*problems, 409, 429), SimulateAnswer, examples.simulated(),
                body=request_body(JSON, schema[SimulateRequest], {"a lost cluster": examples.SIMULATE}),
            )
        },
        "/v1/plan": {
            "post": operation(
                "plan", "Plan changes of policies", schema, (*problems, 409), PlanAnswer, examples.planned(),
                body=request_body(JSON, schema[PlanRequest], {"a changed policy": examples.PLAN}),
            )
        },
        "/v1/review": {
            "post": operation(
                "review", "Review a change of one policy", schema, (*problems, 409), ReviewAnswer, examples.reviewed(),
                body=request_body(JSON, schema[ChangeReview], {"a new policy": examples.REVIEW}),
            )
        },
    }  # fmt: skip


def _reading_paths(schema: Mapping[type, Schema]) -> Schema:
    """Return the paths of what the service knows and recorded."""
    return {
        "/v1/clusters": {
            "get": operation(
                "listClusters", "List the clusters of the fleet", schema, (400, 401, 405, 503), ClusterList,
                examples.listed(),
                parameters=[
                    in_query("after", "The page contains the names after this one.", {"type": "string"}),
                    in_query(
                        "limit", "The most clusters of the page.", {"type": "integer", "minimum": 1, "maximum": 5000}
                    ),
                ],
            )
        },
        **binding_paths(
            "", ("getBinding", "getClusterBinding"),
            ("Read a binding as the service knows it", "Read a cluster-scoped binding as the service knows it"),
            schema, BindingView, examples.described(),
        ),
        **binding_paths(
            "/decision", ("explainBinding", "explainClusterBinding"),
            ("Explain the decision on a binding", "Explain the decision on a cluster-scoped binding"), schema,
            BindingExplanation, examples.explained(),
        ),
        **binding_paths(
            "/outlook", ("outlookOfBinding", "outlookOfClusterBinding"),
            ("What each group of a binding could hold", "What each group of a cluster-scoped binding could hold"),
            schema, BindingOutlook, examples.outlook_of_binding(), _GROUP,
        ),
        "/v1/history": {
            "get": operation(
                "listHistory", "List what the ledger recorded, the latest first", schema,
                (400, 401, 405, 409, 503), HistoryPage, None,
                parameters=[
                    *_HISTORY,
                    in_query("namespace", "Only objects of this namespace.", {"type": "string"}),
                    in_query("kind", "Only objects of this kind.", {"type": "string"}),
                    in_query("name", "Only objects of this name.", {"type": "string"}),
                    in_query("cluster", "Only records that change the replicas on this cluster.", {"type": "string"}),
                    in_query("policy", "Only workloads of this policy: NAME or NAMESPACE/NAME.", {"type": "string"}),
                    in_query("trigger", "Only decisions with this trigger, records of this kind.", {"type": "string"}),
                ],
            )
        },
        **binding_paths(
            "/decisions", ("listBindingDecisions", "listClusterBindingDecisions"),
            ("List the recorded decisions on a binding", "List the recorded decisions on a cluster-scoped binding"),
            schema, HistoryPage, None, *_HISTORY,
        ),
    }  # fmt: skip


def _custom(kind: type) -> Schema:
    if kind is Quantity:
        return _QUANTITY
    raise NotImplementedError(f"no schema for {kind.__name__}")


_GROUP: Final[Schema] = in_query(
    "group", "Explain each cluster in this group; empty for a placement without groups.", {"type": "string"}
)
_HISTORY: Final[tuple[Schema, ...]] = (
    in_query("after", "The page contains the records before this one, by its id.", {"type": "string"}),
    in_query("limit", "The most records of the page.", {"type": "integer", "minimum": 1, "maximum": 1000}),
    in_query("since", "Only records from this time on.", {"type": "string", "format": "date-time"}),
    in_query("until", "Only records up to this time.", {"type": "string", "format": "date-time"}),
)
