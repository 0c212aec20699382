"""AdmissionReviews for tests, and the effect of the answers in an API server."""

import base64
import json
from collections.abc import Mapping
from typing import Any

import jsonpatch

from webhook.admission import wire
from webhook.admission.catalog import ROUTES
from webhook.admission.context import AdmissionContext
from webhook.admission.reviews import review
from webhook.admission.settings import AdmissionSettings, WebhookMode

COMPANION = AdmissionSettings()
STANDALONE = AdmissionSettings(mode=WebhookMode.STANDALONE)
UID = "705ab4f5-6393-11e8-b7cc-42010a800002"
FRESH_ID = "<uuid>"
POLICY: dict[str, Any] = {
    "apiVersion": "policy.karmada.io/v1alpha1",
    "kind": "PropagationPolicy",
    "metadata": {"name": "p", "namespace": "shop"},
    "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}]},
}


def admission_review(
    obj: Mapping[str, Any] | None,
    old: Mapping[str, Any] | None = None,
    *,
    operation: str | None = None,
    namespace: str | None = None,
    username: str = "alice",
    uid: str = UID,
    **request: Any,
) -> dict[str, Any]:
    """Return the review of an object; an update if there is an old object."""
    subject = obj or old or {}
    group, _, version = subject.get("apiVersion", "").rpartition("/")
    metadata = subject.get("metadata") or {}
    return {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": uid,
            "kind": {"group": group, "version": version, "kind": subject.get("kind", "")},
            "namespace": metadata.get("namespace", "") if namespace is None else namespace,
            "operation": operation or ("CREATE" if old is None else "UPDATE"),
            "userInfo": {"username": username},
            "object": obj,
            "oldObject": old,
            **request,
        },
    }


def answer(path: str, document: Mapping[str, Any], settings: AdmissionSettings = COMPANION) -> dict[str, Any]:
    request = wire.decode(json.dumps(document).encode())
    outcome = review(ROUTES[path], request, AdmissionContext(settings, lambda: FRESH_ID))
    response: dict[str, Any] = json.loads(wire.encode(request.uid, outcome))["response"]
    return response


def patched(obj: Any, response: Mapping[str, Any]) -> Any:
    """Return an object after the patch of a response. A library applies the patch."""
    if "patch" not in response:
        return obj
    return jsonpatch.apply_patch(obj, base64.b64decode(response["patch"]).decode())


def operations(response: Mapping[str, Any]) -> list[dict[str, Any]]:
    decoded: list[dict[str, Any]] = json.loads(base64.b64decode(response.get("patch", "W10=")))
    return decoded


def denied_fields(response: Mapping[str, Any]) -> list[str]:
    message = (response.get("status") or {}).get("message", "")
    lines = message.splitlines()
    named = lines if len(lines) <= 1 else [line.removeprefix("- ") for line in lines[1:]]
    return sorted({line.split(": ", 1)[0] for line in named})
