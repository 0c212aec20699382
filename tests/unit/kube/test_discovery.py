"""API discovery."""

import pytest
from fake_clock import FakeClock
from faults import nothing, refuse
from kube_in_memory import KubeInMemory

from berthmaster.kube.client import APIClient
from berthmaster.kube.discovery import CACHE_S, Discovery, ServedKind
from berthmaster.kube.requests import Collection
from berthmaster.model.errors import ApiError


def discovery(api: KubeInMemory, clock: FakeClock | None = None) -> Discovery:
    client: APIClient = api
    return Discovery(client, clock or FakeClock())


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
            id="a kind of a group",
        ),
        pytest.param(
            "v1",
            "Namespace",
            ServedKind(Collection("/api/v1/namespaces", "namespaces"), namespaced=False),
            id="a kind of the core group",
        ),
        pytest.param("apps/v1", "Widget", None, id="an unknown kind"),
        pytest.param("apps/v2", "Deployment", None, id="an unknown version"),
        pytest.param("apps/v1/namespaces/kube-system", "Deployment", None, id="an invalid version with a path"),
        pytest.param("../v1", "Deployment", None, id="an invalid version with a parent path"),
    ],
)
def test_find_a_kind(api, api_version, kind, expected):
    assert discovery(api).find(api_version, kind) == expected


def test_an_invalid_version_sends_no_request(api):
    discovery(api).find("apps/v1?watch=true", "Deployment")
    assert api.requests == []


def test_kinds_that_cannot_be_watched_are_not_found(api):
    api.served.add("authorization.k8s.io/v1", "SubjectAccessReview", "subjectaccessreviews")
    api.served.resources("authorization.k8s.io/v1")[0]["verbs"] = ["create"]
    assert discovery(api).find("authorization.k8s.io/v1", "SubjectAccessReview") is None


def test_a_subresource_of_the_same_kind_is_not_the_kind(api):
    scale = {"name": "deployments/scale", "kind": "Deployment", "namespaced": True, "verbs": ["get", "patch"]}
    api.served.resources("apps/v1").append(scale)
    assert discovery(api).find("apps/v1", "Deployment").collection.plural == "deployments"


def test_a_response_is_cached_for_some_time(api):
    clock = FakeClock()
    asked = discovery(api, clock)
    assert asked.find("example.io/v1", "Widget") is None
    api.served.add("example.io/v1", "Widget", "widgets")
    assert asked.find("example.io/v1", "Widget") is None
    clock.pass_by(CACHE_S)
    assert asked.find("example.io/v1", "Widget") is not None
    assert len(api.requests) == 2, "the second lookup came from the cache"


def test_a_failed_request_is_an_error_and_is_not_cached(api):
    asked = discovery(api)
    api.before = refuse(503)
    with pytest.raises(ApiError):
        asked.find("apps/v1", "Deployment")
    api.before = nothing
    assert asked.find("apps/v1", "Deployment") is not None
