"""The examples of ``docs/policies*.md`` and ``docs/rules``. Each is a part of a spec, in an otherwise valid object."""

import json
from collections.abc import Mapping
from typing import Any

from reviews import FRESH_ID, admission_review

from webhook.admission import wire
from webhook.admission.catalog import ROUTES
from webhook.admission.context import AdmissionContext
from webhook.admission.field_problem import FieldProblem
from webhook.admission.linting import Linted, lint
from webhook.admission.review_outcome import ReviewOutcome
from webhook.admission.reviews import review
from webhook.admission.schema import UNKNOWN_FIELD
from webhook.admission.settings import AdmissionSettings, Level

KUBEADMIRAL = "KubeAdmiral"
REBALANCER = "WorkloadRebalancer"
_NAMESPACE = "shop"
_KARMADA_SPEC = {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}]}
_SHAPES = {
    "PropagationPolicy": ("policy.karmada.io/v1alpha1", "PropagationPolicy", _KARMADA_SPEC),
    "ClusterPropagationPolicy": ("policy.karmada.io/v1alpha1", "ClusterPropagationPolicy", _KARMADA_SPEC),
    KUBEADMIRAL: ("core.kubeadmiral.io/v1alpha1", "PropagationPolicy", {"schedulingMode": "Divide"}),
    REBALANCER: ("apps.karmada.io/v1alpha1", "WorkloadRebalancer", {}),
}
_SETTINGS = AdmissionSettings(peer_checks=True, levels={UNKNOWN_FIELD: Level.OFF})
_STRICT = AdmissionContext(_SETTINGS, lambda: FRESH_ID)


def made(shape: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with a part of a spec, and with ``metadata`` if the part has it.

    ``shape`` is a kind, or KubeAdmiral for its policy.
    """
    api_version, kind, base = _SHAPES[shape]
    namespace = {"namespace": _NAMESPACE} if kind == "PropagationPolicy" else {}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "example", **namespace, **spec.get("metadata", {})},
        "spec": {**base, **{key: value for key, value in spec.items() if key != "metadata"}},
    }


def lint_example(shape: str, spec: Mapping[str, Any]) -> Linted:
    """Return the findings of ``berthmaster lint``."""
    found = lint(made(shape, spec), _STRICT, _NAMESPACE)
    assert found is not None
    return found


def update_warnings(shape: str, stored: Mapping[str, Any], sent: Mapping[str, Any]) -> list[FieldProblem | str]:
    old = completed(made(shape, stored))
    outcome = _reviewed("validate", completed(made(shape, sent), old), old)
    assert not outcome.denials
    return list(outcome.warnings)


def completed(document: dict[str, Any], old: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return an object after the mutating webhook."""
    return _reviewed("mutate", document, old).mutated or document


def _reviewed(verb: str, document: dict[str, Any], old: dict[str, Any] | None) -> ReviewOutcome:
    vendor = "kubeadmiral-" if "kubeadmiral" in document["apiVersion"] else ""
    request = wire.decode(json.dumps(admission_review(document, old)).encode())
    return review(ROUTES[f"/{verb}-{vendor}{document['kind'].lower()}"], request, _STRICT)
