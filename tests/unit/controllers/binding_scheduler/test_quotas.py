"""A binding that a FederatedResourceQuota refused, and changes of the quotas of its namespace and of another one."""

import json
from typing import Any

import pytest
from karmada_model.stage import Stage

from berthmaster.kube.requests import APIRequest
from berthmaster.model.errors import ApiError

NAMESPACE = "shop"
MEMBER = {
    "apiVersion": "cluster.karmada.io/v1alpha1",
    "kind": "Cluster",
    "metadata": {"name": "m"},
    "status": {
        "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"kind": "Deployment", "name": "deployments"}]}],
        "conditions": [{"type": "Ready", "status": "True"}],
        "resourceSummary": {"allocatable": {"cpu": "100", "pods": "100"}},
    },
}
BINDING = {
    "apiVersion": "work.karmada.io/v1alpha2",
    "kind": "ResourceBinding",
    "metadata": {
        "name": "web-deployment",
        "namespace": NAMESPACE,
        "labels": {"propagationpolicy.karmada.io/permanent-id": "x"},
    },
    "spec": {
        "schedulerName": "berthmaster",
        "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": NAMESPACE, "name": "web"},
        "replicas": 4,
        "placement": {"clusterAffinity": {"clusterNames": ["m"]}},
    },
}


def quota(cpu: str, namespace: str = NAMESPACE) -> dict[str, Any]:
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "FederatedResourceQuota",
        "metadata": {"name": "limit", "namespace": namespace},
        "spec": {"overall": {"cpu": cpu}},
    }


class Refusing:
    """A control plane whose quota of three CPUs has refused a binding with four replicas for half a minute.

    Attributes:
        stage: the control plane.
        refused: whether the quota still refuses the binding.
        writes: the assignments that were sent.
    """

    def __init__(self) -> None:
        self.refused, self.writes = True, 0
        self.stage = Stage(MEMBER, quota("3"), quota("3", "bank"), only=())
        self.stage.api.before = self._check
        self.stage.put(BINDING)
        self.stage.run(30)
        self.writes = 0

    def assigned(self) -> bool:
        return "clusters" in (self.stage.get(BINDING) or {"spec": {}})["spec"]

    def _check(self, request: APIRequest) -> None:
        if request.method == "PATCH" and "clusters" in json.loads(request.body).get("spec", {}):
            self.writes += 1
            if self.refused:
                raise ApiError(403, "QuotaExceeded", "the quota is exceeded")


@pytest.fixture
def refusing() -> Refusing:
    return Refusing()


def test_a_looser_quota_retries_it_at_once(refusing: Refusing):
    refusing.refused = False
    refusing.stage.apply(quota("4"))
    refusing.stage.run(0.5)
    assert refusing.assigned()


def test_a_deleted_quota_retries_it_at_once(refusing: Refusing):
    refusing.refused = False
    refusing.stage.delete(quota("3"))
    refusing.stage.run(0.5)
    assert refusing.assigned()


@pytest.mark.parametrize(
    "change", [pytest.param(quota("2"), id="a tighter quota"), pytest.param(quota("9", "bank"), id="another namespace")]
)
def test_other_changes_retry_nothing(refusing: Refusing, change: dict[str, Any]):
    refusing.stage.apply(change)
    refusing.stage.run(0.5)
    assert refusing.writes == 0


def test_a_binding_that_is_refused_again_waits_for_its_backoff(refusing: Refusing):
    refusing.stage.apply(quota("4"))
    refusing.stage.run(9)
    assert refusing.writes == 1
    refusing.stage.run(2)
    assert refusing.writes == 2
