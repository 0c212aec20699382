"""Custom resources: whether they are served, with the fields that the code needs."""

from collections.abc import Iterator, Mapping
from typing import Any

from berthmaster_cli.doctor.facts import Facts, Kinds, Unknown
from berthmaster_cli.doctor.fields import KINDS, Field, Kind
from berthmaster_cli.doctor.finding import Finding, failed, ok, skipped, warning

_NOT_FOUND = 404


def definitions(facts: Facts) -> Iterator[Finding]:
    """One finding for each kind."""
    for kind in KINDS:
        served = facts.kinds.get(kind.api_version)
        if served is not None:
            yield _kind(kind, served, facts.setup.target)


def _kind(kind: Kind, served: Kinds | Unknown, kubectl: str) -> Finding:
    check = f"definitions/{kind.plural}"
    name = f"{kind.kind} ({kind.api_version})"
    if isinstance(served, Unknown) and served.status != _NOT_FOUND:
        return failed(check, f"{name} cannot be looked at: {served.problem}", _aggregation(kind, kubectl))
    if isinstance(served, Unknown) or kind.plural not in served.plurals:
        told = f"the API server serves no {name}"
        if kind.without:
            return warning(check, f"{told}: without it there is no {kind.without}", _install(kind, kubectl))
        return failed(check, told, _install(kind, kubectl))
    schema = served.schemas.get(kind.kind)
    if schema is None:
        return skipped(check, f"{name} is served, and its fields are not published")
    missing = [field for field in kind.fields if not _has(schema, field.path)]
    return _fields(check, name, missing, kubectl)


def _fields(check: str, name: str, missing: list[Field], kubectl: str) -> Finding:
    if not missing:
        return ok(check, f"{name} is served with all fields that are needed")
    told = f"{name} has no {', '.join(field.path for field in missing)}"
    remedy = f"Apply the definitions of the Karmada release that runs: {_apply(kubectl)}"
    if any(not field.without for field in missing):
        return failed(check, told, remedy)
    lost = ", ".join(dict.fromkeys(field.without for field in missing))
    return warning(check, f"{told}: without it there is no {lost}", remedy)


def _install(kind: Kind, kubectl: str) -> str:
    if kind.kind == "Cluster":
        return _aggregation(kind, kubectl)
    return f"Install Karmada's definitions, or name its API server with --target-kubeconfig: {_apply(kubectl)}"


def _aggregation(kind: Kind, kubectl: str) -> str:
    """Clusters are served by another server than the rest, which can be away while that answers."""
    if kind.kind != "Cluster":
        return f"See why the API server refuses: {kubectl} get --raw /apis/{kind.api_version}"
    group, _, version = kind.api_version.partition("/")
    return f"See why karmada-aggregated-apiserver is away: {kubectl} get apiservice {version}.{group} -o yaml"


def _apply(kubectl: str) -> str:
    return f"{kubectl} apply --server-side -R -f karmada/charts/karmada/_crds/bases"


def _has(schema: Mapping[str, Any], path: str) -> bool:
    """Whether a schema has a field, or does not say what it has."""
    node: Any = schema
    for name in path.split("."):
        while isinstance(node, dict) and "items" in node:
            node = node["items"]
        if not isinstance(node, dict):
            return False
        properties = node.get("properties") or {}
        if name not in properties:
            return bool(node.get("x-kubernetes-preserve-unknown-fields"))
        node = properties[name]
    return True
