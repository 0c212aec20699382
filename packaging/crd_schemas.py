"""Write what the CustomResourceDefinitions demand of an object to the table that lint reads.

    python packaging/crd_schemas.py FOLDER

FOLDER has the definitions of Karmada and KubeAdmiral, such as ``charts/karmada/_crds/bases`` of Karmada. The table has
the constraints and the defaults of each kind, without descriptions. A keyword that the evaluator of the table does not
know is an error.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from webhook.admission.schema import TABLE, decoded

KINDS: Final = {
    "policy.karmada.io": {"PropagationPolicy", "ClusterPropagationPolicy"},
    "apps.karmada.io": {"WorkloadRebalancer"},
    "core.kubeadmiral.io": {"PropagationPolicy", "ClusterPropagationPolicy", "FederatedCluster"},
}
_WITHOUT_EFFECT: Final = {"description", "x-kubernetes-map-type"}
"""Keywords that demand nothing of an object."""
_NESTED: Final = {"items", "additionalProperties"}
_STRING: Final = {"type": "string"}
_OBJECT: Final = {"type": "object"}
_STRINGS: Final = {**_OBJECT, "additionalProperties": _STRING}
_TIME: Final = {**_STRING, "format": "date-time"}
_OWNER: Final = {
    **dict.fromkeys(("apiVersion", "kind", "name", "uid"), _STRING),
    **{name: {"type": "boolean"} for name in ("controller", "blockOwnerDeletion")},
}
_METADATA: Final = {
    **_OBJECT,
    "properties": {
        **dict.fromkeys(("name", "generateName", "namespace", "selfLink", "uid", "resourceVersion"), _STRING),
        **{name: {"type": "integer"} for name in ("generation", "deletionGracePeriodSeconds")},
        **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), _TIME),
        **dict.fromkeys(("labels", "annotations"), _STRINGS),
        "finalizers": {"type": "array", "items": _STRING},
        "ownerReferences": {"type": "array", "items": {**_OBJECT, "properties": _OWNER}},
        "managedFields": {"type": "array", "items": {**_OBJECT, "x-kubernetes-preserve-unknown-fields": True}},
    },
}
"""The types of ``metadata`` (apimachinery ``meta/v1`` ObjectMeta), which a definition does not state."""


def table(folder: Path) -> dict[str, Any]:
    """Return the schemas of the definitions of a folder, by ``GROUP/VERSION KIND``."""
    found = {"ObjectMeta": _METADATA}
    found |= {name: schema for path in sorted(folder.rglob("*.yaml")) for name, schema in _schemas(path)}
    decoded(json.dumps(found).encode())  # refuses an unknown keyword
    return dict(sorted(found.items()))


def text(schemas: Mapping[str, Any]) -> str:
    """Return the table as it is stored: one line for a kind. Equal schemas are stored once."""
    first: dict[str, str] = {}
    lines = []
    for name, schema in schemas.items():
        body = json.dumps(schema, sort_keys=True, separators=(",", ":"))
        lines.append(f"{json.dumps(name)}: {json.dumps(first[body]) if body in first else body}")
        first.setdefault(body, name)
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _schemas(path: Path) -> Iterator[tuple[str, Any]]:
    for document in yaml.safe_load_all(path.read_text()):
        if not document or document.get("kind") != "CustomResourceDefinition":
            continue
        spec = document["spec"]
        group, kind = spec["group"], spec["names"]["kind"]
        for version in spec["versions"] if kind in KINDS.get(group, ()) else ():
            root = _constraints(version["schema"]["openAPIV3Schema"])
            del root["properties"]["metadata"]  # every kind has that of Kubernetes
            if "status" in (version.get("subresources") or {}):
                root["properties"]["status"] = _names(root["properties"]["status"])  # dropped after its fields are read
            yield f"{group}/{version['name']} {kind}", root


def _constraints(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema without what demands nothing."""
    kept: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in _WITHOUT_EFFECT or (keyword, value) == ("x-kubernetes-list-type", "atomic"):
            continue
        if keyword == "properties":
            kept[keyword] = {name: _constraints(each) for name, each in value.items()}
        else:
            kept[keyword] = _constraints(value) if keyword in _NESTED else value
    return kept


def _names(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the names of the fields of a schema, without any constraint."""
    kept: dict[str, Any] = {name: _names(schema[name]) for name in _NESTED if name in schema}
    if "properties" in schema:
        kept["properties"] = {name: _names(each) for name, each in schema["properties"].items()}
    return kept


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    TABLE.write_text(text(table(Path(sys.argv[1]))))
