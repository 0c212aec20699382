"""The guarantees of the API server in memory, which are those of kube-apiserver."""

import json
import threading

import pytest
from faults import in_turn, lose, nothing, only, refuse
from kube_in_memory import KubeInMemory

from berthmaster.kube import requests
from berthmaster.kube.client import ask
from berthmaster.kube.requests import APIRequest, Collection
from berthmaster.model.errors import ApiError

THINGS = Collection.of("example.io/v1", "things")
NODES = Collection.of("v1", "nodes")
KEY = ("ns", "one")
PATH = THINGS.object(KEY)
ONE = {"kind": "Thing", "metadata": {"name": "one", "labels": {"a": "b"}}, "spec": {"n": 1}, "status": {"ready": 1}}


@pytest.fixture
def api() -> KubeInMemory:
    """An API server with one object in version 1."""
    api = KubeInMemory()
    api.put(PATH, ONE)
    return api


def answer(api: KubeInMemory, request: APIRequest):
    return json.loads(ask(api, request))


def outcome(api: KubeInMemory, request: APIRequest) -> tuple[int, str]:
    try:
        api.send(request)
    except ApiError as error:
        return error.status, error.reason
    return 200, ""


CONFLICT, INVALID, DONE = (409, "Conflict"), (422, "Invalid"), (200, "")


def test_a_created_object_gets_server_metadata_and_no_status():
    api = KubeInMemory()
    made = answer(api, requests.create(THINGS, "ns", ONE))
    assert made == api.get(PATH)
    assert "status" not in made
    assert {"uid", "generation", "creationTimestamp", "resourceVersion", "namespace"} < set(made["metadata"])
    api.send(requests.delete(THINGS, KEY))
    assert answer(api, requests.create(THINGS, "ns", ONE))["metadata"]["uid"] != made["metadata"]["uid"]


def test_generate_name():
    api = KubeInMemory()
    nameless = requests.create(THINGS, "ns", {"metadata": {"generateName": "one-"}})
    names = [answer(api, nameless)["metadata"]["name"] for _ in range(2)]
    assert len(set(names)) == 2
    assert all(name.startswith("one-") for name in names)
    assert list(api.objects) == [THINGS.object(("ns", name)) for name in names]


def test_a_dry_run_stores_nothing():
    api = KubeInMemory()
    request = requests.create(THINGS, "ns", ONE)._replace(query=(("dryRun", "All"),))
    assert "creationTimestamp" in answer(api, request)["metadata"]
    assert (api.objects, api.version, api.done) == ({}, 0, [])


def test_a_list_is_ordered_by_path(api):
    for name in ("c", "b"):
        api.put(THINGS.object(("ns", name)), {})
    api.put(THINGS.object(("other", "a")), {})
    api.put(NODES.object(("", "a")), {})
    listed = answer(api, requests.page(THINGS, "", 1.0))
    assert [each["metadata"]["name"] for each in listed["items"]] == ["b", "c", "one", "a"]
    assert listed["metadata"]["resourceVersion"] == str(api.version)
    in_one = answer(api, APIRequest(THINGS.within("other"), (("limit", "500"),)))
    assert [each["metadata"]["name"] for each in in_one["items"]] == ["a"]


def watched(api: KubeInMemory, since: int, end) -> list[tuple[str, str]]:
    """The events of a watch until it ends."""
    watching = api.send(requests.watch(THINGS, str(since), 1, 1.0))
    timer = threading.Timer(0.05, end, [watching])
    timer.start()
    lines = [json.loads(line) for line in watching.chunks()]
    timer.join()
    return [(each["type"], each["object"]["metadata"]["resourceVersion"]) for each in lines]


@pytest.mark.parametrize(
    "end", [lambda api, _: api.cut_watches(), lambda _, watching: watching.abort()], ids=["the server", "the client"]
)
def test_a_watch_streams_the_changes_after_a_version_until_it_is_ended_by(api, end):
    api.put(NODES.object(("", "a")), {})
    api.edit(PATH, spec={"n": 2})
    api.remove(PATH)
    api.put(PATH, ONE)
    after_the_first = [("MODIFIED", "3"), ("DELETED", "4"), ("ADDED", "5")]
    assert watched(api, 1, lambda watching: end(api, watching)) == after_the_first
    assert watched(api, 0, lambda watching: end(api, watching)) == [("ADDED", "1"), *after_the_first]


def test_a_watch_streams_later_changes(api):
    watching = api.send(requests.watch(THINGS, "1", 1, 1.0)).chunks()
    timer = threading.Timer(0.05, api.edit, [PATH], {"spec": {"n": 2}})
    timer.start()
    assert json.loads(next(watching))["object"]["spec"] == {"n": 2}
    timer.join()


def test_a_watch_from_a_forgotten_version_expires(api):
    api.edit(PATH, spec={"n": 2})
    api.cut_watches(forget=True)
    assert outcome(api, requests.watch(THINGS, "1", 1, 1.0)) == (410, "Expired")
    api.send(requests.watch(THINGS, "2", 1, 1.0)).abort()


@pytest.mark.parametrize(
    ("side", "fault", "statuses", "version"),
    [
        pytest.param("before", refuse(429), [429, 429, 429], 1, id="rejected before it is processed"),
        pytest.param("before", in_turn(nothing, refuse(503)), [200, 503, 200], 3, id="only the second request"),
        pytest.param("before", only(refuse(500), "PUT", part="thing", times=2), [200] * 3, 4, id="only another method"),
        pytest.param("before", only(refuse(500), "PATCH", times=2), [500, 500, 200], 2, id="the first two requests"),
        pytest.param("before", only(refuse(500), part="/nodes"), [200] * 3, 4, id="only another path"),
        pytest.param("after", in_turn(lose), [0, 200, 200], 4, id="processed, but the response is lost"),
    ],
)
def test_faults(api, side, fault, statuses, version):
    setattr(api, side, fault)
    found = [outcome(api, requests.merge_patch(THINGS, KEY, {"spec": {"x": number}})) for number in range(3)]
    assert [status for status, _ in found] == statuses
    assert api.version == version == 1 + len(api.done)
    assert api.methods == ["PATCH"] * 3
    assert api.writes() == api.requests


def test_discovery(api):
    assert outcome(api, APIRequest("/apis/example.io/v1")) == (404, "NotFound")
    api.served.add("example.io/v1", "Thing", "things")
    [resource] = answer(api, APIRequest("/apis/example.io/v1"))["resources"]
    assert (resource["kind"], resource["name"], resource["namespaced"]) == ("Thing", "things", True)
    manifest = {**ONE, "apiVersion": "example.io/v1", "metadata": {"name": "one", "namespace": "ns"}}
    assert api.served.path(manifest) == PATH
