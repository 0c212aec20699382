import pytest
from builders import deployment
from hypothesis import given
from hypothesis import strategies as st
from tables import cases, data

from berthmaster.model.decode import builtins, convert
from berthmaster.model.errors import FieldError, InputError
from berthmaster.model.replicas import NodeClaim, PodSpec, ReplicaPath, pod_requests, replicas_of, template_of
from berthmaster.model.taint import Toleration

ROWS = data("model/replicas")


def container(requests=None, limits=None, *, sidecar=False):
    raw = {"name": "c", "resources": {"requests": requests or {}, "limits": limits or {}}}
    return {**raw, "restartPolicy": "Always"} if sidecar else raw


def requested(**pod):
    return {name: amount.text for name, amount in pod_requests(convert(PodSpec, pod)).items()}


@cases(("pod", "requests"), ROWS["requests of pods"])
def test_pod_requests(pod, requests):
    assert requested(**pod) == requests


AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.integers(0, 10))
CONTAINERS = st.lists(st.builds(container, AMOUNTS, AMOUNTS), max_size=3)
INIT_CONTAINERS = st.lists(st.builds(container, AMOUNTS, AMOUNTS, sidecar=st.booleans()), max_size=4)


@given(CONTAINERS, INIT_CONTAINERS, st.sampled_from(["cpu", "memory"]))
def test_pod_requests_are_the_maximum_over_time(containers, init_containers, resource):
    def needs(each):
        return each["resources"]["requests"].get(resource, each["resources"]["limits"].get(resource, 0))

    peak, sidecars = 0, 0
    for each in init_containers:
        peak = max(peak, sidecars + needs(each))
        sidecars += needs(each) if each.get("restartPolicy") == "Always" else 0
    peak = max(peak, sidecars + sum(map(needs, containers)))
    pod = convert(PodSpec, {"containers": containers, "initContainers": init_containers})
    asked = pod_requests(pod).get(resource)
    assert (asked.value() if asked else 0) == peak


def resource(api_version, kind, **spec):
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "x", "namespace": "default"},
        "spec": spec,
    }


@cases(("raw", "expected"), ROWS["replicas of known kinds"])
def test_replicas_of_known_kinds(raw, expected):
    assert builtins(replicas_of(raw)) == expected


def test_node_claims():
    terms = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}, "podAffinity": {}}
    raw = deployment(
        pod_spec={
            "nodeSelector": {"disk": "ssd"},
            "affinity": affinity,
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "priorityClassName": "high",
        }
    )
    requirements = replicas_of(raw).requirements
    assert requirements.node_claim == NodeClaim(
        hard_node_affinity=terms,
        node_selector={"disk": "ssd"},
        tolerations=(Toleration(key="gpu", operator="Exists"),),
    )
    assert requirements.priority_class_name == "high"


def test_a_node_preference_is_not_a_requirement():
    preferred = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
    assert replicas_of(deployment(pod_spec={"affinity": preferred})).requirements is None


WIDGET = ReplicaPath("example.io/v1", "Widget", "spec.groups[1].size", "spec.worker")


@cases(("raw", "path", "expected"), ROWS["replicas at a path"])
def test_replicas_at_a_path(raw, path, expected):
    assert builtins(replicas_of(raw, [ReplicaPath.parse(path)])) == expected


@cases(("raw", "message"), ROWS["invalid resources"])
def test_errors_have_the_path_in_the_resource(raw, message):
    with pytest.raises(FieldError) as caught:
        replicas_of(raw)
    assert str(caught.value).startswith(message)


def test_a_path_through_a_scalar_is_an_error():
    with pytest.raises(FieldError, match=r"^spec\.groups: 'x' is not accepted; accepted is an array$"):
        replicas_of(resource("example.io/v1", "Widget", groups="x"), [WIDGET])


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("example.io/v1/Widget=spec.size", ReplicaPath("example.io/v1", "Widget", "spec.size")),
        ("example.io/v1/Widget=spec.groups[1].size,spec.worker", WIDGET),
        ("v1/Thing=size", ReplicaPath("v1", "Thing", "size")),
    ],
)
def test_parse_replica_paths(text, path):
    assert ReplicaPath.parse(text) == path


@pytest.mark.parametrize(
    "text",
    [
        "", "Widget=spec.size", "example.io/v1/Widget", "example.io/v1/=a", "example.io/v1/Widget=", "a/b/c=x,",
        "a/b/c=x..y", "a/b/c=.x", "a/b/c=x[y]", "a/b/c=x[1", "a/b/c=[1]",
    ],
)  # fmt: skip
def test_invalid_replica_paths_are_errors(text):
    with pytest.raises(InputError, match="accepted is GROUP/VERSION/KIND=PATH"):
        ReplicaPath.parse(text)


def test_a_label_that_is_not_text_is_an_error():
    with pytest.raises(FieldError, match=r"^metadata\.labels\[app\]: 1 is a number, where a text is accepted$"):
        template_of(deployment(labels={"app": 1}))
