"""The paths of the questions that begin with why, for the OpenAPI document."""

from collections.abc import Mapping
from typing import Final

from berthmaster.ledger.records import PastExplanation
from berthmaster.native_api.why import ClaimsView, MovesView, PolicyList, ResilienceView, WhyNotView
from berthmaster.native_api.wire import ReaderRequest
from extender.protocols.native import examples
from extender.protocols.native.openapi_parts import Schema, binding_paths, in_path, in_query, operation, request_body
from extender.protocols.route import JSON

WHY_TYPES: Final = (ReaderRequest, MovesView, PolicyList, ResilienceView, ClaimsView, WhyNotView, PastExplanation)
"""The types of requests and answers."""
_OF_ALL: Final = (400, 401, 405, 409, 503)
_OF_BODY: Final = (408, 413, 415)
_NAMESPACES: Final = in_query(
    "namespaces",
    "Only objects of these namespaces, separated by commas; - for those without a namespace. Empty for none.",
    {"type": "string"},
)
_FOR_READERS: Final = (
    "/v1/moves", "/v1/resilience", "/v1/policies", "/v1/history",
    *(
        f"/v1/{binding}{suffix}"
        for binding in ("bindings/{namespace}/{name}", "clusterbindings/{name}")
        for suffix in ("", "/decision", "/decisions/{record}")
    ),
)  # fmt: skip
"""The paths whose answers can name objects of other namespaces than the question."""
_CLUSTER: Final[Schema] = {
    **in_query("cluster", "The cluster.", {"type": "string", "minLength": 1}),
    "required": True,
}
_RECORD: Final = in_query(
    "record", "The id of a recorded decision on the binding; absent for the present.", {"type": "string"}
)


_MOST_MOVES: Final = in_query("limit", "The most moves.", {"type": "integer", "minimum": 1, "maximum": 10_000})
_POLICIES: Final[tuple[Schema, ...]] = (
    in_query("q", "Only policies whose NAMESPACE/NAME contains this.", {"type": "string"}),
    in_query("kind", "Only this kind.", {
        "type": "string", "enum": ["PropagationPolicy", "ClusterPropagationPolicy"],
    }),
    in_query("name", "Only this name.", {"type": "string"}),
    in_query(
        "only", "Only policies that have all of: findings, takeovers, drops; separated by commas.", {"type": "string"}
    ),
    in_query("offset", "How many policies to leave out first.", {"type": "integer", "minimum": 0}),
    in_query("limit", "The most policies.", {"type": "integer", "minimum": 1, "maximum": 1000}),
)  # fmt: skip


def why_paths(schema: Mapping[type, Schema]) -> Schema:
    """Return the paths."""
    return {
        "/v1/moves": {
            "get": operation(
                "listMoves", "List what moves and what moves wait for", schema, _OF_ALL, MovesView, None,
                parameters=[
                    _NAMESPACES,
                    _MOST_MOVES,
                ],
            ),
        },
        "/v1/resilience": {
            "get": operation(
                "listFailures", "List what each failure alone would do, the worst first", schema, _OF_ALL,
                ResilienceView, None,
                parameters=[
                    in_query(
                        "by", "What fails as a whole: cluster, region, zone, provider, or several of them with commas.",
                        {"type": "string", "default": "cluster"},
                    ),
                    in_query("limit", "The most failures.", {"type": "integer", "minimum": 1, "maximum": 1000}),
                ],
            )
        },
        "/v1/policies": {
            "get": operation(
                "listPolicies", "List what policies claim, what rules find, takeovers and priority drops", schema,
                _OF_ALL, PolicyList, None, parameters=[*_POLICIES, _NAMESPACES],
            ),
        },
        **binding_paths(
            "/claims", _names("listClaims"), _summaries("Read which policy holds a workload"), schema, ClaimsView,
            examples.claimed(),
        ),
        **binding_paths(
            "/why-not", _names("whyNot"),
            _summaries("Find the smallest change under which a cluster would get a workload"), schema, WhyNotView,
            examples.not_there(), _CLUSTER, _RECORD,
        ),
        **binding_paths(
            "/decisions/{record}", _names("explainRecord"),
            _summaries("Explain a recorded decision with the fleet as it was"), schema, PastExplanation, None,
            in_path("record"),
        ),
    }  # fmt: skip


def add_readers(paths: Schema, schema: Mapping[type, Schema]) -> Schema:
    """Return the paths with the operations whose body has the namespaces of the reader.

    These namespaces may be too many for a request line.
    """
    body = request_body(JSON, schema[ReaderRequest], {"of two namespaces": {"namespaces": ["default", "shop"]}})
    refused = operation("", "", schema, _OF_BODY, ReaderRequest, None)["responses"]
    for path in _FOR_READERS:
        question = paths[path]["get"]
        paths[path]["post"] = {
            **question,
            "operationId": f"{question['operationId']}ForReader",
            "summary": f"{question['summary']}, for a reader of some namespaces",
            "parameters": [each for each in question["parameters"] if each is not _NAMESPACES],
            "responses": {**refused, **question["responses"]},
            "requestBody": body,
        }
    return paths


def _names(name: str) -> tuple[str, str]:
    return name, f"{name}OfClusterBinding"


def _summaries(summary: str) -> tuple[str, str]:
    return summary, f"{summary}, cluster-scoped"
