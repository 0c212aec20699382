"""The control plane that the controllers work on: its version, the release of its definitions, fields that are new.

Karmada's API server does not name the release of Karmada. The definitions of bindings do: each release added fields.
"""

import logging
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from berthmaster.kube.client import APIClient, ask, ask_if_found
from berthmaster.kube.openapi import openapi_request, schemas_of, subschema
from berthmaster.kube.requests import APIRequest
from berthmaster.kube.responses import decode_response
from berthmaster.model.errors import ApiError
from berthmaster.model.placement import Placement
from berthmaster.model.releases import KarmadaReleases
from berthmaster.model.unknown_fields import struct_shape
from berthmaster.runtime.logs import fields

BINDING_API: Final = "work.karmada.io/v1alpha2"
UNKNOWN: Final = "unknown"
_PLACEMENT: Final = "spec.placement"
_NEWEST: Final = (999, 0)
_LOG: Final = logging.getLogger("berthmaster.controllers")


class _Mark(NamedTuple):
    """A field of a binding, and the releases whose definitions have it."""

    path: str
    text: str
    releases: KarmadaReleases


_MARKS: Final = (
    _Mark("spec.clusters.components", "newer than 1.19.0-rc.0", KarmadaReleases((1, 19), _NEWEST)),
    _Mark(
        f"{_PLACEMENT}.clusterAffinities.overflowAffinities",
        "1.18 or 1.19.0-rc.0",
        KarmadaReleases((1, 18), (1, 19)),
    ),
    _Mark("spec.workloadAffinityGroups", "1.17", KarmadaReleases((1, 17), (1, 17))),
    _Mark("spec.components", "1.15 or 1.16", KarmadaReleases((1, 15), (1, 16))),
)
"""The newest comes first."""


class KarmadaTarget(NamedTuple):
    """What is known about a control plane.

    Attributes:
        kubernetes: the version of its API server.
        karmada: the release of the definitions of bindings.
        unknown_fields: the fields of placements in these definitions that this version does not know, by path.
    """

    kubernetes: str
    karmada: str
    unknown_fields: tuple[str, ...] = ()


class _TargetVersion(msgspec.Struct, frozen=True, rename="camel"):
    git_version: str = UNKNOWN


def read_target(client: APIClient) -> KarmadaTarget:
    """Read the version of an API server, and the schema of bindings."""
    version = decode_response(_TargetVersion, ask(client, APIRequest("/version")), "GET /version")
    body = ask_if_found(client, openapi_request(BINDING_API))
    if body is None:
        return KarmadaTarget(version.git_version, UNKNOWN)
    document = decode_response(dict[str, Any], body, f"the schemas of {BINDING_API}")
    schema = dict(schemas_of(document, BINDING_API)).get("ResourceBinding")
    if schema is None:
        return KarmadaTarget(version.git_version, UNKNOWN)
    return KarmadaTarget(version.git_version, release_of(schema), unknown_placement_fields(schema))


def release_of(schema: Mapping[str, Any]) -> str:
    """Return the releases of Karmada that have this schema of bindings."""
    mark = _mark_of(schema)
    return "older than 1.15" if mark is None else mark.text


def releases_served(client: APIClient) -> KarmadaReleases | None:
    """Return the releases that a control plane may have, by its definitions; None if they do not say it."""
    try:
        body = ask_if_found(client, openapi_request(BINDING_API))
    except ApiError:
        return None
    if body is None:
        return None
    document = decode_response(dict[str, Any], body, f"the schemas of {BINDING_API}")
    schema = dict(schemas_of(document, BINDING_API)).get("ResourceBinding")
    mark = None if schema is None else _mark_of(schema)
    return None if mark is None else mark.releases


def _mark_of(schema: Mapping[str, Any]) -> _Mark | None:
    return next((each for each in _MARKS if subschema(schema, each.path) is not None), None)


def unknown_placement_fields(schema: Mapping[str, Any], path: str = _PLACEMENT) -> tuple[str, ...]:
    """Return the placement fields of a schema that this version does not know, by path."""
    placement = subschema(schema, path)
    return () if placement is None else tuple(_unknown(Placement, placement, path))


def report_target(client: APIClient) -> None:
    """Log what is known about a control plane, and set its metrics. A failure is logged, and nothing else."""
    # The doctor reads schemas with this module, and needs no metrics.
    from berthmaster.controllers.metrics import TARGET, TARGET_UNKNOWN_FIELDS  # noqa: PLC0415

    try:
        target = read_target(client)
    except ApiError as error:
        _LOG.warning("the version of the control plane cannot be read: %s", error)
        return
    TARGET.clear()
    TARGET.labels(target.kubernetes, target.karmada).set(1)
    TARGET_UNKNOWN_FIELDS.set(len(target.unknown_fields))
    _LOG.info(
        "connected to the control plane", extra=fields(kubernetes=target.kubernetes, karmada_definitions=target.karmada)
    )
    if target.unknown_fields:
        _LOG.warning(
            "the definitions of Karmada have placement fields that this version does not know; see --unknown-fields",
            extra=fields(unknown_fields=", ".join(target.unknown_fields)),
        )


def _unknown(kind: type[msgspec.Struct], schema: Mapping[str, Any], path: str) -> list[str]:
    known, nested = struct_shape(kind)
    properties = schema.get("properties") or {}
    found = [f"{path}.{name}" for name in properties if name not in known]
    for name, struct in nested.items():
        inner = subschema(schema, name)
        if inner is not None:
            found += _unknown(struct, inner, f"{path}.{name}")
    return found
