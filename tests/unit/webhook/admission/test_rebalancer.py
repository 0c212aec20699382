import pytest
from reviews import admission_review, answer, denied_fields

from berthmaster.model.kinds import Scope
from webhook.admission.settings import AdmissionSettings

PATH = "/validate-workloadrebalancer"
WEB = {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"}
ROLE = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "reader"}
GADGET = {"apiVersion": "example.org/v1", "kind": "Gadget", "name": "g"}


def rebalancer(*workloads, **spec):
    return {
        "apiVersion": "apps.karmada.io/v1alpha1",
        "kind": "WorkloadRebalancer",
        "metadata": {"name": "r"},
        "spec": {"workloads": list(workloads), **spec},
    }


@pytest.mark.parametrize(
    ("obj", "fields"),
    [
        pytest.param(rebalancer(WEB, ROLE, ttlSecondsAfterFinished=0), [], id="one of each scope"),
        pytest.param(rebalancer(), ["spec.workloads"], id="nothing to do"),
        pytest.param({**rebalancer(), "spec": None}, ["spec.workloads"], id="no spec"),
        pytest.param(
            rebalancer({}), [f"spec.workloads[0].{f}" for f in ("apiVersion", "kind", "name")], id="nothing said"
        ),
        pytest.param(rebalancer({**WEB, "namespace": ""}), ["spec.workloads[0].namespace"], id="a namespace missing"),
        pytest.param(
            rebalancer({**ROLE, "namespace": "a"}), ["spec.workloads[0].namespace"], id="a namespace too many"
        ),
        pytest.param(rebalancer(WEB, ROLE, WEB), ["spec.workloads[2]"], id="a workload twice"),
        pytest.param(
            rebalancer(WEB, ttlSecondsAfterFinished=-1), ["spec.ttlSecondsAfterFinished"], id="a negative time"
        ),
    ],
)
def test_what_is_refused(obj, fields):
    response = answer(PATH, admission_review(obj))
    assert denied_fields(response) == fields
    assert response["allowed"] is (fields == [])


def test_a_kind_of_unknown_scope_is_told_unless_its_scope_is_configured():
    assert "rebalancer-scope-unknown" in answer(PATH, admission_review(rebalancer(GADGET)))["warnings"][0]
    told = AdmissionSettings(scopes={("example.org", "Gadget"): Scope.NAMESPACED})
    assert denied_fields(answer(PATH, admission_review(rebalancer(GADGET)), told)) == ["spec.workloads[0].namespace"]


def test_a_value_of_the_wrong_type_is_named():
    response = answer(PATH, admission_review(rebalancer(WEB, ttlSecondsAfterFinished="soon")))
    assert response["status"]["code"] == 400
    assert "spec.ttlSecondsAfterFinished" in response["status"]["message"]
