"""Derive the fields and feature gates of Karmada's releases from a clone of its repository.

Run ``make compatibility KARMADA=/path/to/karmada`` when a release is out. It writes ``karmada.json``, which the tests
of the matrix read: a field that no row covers fails them.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

TARGET = Path(__file__).with_name("karmada.json")
# The newest version of each release that the clone must have, by the release's name. The last one is no release yet.
SOURCES = {
    "1.15": "v1.15.9",
    "1.16": "v1.16.8",
    "1.17": "v1.17.5",
    "1.18": "v1.18.2",
    "1.19-rc.0": "v1.19.0-rc.0",
    "master": "f8fdd02df",
}
_API = "com.github.karmada-io.karmada.pkg.apis."
ROOTS = {
    "placement": f"{_API}policy.v1alpha1.Placement",
    "binding.spec": f"{_API}work.v1alpha2.ResourceBindingSpec",
    "binding.status": f"{_API}work.v1alpha2.ResourceBindingStatus",
    "cluster.spec": f"{_API}cluster.v1alpha1.ClusterSpec",
    "cluster.status": f"{_API}cluster.v1alpha1.ClusterStatus",
}
_DESCENDED = ("LabelSelector", "LabelSelectorRequirement", "Toleration", "Taint", "FieldSelector")
"""Types of Kubernetes whose fields scheduling reads one by one."""
_GATE = re.compile(r"^\s*(\w+):\s+\{Default: (true|false), PreRelease: featuregate\.(\w+)\}", re.MULTILINE)
_GATE_NAME = re.compile(r'^\s*(\w+)(?: featuregate\.Feature)? = "(\w+)"', re.MULTILINE)


def main(clone: str) -> None:
    fields: dict[str, list[str]] = {}
    gates: dict[str, dict[str, bool]] = {}
    for release, commit in SOURCES.items():
        for field in fields_of(json.loads(shown(clone, commit, "api/openapi-spec/swagger.json"))["definitions"]):
            fields.setdefault(field, []).append(release)
        for gate, default in gates_of(shown(clone, commit, "pkg/features/features.go")):
            gates.setdefault(gate, {})[release] = default
    found = {"releases": SOURCES, "fields": dict(sorted(fields.items())), "gates": dict(sorted(gates.items()))}
    TARGET.write_text(json.dumps(found, indent=1) + "\n")


def shown(clone: str, commit: str, path: str) -> str:
    command = ["git", "-C", clone, "show", f"{commit}:{path}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603 - a fixed command


def fields_of(definitions: Mapping[str, Any]) -> Iterator[str]:
    """Yield the path of each field. A list ends with ``[]``, a map with ``{}``."""
    for root, name in ROOTS.items():
        for path in _walk(definitions, name, root, ()):
            # The placement of a binding is the one of its policy.
            if not path.startswith("binding.spec.placement."):
                yield path


def _walk(definitions: Mapping[str, Any], name: str, prefix: str, above: tuple[str, ...]) -> Iterator[str]:
    for key, schema in definitions[name].get("properties", {}).items():
        suffix, inner = "", schema
        while "items" in inner or "additionalProperties" in inner:
            suffix += "[]" if "items" in inner else "{}"
            inner = inner.get("items") or inner["additionalProperties"]
        path = f"{prefix}.{key}{suffix}"
        reference = inner.get("$ref") or next((each["$ref"] for each in inner.get("allOf", ())), "")
        kind = reference.rpartition("/")[2]
        descended = kind.startswith(_API) or kind.rpartition(".")[2] in _DESCENDED
        if descended and kind not in above:
            yield from _walk(definitions, kind, path, (*above, kind))
        else:
            yield path


def gates_of(source: str) -> Iterator[tuple[str, bool]]:
    names = dict(_GATE_NAME.findall(source))
    for constant, default, _ in _GATE.findall(source):
        if constant in names:
            yield names[constant], default == "true"


if __name__ == "__main__":
    main(sys.argv[1])
