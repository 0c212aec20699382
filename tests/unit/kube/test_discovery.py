"""Where kinds are served, as the API server says."""

import pytest
from faults import nothing, refuse
from kube_in_memory import KubeInMemory
from kube_scheduler_builders import HandClock

from berthmaster.kube.client import APIClient
from berthmaster.kube.discovery import FRESH_S, Discovery, ServedKind
from berthmaster.kube.requests import Collection
from berthmaster.model.errors import ApiError


def discovery(api: KubeInMemory, clock: HandClock | None = None) -> Discovery:
    client: APIClient = api
    return Discovery(client, clock or HandClock())


@pytest.fixture
def api():
    api = KubeInMemory()
    api.served.add("apps/v1", "Deployment", "deployments")
    api.served.add("v1", "Namespace", "namespaces", namespaced=False)
    return api


@pytest.mark.parametrize(
    ("api_version", "kind", "expected"),
    [
        pytest.param(
            "apps/v1",
            "Deployment",
            ServedKind(Collection.of("apps/v1", "deployments"), namespaced=True),
            id="of a group",
        ),
        pytest.param(
            "v1",
            "Namespace",
            ServedKind(Collection("/api/v1/namespaces", "namespaces"), namespaced=False),
            id="of the core",
        ),
        pytest.param("apps/v1", "Widget", None, id="an unknown kind"),
        pytest.param("apps/v2", "Deployment", None, id="an unknown version"),
        pytest.param("apps/v1/namespaces/kube-system", "Deployment", None, id="a version that leads elsewhere"),
        pytest.param("../v1", "Deployment", None, id="a version that leads upwards"),
    ],
)
def test_where_a_kind_is_served(api, api_version, kind, expected):
    assert discovery(api).find(api_version, kind) == expected


def test_a_version_that_leads_elsewhere_is_not_even_asked_for(api):
    discovery(api).find("apps/v1?watch=true", "Deployment")
    assert api.requests == []


def test_kinds_that_cannot_be_watched_are_passed_over(api):
    api.served.add("authorization.k8s.io/v1", "SubjectAccessReview", "subjectaccessreviews")
    api.served.resources("authorization.k8s.io/v1")[0]["verbs"] = ["create"]
    assert discovery(api).find("authorization.k8s.io/v1", "SubjectAccessReview") is None


def test_a_subresource_of_the_same_kind_is_not_the_kind(api):
    scale = {"name": "deployments/scale", "kind": "Deployment", "namespaced": True, "verbs": ["get", "patch"]}
    api.served.resources("apps/v1").append(scale)
    assert discovery(api).find("apps/v1", "Deployment").collection.what == "deployments"


def test_an_answer_is_believed_for_a_while(api):
    clock = HandClock()
    asked = discovery(api, clock)
    assert asked.find("example.io/v1", "Widget") is None
    api.served.add("example.io/v1", "Widget", "widgets")
    assert asked.find("example.io/v1", "Widget") is None
    clock.seconds = FRESH_S
    assert asked.find("example.io/v1", "Widget") is not None
    assert len(api.requests) == 2, "the second time it was not asked"


def test_a_server_that_cannot_be_asked_is_an_error_and_asked_again(api):
    asked = discovery(api)
    api.before = refuse(503)
    with pytest.raises(ApiError):
        asked.find("apps/v1", "Deployment")
    api.before = nothing
    assert asked.find("apps/v1", "Deployment") is not None
