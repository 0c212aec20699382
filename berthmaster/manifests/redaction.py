"""Leaves out of a dump what a bug report must not hold, and keeps what decisions depend on.

Names, namespaces and labels stay, because policies select by them. References to Secrets and ConfigMaps stay as names,
because such objects follow the workloads that use them.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from berthmaster.model.kinds import group_of

# Prefixes of annotations that control planes write or read. All other annotations are left out.
_CONTROL_PLANES: Final = ("karmada.io", "kubeadmiral.io", "berthmaster.io")
# An annotation of KubeAdmiral that holds a part of the template.
_HOLDS_TEMPLATE: Final = "kubeadmiral.io/template-generator-merge-patch"
# The fields of a container that decisions depend on.
_CONTAINER_FIELDS: Final = frozenset({"name", "resources", "restartPolicy", "env", "envFrom"})
_CONTAINERS: Final = frozenset({"containers", "initContainers", "ephemeralContainers"})
# In other objects, fields with these names are left out wherever they stand.
_SENSITIVE: Final = frozenset({
    "args", "binaryData", "command", "data", "image", "lifecycle", "livenessProbe", "managedFields", "readinessProbe",
    "startupProbe", "stringData", "workingDir",
})  # fmt: skip
_NAMES: Final = frozenset({"name", "namespace", "secretName", "secretNamespace", "claimName", "optional"})
_CONNECTIONS: Final = frozenset({"apiEndpoint", "proxyURL", "proxyHeader", "secretRef", "impersonatorSecretRef"})
_DATA_KINDS: Final = frozenset({("v1", "ConfigMap"), ("v1", "Secret")})
_IDENTITY: Final = ("apiVersion", "kind", "metadata", "type")


def redacted(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object without environments, commands, images, data, addresses, and annotations of other owners."""
    identity = (str(raw.get("apiVersion")), str(raw.get("kind")))
    if identity in _DATA_KINDS:
        result = {key: raw[key] for key in _IDENTITY if key in raw}
    else:
        result = _BY_GROUP.get(group_of(identity[0]), _template)(raw)
    return {**result, "metadata": _metadata(raw.get("metadata"))}


def _metadata(metadata: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON value
    kept = {key: value for key, value in (metadata or {}).items() if key not in {"annotations", "managedFields"}}
    annotations = (metadata or {}).get("annotations")
    if isinstance(annotations, dict):
        kept["annotations"] = {key: value for key, value in annotations.items() if _is_kept(key)}
    return kept


def _is_kept(annotation: str) -> bool:
    prefix = annotation.partition("/")[0]
    owned = any(prefix == each or prefix.endswith(f".{each}") for each in _CONTROL_PLANES)
    return owned and annotation != _HOLDS_TEMPLATE


def _template(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Redact a resource template. Its status says nothing that a decision depends on."""
    return {key: _value(key, value) for key, value in raw.items() if key != "status" and key not in _SENSITIVE}


def _cluster(raw: Mapping[str, Any]) -> dict[str, Any]:
    spec = raw.get("spec")
    kept = {key: value for key, value in spec.items() if key not in _CONNECTIONS} if isinstance(spec, dict) else spec
    return {**raw, "spec": kept}


def _federation(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Redact an object of KubeAdmiral: clusters, and templates with overrides inside FederatedObjects."""
    result = _cluster(raw)
    spec = result["spec"]
    if str(raw.get("kind")).endswith("FederatedObject") and isinstance(spec, dict):
        template = spec.get("template")
        inner = {"template": redacted(template)} if isinstance(template, dict) else {}
        result["spec"] = {**{key: _value(key, value) for key, value in spec.items() if key != "template"}, **inner}
    return result


def _binding(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Redact a binding: members report the status of the workload in it."""
    status = raw.get("status")
    if not isinstance(status, dict) or not isinstance(status.get("aggregatedStatus"), list):
        return dict(raw)
    items = [
        {key: value for key, value in each.items() if key not in {"status", "appliedMessage"}}
        for each in status["aggregatedStatus"]
        if isinstance(each, dict)
    ]
    return {**raw, "status": {**status, "aggregatedStatus": items}}


def _unchanged(raw: Mapping[str, Any]) -> dict[str, Any]:
    return dict(raw)


def _value(name: str, value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Redact the value of a field."""
    if name == "annotations":
        return {key: text for key, text in value.items() if _is_kept(key)} if isinstance(value, dict) else None
    if name == "env":
        return _environment(value)
    if name in {"envFrom", "volumes"}:
        return _references(value)
    if isinstance(value, list):
        return [_container(each) if name in _CONTAINERS else _value("", each) for each in value]
    if not isinstance(value, dict):
        return value
    if name == "patches" or {"op", "path"} <= value.keys():
        return _patch(value)
    return {key: _value(key, inner) for key, inner in value.items() if key not in _SENSITIVE}


def _container(container: Any) -> Any:  # noqa: ANN401 - any JSON value
    if not isinstance(container, dict):
        return None
    return {key: _value(key, value) for key, value in container.items() if key in _CONTAINER_FIELDS}


def _patch(patch: Mapping[str, Any]) -> dict[str, Any]:
    """Keep the value of an override only where it is a number of replicas."""
    keeps = str(patch.get("path")).endswith("/replicas") and isinstance(patch.get("value"), int)
    return {key: value for key, value in patch.items() if key != "value" or keeps}


def _environment(variables: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Keep which Secrets and ConfigMaps the variables refer to."""
    if not isinstance(variables, list):
        return None
    sources = (each.get("valueFrom") for each in variables if isinstance(each, dict))
    return [
        {"name": f"redacted-{number}", "valueFrom": _references(source)}
        for number, source in enumerate(sources)
        if isinstance(source, dict)
    ]


def _references(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Keep the structure and the names of references."""
    if isinstance(value, list):
        return [_references(each) for each in value]
    if not isinstance(value, dict):
        return None
    return {
        key: inner if key in _NAMES else _references(inner)
        for key, inner in value.items()
        if key in _NAMES or isinstance(inner, dict | list)
    }


_BY_GROUP: Final[Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]]] = {
    "berthmaster.io": _unchanged,
    "cluster.karmada.io": _cluster,
    "config.karmada.io": _unchanged,
    "core.kubeadmiral.io": _federation,
    "policy.karmada.io": _unchanged,
    "work.karmada.io": _binding,
}
