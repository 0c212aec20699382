"""What the webhook decides before it reviews an object."""

from typing import Any

import pytest
from reviews import COMPANION, STANDALONE, admission_review, answer

from webhook.admission.settings import AdmissionSettings

DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}


def invalid(kind: str, path: str, spec: dict[str, Any]) -> Any:
    return pytest.param(kind, path, spec, id=kind)


INVALID = [
    invalid(
        "policy.karmada.io/v1alpha1 PropagationPolicy",
        "/validate-propagationpolicy",
        {"placement": {"clusterAffinity": {}, "clusterAffinities": [{"affinityName": "any"}]}},
    ),
    invalid(
        "core.kubeadmiral.io/v1alpha1 ClusterPropagationPolicy",
        "/validate-kubeadmiral-clusterpropagationpolicy",
        {"schedulingMode": "Divide", "maxClusters": -1},
    ),
    invalid(
        "apps.karmada.io/v1alpha1 WorkloadRebalancer", "/validate-workloadrebalancer", {"ttlSecondsAfterFinished": -1}
    ),
]


def obj(kind: str, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    api_version, name = kind.split()
    return {"apiVersion": api_version, "kind": name, "metadata": {"name": "x", **metadata}, "spec": spec}


@pytest.mark.parametrize("settings", [COMPANION, STANDALONE], ids=["companion", "standalone"])
@pytest.mark.parametrize(("kind", "path", "spec"), INVALID)
def test_an_invalid_object_is_allowed_while_it_is_being_deleted(
    kind: str, path: str, spec: dict[str, Any], settings: AdmissionSettings
):
    for deleted, allowed in ((DELETED, True), ({}, False)):
        # The spec changes too, because an update without a change of the spec is allowed anyway.
        held = obj(kind, {"was": "another"}, finalizers=["x.io/hold"], **deleted)
        assert answer(path, admission_review(obj(kind, spec, **deleted), held), settings)["allowed"] is allowed


def test_a_deletion_timestamp_in_the_new_object_only_has_no_effect():
    _, path, spec = INVALID[0].values
    stored = obj("policy.karmada.io/v1alpha1 PropagationPolicy", {"was": "another"})
    sent = obj("policy.karmada.io/v1alpha1 PropagationPolicy", spec, **DELETED)
    assert answer(path, admission_review(sent, stored), COMPANION)["allowed"] is False
    assert answer(path, admission_review(sent), COMPANION)["allowed"] is False
