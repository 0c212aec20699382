"""The schemas that an API server publishes in OpenAPI documents."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from berthmaster.kube.requests import APIRequest

_REFERENCE: Final = "#/components/schemas/"
_MAX_DEPTH: Final = 24
"""Twice the depth of a placement. A schema that refers to itself would be resolved forever."""


def openapi_request(api_version: str) -> APIRequest:
    return APIRequest(f"/openapi/v3/apis/{api_version}")


def schemas_of(document: Mapping[str, Any], api_version: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each kind of an API version in an OpenAPI document with its schema, whose references are resolved."""
    group, _, version = api_version.partition("/")
    schemas = (document.get("components") or {}).get("schemas") or {}
    for schema in schemas.values():
        for kind in schema.get("x-kubernetes-group-version-kind") or []:
            if (kind.get("group"), kind.get("version")) == (group, version):
                yield str(kind.get("kind")), _resolved(schema, schemas, _MAX_DEPTH)


def subschema(schema: Mapping[str, Any], path: str) -> Mapping[str, Any] | None:
    """Return the schema of a field, or of the items of a list; None if it does not exist. Paths name no indexes."""
    node: Any = schema
    for name in path.split("."):
        node = ((node or {}).get("properties") or {}).get(name)
        while isinstance(node, dict) and "items" in node:
            node = node["items"]
        if not isinstance(node, dict):
            return None
    found: Mapping[str, Any] = node
    return found


def _resolved(schema: Any, schemas: Mapping[str, Any], depth: int) -> Any:  # noqa: ANN401 - any JSON value
    if depth == 0 or not isinstance(schema, dict):
        return schema
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return _resolved(schemas.get(reference.removeprefix(_REFERENCE)), schemas, depth - 1)
    parts = schema.get("allOf")
    if isinstance(parts, list) and len(parts) == 1:  # a reference that has a default beside it
        return _resolved(parts[0], schemas, depth - 1)
    result = dict(schema)
    if isinstance(properties := schema.get("properties"), dict):
        result["properties"] = {name: _resolved(each, schemas, depth - 1) for name, each in properties.items()}
    if "items" in schema:
        result["items"] = _resolved(schema["items"], schemas, depth - 1)
    return result
