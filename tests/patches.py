"""What the kinds of patches make of an object."""

import json
from copy import deepcopy
from typing import Any, Final

import jsonpatch

from berthmaster.kube.requests import APIRequest

MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
APPLY: Final = "application/apply-patch+yaml"


def patched(before: Any, request: APIRequest) -> Any:
    """An object after a patch of the kind that its content type says."""
    patch = json.loads(request.body)
    if request.content_type == JSON_PATCH:
        return jsonpatch.apply_patch(deepcopy(before), patch)
    assert request.content_type in (MERGE_PATCH, APPLY), f"nobody was to patch with {request.content_type}"
    return merged(before, patch, keyed=request.content_type == APPLY)


def merged(before: Any, patch: Any, *, keyed: bool = False) -> Any:
    """A JSON merge patch applied (RFC 7396), to a copy; ``keyed`` merges lists of things with names by those names.

    That is what server-side apply does to such lists if all that is in them belongs to whoever applies.
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
