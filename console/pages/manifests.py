"""Objects in YAML, as pages show them: without what programs wrote into their metadata."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import yaml

_WRITTEN_BY_PROGRAMS: Final = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields")
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


def yaml_lines(document: Mapping[str, Any]) -> Sequence[str]:
    metadata = {name: each for name, each in document.get("metadata", {}).items() if name not in _WRITTEN_BY_PROGRAMS}
    if "annotations" in metadata:
        metadata["annotations"] = {
            name: each for name, each in metadata["annotations"].items() if name != _LAST_APPLIED
        }
    text: str = yaml.safe_dump({**document, "metadata": metadata}, sort_keys=False, allow_unicode=True)
    return text.splitlines()
