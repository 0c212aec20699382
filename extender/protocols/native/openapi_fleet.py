"""The paths of the fleet in use and of its workloads, for the OpenAPI document."""

from collections.abc import Mapping
from typing import Final

from berthmaster.native_api.fleet import (
    MAX_ROWS,
    FleetView,
    Restriction,
    SortKey,
    StateVersion,
    WorkloadPage,
    WorkloadQuery,
)
from extender.protocols.native import examples
from extender.protocols.native.openapi_parts import Schema, in_query, operation, request_body
from extender.protocols.native.workload_page import MAX_OFFSET
from extender.protocols.route import JSON

FLEET_TYPES: Final = (WorkloadQuery, StateVersion, FleetView, WorkloadPage)
"""The types of requests and answers."""
_ONLY: Final = [each.value for each in Restriction]
_SORT: Final = [f"{sign}{each.value}" for each in SortKey for sign in ("", "-")]
_LIST: Final[tuple[Schema, ...]] = (
    in_query("q", "Words that NAMESPACE/KIND/NAME contains, in any case.", {"type": "string"}),
    in_query("namespaces", "The namespaces that the reader may see, with commas; `-` for cluster-scoped workloads. "
             "All, if it is absent.", {"type": "string"}),
    in_query("namespace", "Only workloads of this namespace; `-` for cluster-scoped ones.", {"type": "string"}),
    in_query("policy", "Only workloads of this policy, such as `PropagationPolicy shop/web`.", {"type": "string"}),
    in_query("cluster", "Only workloads on this cluster.", {"type": "string"}),
    in_query("group", "Only workloads in the group of this name.", {"type": "string"}),
    in_query("only", f"Only workloads that meet one of these, with commas: {', '.join(_ONLY)}.", {"type": "string"}),
    in_query("sort", "The order; a dash before it reverses it.", {"type": "string", "enum": _SORT}),
    in_query("offset", "How many workloads to skip.", {"type": "integer", "minimum": 0, "maximum": MAX_OFFSET}),
    in_query("limit", "The most workloads of the page.", {"type": "integer", "minimum": 1, "maximum": MAX_ROWS}),
)  # fmt: skip


def fleet_paths(schema: Mapping[type, Schema]) -> Schema:
    """Return the paths."""
    return {
        "/v1/version": {
            "get": operation(
                "getVersion", "Read the version of the state, which changes whenever another answer may change",
                schema, (400, 401, 405, 503), StateVersion, examples.version(),
            )
        },
        "/v1/fleet": {
            "get": operation(
                "getFleet", "Read all clusters, and what is assigned to them", schema, (400, 401, 405, 503),
                FleetView, examples.fleet(),
            )
        },
        "/v1/workloads": {
            "get": operation(
                "listWorkloads", "List workloads, and where they are", schema, (400, 401, 405, 409, 503),
                WorkloadPage, examples.workloads(), parameters=[*_LIST],
            ),
            "post": operation(
                "queryWorkloads", "List workloads by a query that may be too long for a request line", schema,
                (400, 401, 405, 408, 409, 413, 415, 503), WorkloadPage, examples.workloads(),
                body=request_body(
                    JSON, schema[WorkloadQuery], {"of two namespaces": {"namespaces": ["default", "shop"]}}
                ),
            ),
        },
    }  # fmt: skip
