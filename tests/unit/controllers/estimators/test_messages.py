from contextlib import suppress

from builders import quantities
from estimator_messages import parsed, proto
from hypothesis import given
from hypothesis import strategies as st
from tables import cases

from berthmaster.controllers.estimators.messages import answered_number, replicas_question, sets_question
from berthmaster.model.binding import Component
from berthmaster.model.cluster import Toleration
from berthmaster.model.errors import ServiceError
from berthmaster.model.replicas import NodeClaim, ReplicaRequirements


def amounts(**texts):
    return {name: proto("Quantity", string=text).SerializeToString() for name, text in texts.items()}


def toleration(**fields):
    return proto("Toleration", **fields).SerializeToString()


def requirement(key, operator, *values):
    return {"key": key, "operator": operator, "values": list(values)}


def for_all_releases(requirements):
    """Return requirements with the fields that Karmada had up to 1.18, beside those that it has since."""
    found = dict(requirements)
    if "resourceRequestBytes" in found:
        found["resourceRequest"] = {
            name: parsed("Quantity", each) for name, each in found["resourceRequestBytes"].items()
        }
    if claim := dict(found.get("nodeClaim", {})):
        if "nodeAffinityBytes" in claim:
            claim["nodeAffinity"] = parsed("NodeSelector", claim["nodeAffinityBytes"])
        claim["tolerations"] = [parsed("Toleration", each) for each in claim.get("tolerationsBytes", ())]
        found["nodeClaim"] = claim
    return found


AFFINITY = {
    "nodeSelectorTerms": [
        {"matchExpressions": [requirement("zone", "In", "a", "b"), requirement("gpu", "Exists")]},
        {"matchFields": [requirement("metadata.name", "NotIn", "n1")], "matchExpressions": None},
        {},
    ]
}
AFFINITY_PROTO = proto(
    "NodeSelector",
    nodeSelectorTerms=[
        {"matchExpressions": [requirement("zone", "In", "a", "b"), requirement("gpu", "Exists")]},
        {"matchFields": [requirement("metadata.name", "NotIn", "n1")]},
        {},
    ],
)


@cases(
    ("requirements", "expected"),
    {
        "without requirements an empty message asks for pod slots": (None, {}),
        "empty requirements": (ReplicaRequirements(), {}),
        "amounts in their canonical form": (
            ReplicaRequirements(quantities({"cpu": "500m", "memory": "1.5Gi", "nvidia.com/gpu": 2})),
            {"resourceRequestBytes": amounts(**{"cpu": "500m", "memory": "1536Mi", "nvidia.com/gpu": "2"})},
        ),
        "namespace and priority class, for quotas": (
            ReplicaRequirements(quantities({"cpu": 0}), namespace="shop", priority_class_name="high"),
            {"namespace": "shop", "priorityClassName": "high", "resourceRequestBytes": amounts(cpu="0")},
        ),
        "an empty claim": (ReplicaRequirements(node_claim=NodeClaim()), {"nodeClaim": {}}),
        "node selector and node affinity": (
            ReplicaRequirements(node_claim=NodeClaim(AFFINITY, {"disk": "ssd", "arch": ""})),
            {
                "nodeClaim": {
                    "nodeSelector": {"disk": "ssd", "arch": ""},
                    "nodeAffinityBytes": AFFINITY_PROTO.SerializeToString(),
                }
            },
        ),
        "tolerations, including one for all taints": (
            ReplicaRequirements(
                node_claim=NodeClaim(
                    tolerations=(
                        Toleration("gpu", "Equal", "a100", "NoSchedule"),
                        Toleration(operator="Exists", toleration_seconds=0),
                        Toleration("slow", toleration_seconds=-1),
                        Toleration(),
                    )
                )
            ),
            {
                "nodeClaim": {
                    "tolerationsBytes": [
                        toleration(key="gpu", operator="Equal", value="a100", effect="NoSchedule"),
                        toleration(operator="Exists", tolerationSeconds=0),
                        toleration(key="slow", tolerationSeconds=-1),
                        b"",
                    ]
                }
            },
        ),
    },
)
def test_a_request_equals_that_of_the_protobuf_library(requirements, expected):
    written = replicas_question(requirements).request("member1")
    golden = proto("MaxAvailableReplicasRequest", cluster="member1", replicaRequirements=for_all_releases(expected))
    assert parsed("MaxAvailableReplicasRequest", written) == golden
    assert written == golden.SerializeToString(deterministic=True)
    assert parsed("MaxAvailableReplicasRequest", written).HasField("replicaRequirements")


def test_a_question_about_sets_equals_that_of_the_protobuf_library():
    components = (
        Component("driver", 1, ReplicaRequirements(quantities({"cpu": "500m"}), NodeClaim(None, {"gpu": "yes"}))),
        Component("worker", 3, ReplicaRequirements(quantities({}), None, "", "high")),
        Component("idle", 0),
    )
    written = sets_question(components, "shop")
    assert written.method.endswith("/MaxAvailableComponentSets")
    amount = proto("Quantity", string="500m").SerializeToString()
    golden = proto(
        "MaxAvailableComponentSetsRequest",
        cluster="member1",
        namespace="shop",
        components=[
            {
                "name": "driver",
                "replicas": 1,
                "replicaRequirements": for_all_releases(
                    {"nodeClaim": {"nodeSelector": {"gpu": "yes"}}, "resourceRequestBytes": {"cpu": amount}}
                ),
            },
            {"name": "worker", "replicas": 3, "replicaRequirements": {"priorityClassName": "high"}},
            {"name": "idle"},
        ],
    )  # fmt: skip
    read = parsed("MaxAvailableComponentSetsRequest", written.request("member1"))
    assert read == golden
    assert not read.components[2].HasField("replicaRequirements")


NAMES = st.text(max_size=200)


@given(st.dictionaries(NAMES, st.integers(0, 2**62)), NAMES, NAMES, st.dictionaries(NAMES, NAMES), st.lists(NAMES))
def test_encoded_requirements_decode_to_the_same(asked, namespace, priority_class, selector, values):
    claim = NodeClaim({"nodeSelectorTerms": [{"matchExpressions": [requirement("k", "In", *values)]}]}, selector)
    question = replicas_question(ReplicaRequirements(quantities(asked), claim, namespace, priority_class))
    read = parsed("MaxAvailableReplicasRequest", question.request("member1")).replicaRequirements
    amounts_read = {name: parsed("Quantity", each).string for name, each in read.resourceRequestBytes.items()}
    affinity = parsed("NodeSelector", read.nodeClaim.nodeAffinityBytes)
    assert amounts_read == {name: each.canonical() for name, each in quantities(asked).items()}
    assert (read.namespace, read.priorityClassName) == (namespace, priority_class)
    assert dict(read.nodeClaim.nodeSelector) == selector
    assert list(affinity.nodeSelectorTerms[0].matchExpressions[0].values) == values


@given(st.integers(-(2**31), 2**31 - 1))
def test_every_number_is_decoded(replicas):
    assert answered_number(proto("MaxAvailableReplicasResponse", maxReplicas=replicas).SerializeToString()) == replicas


@given(st.binary(max_size=64))
def test_any_bytes_are_a_response_or_a_service_error(content):
    with suppress(ServiceError):
        assert -(2**31) <= answered_number(content) < 2**31
