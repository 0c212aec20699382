import pytest
from hypothesis import given
from hypothesis import strategies as st

from berthmaster.model.decode import convert
from berthmaster.model.pod import PodSpec, pod_requests


def container(requests=None, limits=None, *, sidecar=False):
    raw = {"name": "c", "resources": {"requests": requests or {}, "limits": limits or {}}}
    return {**raw, "restartPolicy": "Always"} if sidecar else raw


def requested(**pod):
    return {name: amount.text for name, amount in pod_requests(convert(PodSpec, pod)).items()}


@pytest.mark.parametrize(
    ("pod", "requests"),
    [
        pytest.param({}, {}, id="no containers ask for nothing"),
        pytest.param(
            {"containers": [container({"cpu": "100m", "memory": "1Gi"}), container({"cpu": "400m"})]},
            {"cpu": "500m", "memory": "1Gi"},
            id="containers are summed",
        ),
        pytest.param(
            {"containers": [container({"cpu": "100m"}, {"cpu": "1", "memory": "1Gi"})]},
            {"cpu": "100m", "memory": "1Gi"},
            id="a limit stands for an absent request only",
        ),
        pytest.param(
            {"containers": [container({"cpu": "0"}, {"cpu": "1"})]},
            {"cpu": "0"},
            id="a request of zero is not absent",
        ),
        pytest.param(
            {"containers": [container({"cpu": "1"})], "initContainers": [container({"cpu": "500m"})]},
            {"cpu": "1"},
            id="an init container that asks for less counts nothing",
        ),
        pytest.param(
            {
                "containers": [container({"cpu": "1", "memory": "1Gi"})],
                "initContainers": [container({"cpu": "3"}), container({"memory": "2Gi"})],
            },
            {"cpu": "3", "memory": "2Gi"},
            id="init containers run one after the other: the hungriest of each resource counts",
        ),
        pytest.param(
            {
                "containers": [container({"cpu": "1"})],
                "initContainers": [container({"cpu": "100m"}, sidecar=True)],
            },
            {"cpu": "1100m"},
            id="a sidecar runs beside the containers",
        ),
        pytest.param(
            {
                "containers": [container({"cpu": "1"})],
                "initContainers": [container({"cpu": "1"}, sidecar=True), container({"cpu": "5"})],
            },
            {"cpu": "6"},
            id="an init container runs beside the sidecars before it",
        ),
        pytest.param(
            {
                "containers": [container({"cpu": "1"})],
                "initContainers": [container({"cpu": "5"}), container({"cpu": "1"}, sidecar=True)],
            },
            {"cpu": "5"},
            id="an init container does not wait for the sidecars behind it",
        ),
        pytest.param(
            {
                "containers": [container({"cpu": "1"})],
                "initContainers": [
                    container(limits={"cpu": "2"}, sidecar=True),
                    container(limits={"cpu": "4"}),
                ],
            },
            {"cpu": "6"},
            id="limits stand for requests of init containers as well",
        ),
        pytest.param(
            {"containers": [container({"cpu": "1"})], "overhead": {"cpu": "250m", "memory": "120Mi"}},
            {"cpu": "1250m", "memory": "120Mi"},
            id="overhead comes on top",
        ),
        pytest.param(
            {
                "containers": [container({"cpu": "1", "memory": "1Gi"})],
                "initContainers": [container({"cpu": "8"})],
                "resources": {"requests": {"cpu": "2"}},
                "overhead": {"cpu": "1"},
            },
            {"cpu": "3", "memory": "1Gi"},
            id="what the pod as a whole asks for stands in place of its containers, overhead still on top",
        ),
        pytest.param(
            {"containers": [container({"cpu": "1"})], "resources": {"limits": {"cpu": "4", "memory": "4Gi"}}},
            {"cpu": "1", "memory": "4Gi"},
            id="a limit of the pod counts where no container asks",
        ),
        pytest.param(
            {"containers": [container({"example.io/gpu": 2}), container({"example.io/gpu": 1})]},
            {"example.io/gpu": "3"},
            id="extended resources count like all others",
        ),
    ],
)
def test_what_a_pod_asks_for(pod, requests):
    assert requested(**pod) == requests


AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.integers(0, 10))
CONTAINERS = st.lists(st.builds(container, AMOUNTS, AMOUNTS), max_size=3)
INIT_CONTAINERS = st.lists(st.builds(container, AMOUNTS, AMOUNTS, sidecar=st.booleans()), max_size=4)


@given(CONTAINERS, INIT_CONTAINERS, st.sampled_from(["cpu", "memory"]))
def test_a_pod_asks_for_the_most_that_runs_at_any_time(containers, init_containers, resource):
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
