"""Leaves out of a dump what a bug report must not hold, and keeps what decisions depend on.

Names, namespaces and labels stay, because policies select by them. References to Secrets and ConfigMaps stay as names,
because such objects follow the workloads that use them.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from berthmaster.model.control_planes import CONTROL_PLANES, DOMAINS, Role, is_owned
from berthmaster.model.kinds import group_of
from berthmaster.model.replicas import type_of

# Prefixes of annotations that control planes write or read. All other annotations are left out.
_OWNERS: Final = (*DOMAINS, "berthmaster.io")
_HOLDS_TEMPLATE: Final = frozenset(name for plane in CONTROL_PLANES for name in plane.template_annotations)
_WITH_TEMPLATES: Final = tuple(plane for plane in CONTROL_PLANES if plane.binds_templates)
_HOLDING_BINDINGS: Final = frozenset(
    each.kind for plane in _WITH_TEMPLATES for each in plane.read if each.role is Role.BINDING
)
# The fields of a container that decisions depend on.
_CONTAINER_FIELDS: Final = frozenset({"name", "resources", "restartPolicy", "env", "envFrom"})
_CONTAINERS: Final = frozenset({"containers", "initContainers", "ephemeralContainers"})
# In other objects, fields with these names are left out wherever they stand.
_SENSITIVE: Final = frozenset({
    "args", "binaryData", "clientConfig", "command", "data", "dnsConfig", "externalIPs", "externalName", "host",
    "hostAliases", "hostname", "hosts", "image", "lifecycle", "livenessProbe", "loadBalancerIP",
    "loadBalancerSourceRanges", "managedFields", "readinessProbe", "startupProbe", "stringData", "subdomain", "url",
    "workingDir",
})  # fmt: skip
# Fields of custom resources with such names hold a credential if their value is a text.
_CREDENTIAL: Final = re.compile(
    r"passw|passphrase|token|credential|(api|access|auth|private|secret)[-_]?key$", re.IGNORECASE
)
_VOLUME: Final = ("v1", "PersistentVolume")
# The fields of a PersistentVolume that do not say where its data is.
_VOLUME_FIELDS: Final = frozenset({"accessModes", "capacity", "claimRef", "storageClassName", "volumeMode"})
_NAMES: Final = frozenset({"name", "namespace", "secretName", "secretNamespace", "claimName", "optional"})
_CONNECTIONS: Final = frozenset({"apiEndpoint", "proxyURL", "proxyHeader", "secretRef", "impersonatorSecretRef"})
_DATA_KINDS: Final = frozenset({("v1", "ConfigMap"), ("v1", "Secret")})
# The fields of an override that say what it changes, and not to what.
_OVERRIDE_FIELDS: Final = frozenset({
    "component", "containerName", "fieldPath", "json", "operator", "path", "predicate", "subPath", "yaml",
})  # fmt: skip
_MESSAGES: Final = frozenset({"message", "appliedMessage"})
_IDENTITY: Final = ("apiVersion", "kind", "metadata", "type")


def redacted(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object without what a bug report must not hold: see the module.

    Environments, commands, images, data, addresses, values of overrides, messages of conditions, and annotations of
    other owners are left out.
    """
    identity = type_of(raw)
    if identity in _DATA_KINDS:
        result = {key: raw[key] for key in _IDENTITY if key in raw}
    elif identity == _VOLUME:
        result = _volume(raw)
    else:
        result = _BY_GROUP.get(group_of(identity[0]), _template)(raw)
    if isinstance(result.get("status"), dict):
        result["status"] = _without_messages(result["status"])
    return {**result, "metadata": _metadata(raw.get("metadata"))}


def _metadata(metadata: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON value
    kept = {key: value for key, value in (metadata or {}).items() if key not in {"annotations", "managedFields"}}
    annotations = (metadata or {}).get("annotations")
    if isinstance(annotations, dict):
        kept["annotations"] = {key: value for key, value in annotations.items() if _is_kept(key)}
    return kept


def _is_kept(annotation: str) -> bool:
    return is_owned(annotation, _OWNERS) and annotation not in _HOLDS_TEMPLATE


def _template(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Redact a resource template. Its status says nothing that a decision depends on."""
    return {key: _value(key, value) for key, value in raw.items() if key != "status" and key not in _SENSITIVE}


def _volume(raw: Mapping[str, Any]) -> dict[str, Any]:
    spec = raw.get("spec")
    kept = {key: value for key, value in spec.items() if key in _VOLUME_FIELDS} if isinstance(spec, dict) else None
    return {**{key: raw[key] for key in _IDENTITY if key in raw}, "spec": kept}


def _interpreter(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Redact a customization of the interpreter, whose scripts decide, or an address of a webhook."""
    return dict(raw) if raw.get("kind") == "ResourceInterpreterCustomization" else _template(raw)


def _cluster(raw: Mapping[str, Any]) -> dict[str, Any]:
    spec = raw.get("spec")
    kept = {key: value for key, value in spec.items() if key not in _CONNECTIONS} if isinstance(spec, dict) else spec
    return {**raw, "spec": kept}


def _own(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Redact an object of a control plane whose bindings hold templates: clusters, and what these bindings hold."""
    result = _cluster(raw)
    spec = result["spec"]
    if raw.get("kind") in _HOLDING_BINDINGS and isinstance(spec, dict):
        template = spec.get("template")
        inner = {"template": redacted(template)} if isinstance(template, dict) else {}
        result["spec"] = {**{key: _value(key, value) for key, value in spec.items() if key != "template"}, **inner}
    return result


def _binding(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Redact a binding, in which members report the status of the workload, or a Work with its manifests."""
    spec = raw.get("spec")
    if isinstance(spec, dict):
        raw = {**raw, "spec": _work(spec) if raw.get("kind") == "Work" else _without_messages(spec)}
    status = raw.get("status")
    if not isinstance(status, dict) or not isinstance(status.get("aggregatedStatus"), list):
        return dict(raw)
    items = [
        {key: value for key, value in each.items() if key not in {"status", "appliedMessage"}}
        for each in status["aggregatedStatus"]
        if isinstance(each, dict)
    ]
    return {**raw, "status": {**status, "aggregatedStatus": items}}


def _work(spec: Mapping[str, Any]) -> dict[str, Any]:
    workload = spec.get("workload")
    manifests = workload.get("manifests") if isinstance(workload, dict) else None
    if not isinstance(manifests, list):
        return {key: value for key, value in spec.items() if key != "workload"}
    return {**spec, "workload": {"manifests": [redacted(each) for each in manifests if isinstance(each, dict)]}}


def _policy(raw: Mapping[str, Any]) -> dict[str, Any]:
    spec = raw.get("spec")
    if raw.get("kind") not in {"OverridePolicy", "ClusterOverridePolicy"} or not isinstance(spec, dict):
        return dict(raw)
    rules = spec.get("overrideRules")
    kept = {**spec, "overrideRules": [_rule(each) for each in rules]} if isinstance(rules, list) else spec
    return {**raw, "spec": _rule(kept)}


_BY_GROUP: Final[Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]]] = {
    "berthmaster.io": dict,
    "cluster.karmada.io": _cluster,
    "config.karmada.io": _interpreter,
    "policy.karmada.io": _policy,
    "work.karmada.io": _binding,
    **{group: _own for plane in _WITH_TEMPLATES for group in plane.kinds},
}


def _rule(rule: Any) -> Any:  # noqa: ANN401 - any JSON value
    if not isinstance(rule, dict) or "overriders" not in rule:
        return rule
    overriders = rule["overriders"]
    kept = {name: _overrides(each) for name, each in overriders.items()} if isinstance(overriders, dict) else None
    return {**rule, "overriders": kept}


def _overrides(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Keep the places that overrides change, and values that are numbers of replicas."""
    if isinstance(value, list):
        return [_overrides(each) for each in value]
    if not isinstance(value, dict):
        return None
    kept = {
        key: _overrides(inner) if isinstance(inner, dict | list) else inner
        for key, inner in value.items()
        if key in _OVERRIDE_FIELDS
    }
    return {**kept, **{key: inner for key, inner in _patch(value).items() if key == "value"}}


def _without_messages(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(value, list):
        return [_without_messages(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: _without_messages(inner) for key, inner in value.items() if key not in _MESSAGES}


def _value(name: str, value: Any) -> Any:  # noqa: ANN401 - any JSON value
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
    return {key: _value(key, inner) for key, inner in value.items() if not _is_sensitive(key, inner)}


def _is_sensitive(key: str, value: Any) -> bool:  # noqa: ANN401 - any JSON value
    return key in _SENSITIVE or (isinstance(value, str) and _CREDENTIAL.search(key) is not None)


def _container(container: Any) -> Any:  # noqa: ANN401 - any JSON value
    if not isinstance(container, dict):
        return None
    return {key: _value(key, value) for key, value in container.items() if key in _CONTAINER_FIELDS}


def _patch(patch: Mapping[str, Any]) -> dict[str, Any]:
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
    if isinstance(value, list):
        return [_references(each) for each in value]
    if not isinstance(value, dict):
        return None
    return {
        key: inner if key in _NAMES else _references(inner)
        for key, inner in value.items()
        if key in _NAMES or isinstance(inner, dict | list)
    }
