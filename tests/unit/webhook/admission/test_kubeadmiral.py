import pytest
from reviews import admission_review, answer, denied_fields

MUTATE, VALIDATE = "/mutate-kubeadmiral-clusterpropagationpolicy", "/validate-kubeadmiral-clusterpropagationpolicy"


def policy(**spec):
    return {
        "apiVersion": "core.kubeadmiral.io/v1alpha1",
        "kind": "ClusterPropagationPolicy",
        "metadata": {"name": "p"},
        "spec": {"schedulingMode": "Divide", **spec},
    }


def placed(**preferences):
    return {"placement": [{"cluster": "a", "preferences": preferences}]}


def expressed(operator, values, key="k", where="matchExpressions"):
    return {"clusterAffinity": [{where: [{"key": key, "operator": operator, "values": values}]}]}


def tolerating(**toleration):
    return {"tolerations": [toleration]}


EXPRESSION = "spec.clusterAffinity[0].matchExpressions[0]"
FIELD = "spec.clusterAffinity[0].matchFields[0]"
PREFERENCES = "spec.placement[0].preferences"


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        pytest.param({}, [], id="a minimal spec"),
        pytest.param({"maxClusters": 0}, ["spec.maxClusters"], id="maxClusters 0"),
        pytest.param({"maxClusters": -1}, ["spec.maxClusters"], id="a negative maxClusters"),
        pytest.param({"maxClusters": 1}, [], id="maxClusters 1"),
        pytest.param(placed(weight=100, minReplicas=2, maxReplicas=2), [], id="preferences at their limits"),
        pytest.param(placed(weight=101), [f"{PREFERENCES}.weight"], id="a weight above 100"),
        pytest.param(placed(weight=-1), [f"{PREFERENCES}.weight"], id="a negative weight"),
        pytest.param(
            placed(minReplicas=3, maxReplicas=2), [f"{PREFERENCES}.minReplicas"], id="a minimum above the maximum"
        ),
        pytest.param(
            {"placement": [{"cluster": "a"}, {"cluster": "b"}, {"cluster": "a"}, {}]},
            ["spec.placement[2].cluster", "spec.placement[3].cluster"],
            id="a duplicate cluster and an empty name",
        ),
        pytest.param(expressed("Gt", ["3"]), [], id="Gt with an integer"),
        pytest.param(expressed("Gt", ["x"]), [EXPRESSION], id="Gt with a word"),
        pytest.param(expressed("Lt", ["1", "2"]), [EXPRESSION], id="Lt with two values"),
        pytest.param(expressed("Exists", ["a"]), [EXPRESSION], id="Exists with a value"),
        pytest.param(expressed("In", []), [EXPRESSION], id="In without a value"),
        pytest.param(expressed("Like", ["a"]), [EXPRESSION], id="an unknown operator"),
        pytest.param(expressed("In", ["a"], "metadata.name", "matchFields"), [], id="a match field"),
        pytest.param(
            expressed("Exists", [], "spec.x", "matchFields"),
            [f"{FIELD}.key", f"{FIELD}.operator"],
            id="an unknown match field",
        ),
        pytest.param(
            expressed("In", ["a", "b"], "metadata.name", "matchFields"),
            [f"{FIELD}.values"],
            id="a match field with two values",
        ),
        pytest.param({"clusterAffinity": [{}]}, ["spec.clusterAffinity[0]"], id="an empty term"),
        pytest.param({"clusterSelector": {"a b": "c"}}, ["spec.clusterSelector[a b]"], id="an invalid label"),
        pytest.param(tolerating(operator="Exists"), [], id="a toleration of every taint"),
        pytest.param(tolerating(operator="Exists", value="x"), ["spec.tolerations[0].value"], id="Exists with a value"),
        pytest.param(
            tolerating(operator="Near", key="k"),
            ["spec.tolerations[0].operator"],
            id="a toleration with an unknown operator",
        ),
        pytest.param(tolerating(value="x"), ["spec.tolerations[0].operator"], id="a toleration by value without a key"),
        pytest.param(tolerating(key="k", effect="Never"), ["spec.tolerations[0].effect"], id="an unknown effect"),
        pytest.param(
            tolerating(key="k", tolerationSeconds=3),
            ["spec.tolerations[0].effect"],
            id="tolerationSeconds without NoExecute",
        ),
        pytest.param({"autoMigration": {"when": {"podUnschedulableFor": "1h30m"}}}, [], id="a duration"),
        pytest.param(
            {"autoMigration": {"when": {"podUnschedulableFor": "soon"}}},
            ["spec.autoMigration.when.podUnschedulableFor"],
            id="an invalid duration",
        ),
        pytest.param(
            {"autoMigration": {"when": {"podUnschedulableFor": "-1m"}}},
            ["spec.autoMigration.when.podUnschedulableFor"],
            id="a negative duration",
        ),
    ],
)
def test_checks(spec, fields):
    response = answer(VALIDATE, admission_review(policy(**spec)))
    assert denied_fields(response) == fields
    assert response["allowed"] is (fields == [])


def test_the_answer_names_a_value_of_the_wrong_type():
    response = answer(VALIDATE, admission_review(policy(maxClusters="many")))
    assert response["status"]["code"] == 400
    assert "spec.maxClusters" in response["status"]["message"]
