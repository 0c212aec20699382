import msgspec
import pytest
from builders import binding, cluster, placement, policy, selector

from berthmaster.model.binding import Component
from berthmaster.model.cluster import ResourceModel, ResourceModelRange
from berthmaster.model.decode import convert
from berthmaster.model.placement import Placement
from berthmaster.model.quantity import Quantity
from berthmaster.model.replicas import ReplicaRequirements
from berthmaster.model.validation import binding_errors, cluster_errors, policy_errors

WRONG = {
    "matchExpressions": [
        {"key": "env", "operator": "Exists"},
        {"key": "env", "operator": "Equals", "values": ["a"]},
    ]
}
SAID = "matchExpressions[1].operator: unknown operator 'Equals'; accepted are In, NotIn, Exists, DoesNotExist"


@pytest.mark.parametrize(
    ("written", "path"),
    [
        pytest.param({"clusterAffinity": {"labelSelector": WRONG}}, "clusterAffinity", id="the affinity"),
        pytest.param(
            {"clusterAffinities": [{"affinityName": "a"}, {"affinityName": "b", "labelSelector": WRONG}]},
            "clusterAffinities[1]",
            id="a group",
        ),
        pytest.param(
            {
                "clusterAffinities": [
                    {
                        "affinityName": "a",
                        "overflowAffinities": [{"affinityName": "o", "labelSelector": WRONG}],
                    }
                ]
            },
            "clusterAffinities[0].overflowAffinities[0]",
            id="an overflow of a group",
        ),
        pytest.param(
            {
                "replicaScheduling": {
                    "weightPreference": {
                        "staticWeightList": [
                            {"weight": 1, "targetCluster": {}},
                            {"weight": 1, "targetCluster": {"labelSelector": WRONG}},
                        ]
                    }
                }
            },
            "replicaScheduling.weightPreference.staticWeightList[1].targetCluster",
            id="a static weight",
        ),
    ],
)
def test_invalid_selectors_of_placements(written, path):
    (error,) = policy_errors(policy(placement=placement(**written)))
    assert str(error) == f"spec.placement.{path}.labelSelector.{SAID}"


def test_invalid_resource_selectors():
    (error,) = policy_errors(policy(selectors=[selector(), selector(labelSelector=WRONG)]))
    assert str(error) == f"spec.resourceSelectors[1].labelSelector.{SAID}"


def test_a_policy_must_have_a_selector():
    (error,) = policy_errors(policy(selectors=[]))
    assert str(error) == "spec.resourceSelectors: is empty; accepted are one or more selectors"


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"a b": "c"}, "matchLabels[a b]: 'a b' is not a label key"),
        ({"ok": "c", "env": "not valid"}, "matchLabels[env]: 'not valid' is not a label value"),
    ],
)
def test_invalid_labels(labels, message):
    (error,) = policy_errors(policy(selectors=[selector(labelSelector={"matchLabels": labels})]))
    assert str(error) == f"spec.resourceSelectors[0].labelSelector.{message}"


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        pytest.param({"key": "region", "operator": "In", "values": ["a"]}, None, id="a region"),
        pytest.param({"key": "zone", "operator": "In", "values": ["a zone"]}, None, id="a zone of any text"),
        pytest.param({"key": "region", "operator": "Is"}, "operator: unknown operator 'Is'", id="a bad operator"),
        pytest.param({"key": "zone", "operator": "Gt", "values": ["1"]}, "operator: unknown", id="an order of zones"),
        pytest.param({"key": "region", "operator": "In"}, "values: operator In needs", id="no values"),
    ],
)
def test_field_selectors(expression, problem):
    affinity = {"fieldSelector": {"matchExpressions": [expression]}}
    errors = [
        str(error) for error in policy_errors(policy(placement=convert(Placement, {"clusterAffinity": affinity})))
    ]
    if problem is None:
        assert errors == []
    else:
        (message,) = errors
        assert message.startswith(f"spec.placement.clusterAffinity.fieldSelector.matchExpressions[0].{problem}")


def test_negative_amounts_of_a_cluster():
    negative = cluster(cpu="-1", allocated={"memory": "-1Mi", "cpu": 0})
    assert [str(error) for error in cluster_errors(negative)] == [
        "status.resourceSummary.allocatable[cpu]: '-1' is negative; accepted are quantities of 0 and more",
        "status.resourceSummary.allocated[memory]: '-1Mi' is negative; accepted are quantities of 0 and more",
    ]


def test_negative_ranges_of_resource_models():
    below, above = Quantity.parse("-1"), Quantity.parse("1")
    model = ResourceModel(
        grade=0, ranges=(ResourceModelRange("cpu", above, above), ResourceModelRange("cpu", below, below))
    )
    raw = cluster()
    spec = msgspec.structs.replace(raw.spec, resource_models=(model,))
    paths = [error.path for error in cluster_errors(msgspec.structs.replace(raw, spec=spec))]
    assert paths == ["spec.resourceModels[0].ranges[1].min", "spec.resourceModels[0].ranges[1].max"]


def test_negative_requests_of_a_binding():
    component = Component(
        name="worker", replicas=1, replica_requirements=ReplicaRequirements({"cpu": Quantity.parse("-2")})
    )
    negative = binding(requests={"cpu": "-1"}, components=(component,))
    assert [error.path for error in binding_errors(negative)] == [
        "spec.replicaRequirements.resourceRequest[cpu]",
        "spec.components[0].replicaRequirements.resourceRequest[cpu]",
    ]


def test_the_values_of_the_test_builders_are_valid():
    assert [
        *cluster_errors(cluster(cpu=1)),
        *policy_errors(policy()),
        *binding_errors(binding(requests={"cpu": 1})),
    ] == []
