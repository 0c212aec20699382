"""Requests, discovery, and the check of a source."""

import logging
from datetime import datetime
from typing import Any

import pytest
from fake_clock import FakeClock
from faults import nothing, refuse
from kube_in_memory import KubeInMemory, ScriptedClient
from tables import cases

from berthmaster.kube.client import MetadataOnlyClient
from berthmaster.kube.requests import ONLY_METADATA_LIST, Collection, get, merge_patch, page, watch
from berthmaster.kube.served_types import CACHE_S, Discovery
from berthmaster.kube.source_check import UNCONFIRMED_S, SourceCheck
from berthmaster.model.errors import ApiError, InputError


@pytest.fixture
def api():
    api = KubeInMemory()
    api.served.add("apps/v1", "Deployment", "deployments")
    api.served.add("v1", "Namespace", "namespaces", namespaced=False)
    return api


@cases(
    ("api_version", "kind", "expected"),
    {
        "a kind of a group": ("apps/v1", "Deployment", (Collection.of("apps/v1", "deployments"), True)),
        "a kind of the core group": ("v1", "Namespace", (Collection("/api/v1/namespaces", "namespaces"), False)),
        "an unknown kind": ("apps/v1", "Widget", None),
        "an unknown version": ("apps/v2", "Deployment", None),
    },
)
def test_find_a_kind(api, api_version, kind, expected):
    found = Discovery(api, FakeClock()).find(api_version, kind)
    assert (found and (found.collection, found.namespaced)) == expected


def test_kinds_that_cannot_be_watched_are_not_found(api):
    api.served.add("authorization.k8s.io/v1", "SubjectAccessReview", "subjectaccessreviews")
    api.served.resources("authorization.k8s.io/v1")[0]["verbs"] = ["create"]
    assert Discovery(api, FakeClock()).find("authorization.k8s.io/v1", "SubjectAccessReview") is None


def test_a_version_whose_own_api_server_does_not_respond_is_an_error():
    version = {"version": "v1", "freshness": "Stale", "resources": []}
    groups = {"items": [{"metadata": {"name": "metrics.k8s.io"}, "versions": [version]}]}
    asked = Discovery(ScriptedClient({"GET /api": {"items": []}, "GET /apis": groups}), FakeClock())
    with pytest.raises(ApiError, match=r"the API server of metrics\.k8s\.io/v1 does not respond"):
        asked.find("metrics.k8s.io/v1", "NodeMetrics")
    assert asked.find("metrics.k8s.io/v2", "NodeMetrics") is None


def test_a_response_is_cached_for_some_time(api, clock):
    asked = Discovery(api, clock)
    assert asked.find("example.io/v1", "Widget") is None
    api.served.add("example.io/v1", "Widget", "widgets")
    assert asked.find("example.io/v1", "Widget") is None
    clock.pass_by(CACHE_S)
    assert asked.find("example.io/v1", "Widget") is not None
    assert len(api.requests) == 4, "two for all types; the second lookup came from the cache"


def test_a_failed_request_is_an_error_and_is_not_cached(api):
    asked = Discovery(api, FakeClock())
    api.before = refuse(503)
    with pytest.raises(ApiError):
        asked.find("apps/v1", "Deployment")
    api.before = nothing
    assert asked.find("apps/v1", "Deployment") is not None


DEPLOYMENTS = Collection.of("apps/v1", "deployments")


@cases(
    ("key", "path"),
    {
        "in a namespace": (("default", "web"), "/apis/apps/v1/namespaces/default/deployments/web"),
        "cluster-scoped": (("", "web"), "/apis/apps/v1/deployments/web"),
        "a colon stays": (("", "system:node"), "/apis/apps/v1/deployments/system:node"),
        "special characters are quoted": (("", "a b?c#d"), "/apis/apps/v1/deployments/a%20b%3Fc%23d"),
    },
)
def test_the_path_of_an_object(key, path):
    assert get(DEPLOYMENTS, key).path == path


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../secrets/x", "a%2fb", "x" * 254])
def test_an_invalid_name_is_rejected(name):
    with pytest.raises(InputError):
        merge_patch(DEPLOYMENTS, ("default", name), {})
    if name:
        with pytest.raises(InputError):
            get(DEPLOYMENTS, (name, "web"))


@cases(
    ("request_", "form"),
    {
        "a list": (page(DEPLOYMENTS, "", 1.0), "PartialObjectMetadataList"),
        "its next page": (page(DEPLOYMENTS, "next", 1.0), "PartialObjectMetadataList"),
        "a watch": (watch(DEPLOYMENTS, "1", 1, 1.0), "PartialObjectMetadata"),
        "an object": (get(DEPLOYMENTS, ("default", "web")), "PartialObjectMetadata"),
        "a patch": (merge_patch(DEPLOYMENTS, ("default", "web"), {}), "PartialObjectMetadata"),
    },
)
def test_metadata_is_requested_as_a_list_or_as_an_object(request_, form):
    api = KubeInMemory()
    api.put(DEPLOYMENTS.object(("default", "web")), {"apiVersion": "apps/v1", "kind": "Deployment"})
    with MetadataOnlyClient(api).send(request_):
        assert api.requests[-1].accept == f"application/json;as={form};g=meta.k8s.io;v=v1,application/json"
        assert api.requests[-1]._replace(accept=request_.accept) == request_


CLUSTERS = Collection.of("cluster.karmada.io/v1alpha1", "clusters")
BINDINGS = Collection.of("work.karmada.io/v1alpha2", "resourcebindings")
WIDE_BINDINGS = Collection.of("work.karmada.io/v1alpha2", "clusterresourcebindings")
SILENT = ApiError(0, "", "the server sent nothing before the read timeout")


class Checked:
    """A check of two API groups, and the API server behind it."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.client = ScriptedClient({})
        self.reports: list[tuple[str, datetime | None]] = []
        self.restored: list[str] = []
        self.source = SourceCheck(
            [CLUSTERS, BINDINGS, WIDE_BINDINGS], self.clock, self._report, restored=self.restored.append
        )
        self.answer(CLUSTERS, {"items": []})
        self.answer(WIDE_BINDINGS, {"items": []})

    def answer(self, collection: Collection, answer: object) -> None:
        self.client.answers[f"GET {collection.path}"] = answer

    def check(self, after_s: float = 0.0) -> None:
        self.clock.pass_by(after_s)
        self.source.check(self.client)

    def _report(self) -> None:
        self.reports.append((self.source.problem, self.source.stale_since))


@pytest.fixture
def checked() -> Checked:
    return Checked()


def test_one_object_of_each_api_group_is_read_from_etcd(checked):
    checked.check()
    assert [request.path for request in checked.client.asked] == [CLUSTERS.path, WIDE_BINDINGS.path]
    # A resourceVersion would let the API server respond from its memory.
    assert {request.query for request in checked.client.asked} == {(("limit", "1"),)}
    assert {request.accept for request in checked.client.asked} == {ONLY_METADATA_LIST}
    assert checked.reports == []


@cases("failing", {"the first group": CLUSTERS, "the last group": WIDE_BINDINGS})
@pytest.mark.parametrize(
    "error", [SILENT, ApiError(504, "Timeout", "504 Timeout"), ApiError(403, "Forbidden", "403 Forbidden")],
    ids=["no response", "a timeout of the API server", "a right that was taken away"],
)  # fmt: skip
def test_checks_that_fail_for_long_make_the_objects_stale_since_the_last_success(checked, failing, error):
    checked.clock.pass_by(60)
    checked.check()
    confirmed_at = checked.clock.now()
    checked.answer(failing, error)
    checked.check(UNCONFIRMED_S - 1)
    assert checked.reports == [], "one lost connection says nothing about etcd"
    checked.check(1)
    assert checked.reports == [(checked.source.problem, confirmed_at)]
    assert str(error) in checked.source.problem
    checked.check(100)
    assert checked.source.stale_since == confirmed_at, "the time of the last success, not of the last failure"
    assert len(checked.reports) == 1


def test_the_first_success_ends_it(checked, caplog):
    caplog.set_level(logging.INFO, "berthmaster.kube")
    checked.answer(CLUSTERS, SILENT)
    checked.check(UNCONFIRMED_S)
    checked.answer(CLUSTERS, {"items": []})
    checked.check(5)
    assert (checked.source.problem, checked.source.stale_since) == ("", None)
    assert checked.reports[-1] == ("", None)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    checked.answer(CLUSTERS, SILENT)
    checked.check(UNCONFIRMED_S - 1)
    assert checked.source.problem == "", "the time counts from the last success"


def at_version(version: str) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": version}, "items": []}


@cases(
    ("versions", "went_back"),
    {
        "versions rise": (["9", "10", "100"], False),
        "nothing was written": (["9", "9"], False),
        "etcd was restored": (["100", "99"], True),
        "a version with fewer digits": (["100", "9"], True),
        "later versions end nothing": (["100", "9", "101", "102"], True),
        "no number": (["100", "x9", "", "101"], False),
    },
)
def test_versions_that_fall_mean_that_etcd_was_restored(checked, versions, went_back):
    for version in versions:
        checked.answer(WIDE_BINDINGS, at_version(version))
        checked.check(15)
    assert (len(checked.restored) == 1, "etcd" in checked.source.problem) == (went_back, went_back)
    assert checked.restored == ([checked.source.problem] if went_back else [])
    if went_back:
        checked.answer(CLUSTERS, SILENT)
        checked.check(UNCONFIRMED_S + 1)
        assert checked.source.problem == checked.restored[0], "a later problem does not hide it"


def test_a_failure_is_checked_again_soon(checked):
    pause_s = checked.source._pause_s  # noqa: SLF001 - pauses are slept
    usual_s = pause_s()
    checked.answer(CLUSTERS, SILENT)
    checked.check()
    assert pause_s() < usual_s / 4
