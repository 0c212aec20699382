"""The effect of each kind of patch on an object."""

import json
from copy import deepcopy
from typing import Any, Final

import jsonpatch

from berthmaster.kube.requests import APIRequest

MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
APPLY: Final = "application/apply-patch+yaml"


def patched(before: Any, request: APIRequest) -> Any:
    """Return an object after a patch. The content type is the kind of patch."""
    patch = json.loads(request.body)
    if request.content_type == JSON_PATCH:
        return jsonpatch.apply_patch(deepcopy(before), patch)
    assert request.content_type in (MERGE_PATCH, APPLY), f"unexpected content type {request.content_type}"
    return merged(before, patch, keyed=request.content_type == APPLY)


def merged(before: Any, patch: Any, *, keyed: bool = False) -> Any:
    """Apply a JSON merge patch (RFC 7396) to a copy. ``keyed`` merges lists of objects by name.

    Server-side apply merges such lists this way if the field manager owns all entries.
    """
    if keyed and isinstance(before, list) and all(isinstance(each, dict) and "name" in each for each in before):
        named = {each["name"]: each for each in before}
        return [merged(named.get(each["name"], {}), each, keyed=True) for each in patch]
    if not isinstance(patch, dict):
        return patch
    after = dict(before) if isinstance(before, dict) else {}
    for key, value in patch.items():
        if value is None:
            after.pop(key, None)
        else:
            after[key] = merged(after.get(key), value, keyed=keyed)
    return after
