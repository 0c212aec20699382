"""What people keep beside manifests: files and documents that no API server stores, and how they become objects.

Commands pass over them with a note. A file that is meant to be a manifest, and is not one, stays an error.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path, PurePath
from typing import Any, Final

from berthmaster.manifests.heads import is_list, required_errors
from berthmaster.model.kinds import group_of, scope_of
from berthmaster.model.unknown_types import unknown_type

_KUSTOMIZE: Final = "kustomize.config.k8s.io"
_INIT: Final = ("config.karmada.io", "KarmadaInitConfig")
TEST_GROUP: Final = "test.berthmaster.io"
PLACEMENT_TEST: Final = "PlacementTest"
"""The kind of the files of ``berthmaster test``, which no API server stores."""
_KUSTOMIZATIONS: Final = ("kustomization.yaml", "kustomization.yml")
_CHART: Final = "Chart.yaml"
_TEMPLATES: Final = "templates"
_MARK: Final = b"{{"
_API_VERSION: Final = b"apiVersion"
_NEXT_DOCUMENT: Final = b"---"
_COMMENTS: Final = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_LAST_COMMA: Final = re.compile(r",(\s*[}\]])")
_MAX_COMMENTED: Final = 2**20
# A tag, as CloudFormation and MkDocs use them. Another broken file may be a manifest that was cut off.
_TAG: Final = re.compile(rb"(?:^|[\s\[{,:-])!{1,2}[A-Za-z]")


class Foreign(Enum):
    """What a file or a document is, and how to make objects of it. Each text follows its name."""

    KUSTOMIZATION = "is a kustomization; render it with `kubectl kustomize`, or name its folder with -k"
    CHART = "is a part of a Helm chart; render the chart with `helm template`"
    TEMPLATE = "is a template ({{ in its text); render it first, for example with `helm template`"
    INSTALLATION = "is a configuration of `karmadactl init`, and no object"
    CONFIGURATION = "is a configuration without metadata, and no object"
    COMMENTED_JSON = "is JSON with comments, which kubectl does not read"
    BINARY = "is no text, and no Kubernetes object"
    UNREADABLE = "is no Kubernetes object, and no YAML that kubectl reads"
    NO_MAPPING = "is no Kubernetes object: it is no mapping"
    NO_API_VERSION = "is no Kubernetes object: it has no apiVersion"
    NO_KIND = "is no Kubernetes object: it has no kind"
    COMMENTS = "has only comments"
    GENERATED = "has a generateName, and gets its name when it is created; write metadata.name to see where it goes"


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A file or a document that is not read. ``number`` is that of the document, from 1; 0 for the whole file."""

    source: str
    what: Foreign
    number: int = 0


def foreign_file(source: str, data: bytes) -> Foreign | None:
    """Return what a whole file is, before it is parsed; None if its documents decide."""
    path = PurePath(source)
    if _is_commented_out(data) and Path(path).is_file():  # what a program prints without objects is an empty input
        return Foreign.COMMENTS
    if path.name in _KUSTOMIZATIONS:
        return Foreign.KUSTOMIZATION
    if path.name == _CHART:
        return Foreign.CHART
    if path.name.startswith("values") and _is_chart(path.parent):
        return Foreign.CHART
    if _MARK in data and any(each.name == _TEMPLATES and _is_chart(each.parent) for each in path.parents):
        return Foreign.TEMPLATE
    return None


def foreign_broken_file(source: str, data: bytes, *, found: bool) -> Foreign | None:
    """Return what a file is that is neither YAML nor JSON; None if it is a manifest with an error.

    ``found``: whether the file was found in a folder. A file that the user names is meant to be a manifest.
    """
    if b"\0" in data:
        return Foreign.BINARY
    if _MARK in data:
        return Foreign.TEMPLATE
    if source.endswith(".json") and len(data) <= _MAX_COMMENTED and _is_commented_json(data):
        return Foreign.COMMENTED_JSON
    is_other = _API_VERSION not in data and _TAG.search(data) is not None
    return Foreign.UNREADABLE if found and is_other else None


def foreign_document(raw: object) -> Foreign | None:
    """Return what a document is that is no object of an API server; None for an object, even an invalid one."""
    if not isinstance(raw, Mapping):
        return Foreign.NO_MAPPING
    api_version, kind = raw.get("apiVersion"), raw.get("kind")
    if not (api_version or kind):
        return Foreign.NO_API_VERSION
    if not (api_version and kind):
        meant = "metadata" in raw or "items" in raw or any(required_errors(raw))
        return None if meant else Foreign.NO_KIND if api_version else Foreign.NO_API_VERSION
    return _foreign_type(raw, str(api_version), str(kind))


def is_generated(raw: Mapping[str, Any]) -> bool:
    """Return whether an object gets its name when it is created: no answer can name it, and kubectl cannot apply it."""
    metadata = raw.get("metadata")
    return isinstance(metadata, Mapping) and not metadata.get("name") and bool(metadata.get("generateName"))


def _foreign_type(raw: Mapping[str, Any], api_version: str, kind: str) -> Foreign | None:
    group = group_of(api_version)
    if group == _KUSTOMIZE:
        return Foreign.KUSTOMIZATION
    if (group, kind) == _INIT:
        return Foreign.INSTALLATION
    is_object = "metadata" in raw or is_list(raw) or any(required_errors(raw)) or kind == PLACEMENT_TEST
    if is_object or scope_of(api_version, kind) is not None or unknown_type(api_version, kind) is not None:
        return None
    return Foreign.CONFIGURATION


def _is_chart(folder: PurePath) -> bool:
    return Path(folder, _CHART).is_file()


def _is_commented_out(data: bytes) -> bool:
    """Return whether a YAML file has comments, and no content."""
    found = False
    for line in data.removeprefix(b"\xef\xbb\xbf").splitlines():
        text = line.strip()
        if text and not text.startswith(b"#") and text != _NEXT_DOCUMENT:
            return False
        found = found or text.startswith(b"#")
    return found


def _is_commented_json(data: bytes) -> bool:
    text = data.decode(errors="replace")
    plain = _COMMENTS.sub(lambda found: found[1] or " ", text)
    try:
        json.loads(_LAST_COMMA.sub(r"\1", plain))  # noqa: TID251 - only whether it is JSON
    except (ValueError, RecursionError):
        return False
    return True
