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
        pytest.param(
            rebalancer({}), [f"spec.workloads[0].{f}" for f in ("apiVersion", "kind", "name")], id="an empty workload"
        ),
        pytest.param(rebalancer({**WEB, "namespace": ""}), ["spec.workloads[0].namespace"], id="no namespace"),
        pytest.param(
            rebalancer({**ROLE, "namespace": "a"}),
            ["spec.workloads[0].namespace"],
            id="a namespace of a cluster-scoped kind",
        ),
        pytest.param(rebalancer(WEB, ROLE, WEB), ["spec.workloads[2]"], id="a duplicate workload"),
        pytest.param(
            rebalancer(WEB, ttlSecondsAfterFinished=-1), ["spec.ttlSecondsAfterFinished"], id="a negative duration"
        ),
    ],
)
def test_checks(obj, fields):
    response = answer(PATH, admission_review(obj))
    assert denied_fields(response) == fields
    assert response["allowed"] is (fields == [])


def test_a_kind_of_unknown_scope_gives_a_warning_unless_its_scope_is_configured():
    assert "rebalancer-scope-unknown" in answer(PATH, admission_review(rebalancer(GADGET)))["warnings"][0]
    configured = AdmissionSettings(scopes={("example.org", "Gadget"): Scope.NAMESPACED})
    assert denied_fields(answer(PATH, admission_review(rebalancer(GADGET)), configured)) == [
        "spec.workloads[0].namespace"
    ]


def test_the_answer_names_a_value_of_the_wrong_type():
    response = answer(PATH, admission_review(rebalancer(WEB, ttlSecondsAfterFinished="soon")))
    assert response["status"]["code"] == 400
    assert "spec.ttlSecondsAfterFinished" in response["status"]["message"]
