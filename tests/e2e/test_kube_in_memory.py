"""The API server in memory behaves as the real one: the same writes have the same results."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from e2e.control_plane import ControlPlane
from e2e.manifests import JSON, workload_rebalancer
from kube_in_memory import KubeInMemory

from berthmaster.controllers.rebalancer.reconciler import is_gone
from berthmaster.kube.client import APIClient, ask
from berthmaster.kube.http_client import load_client
from berthmaster.kube.requests import (
    APIRequest,
    Collection,
    apply,
    create,
    delete,
    get,
    json_patch,
    merge_patch,
    page,
    replace,
    watch,
)
from berthmaster.model.errors import ApiError

REBALANCERS = Collection.of("apps.karmada.io/v1alpha1", "workloadrebalancers")
LABELS = {"labels": {"a": "b"}}
STATUS = {"observedGeneration": 3}
Write = Callable[[JSON], APIRequest]
"""Makes a write from the stored object."""


def key(stored: JSON) -> tuple[str, str]:
    return "", stored["metadata"]["name"]


def changed(stored: JSON, metadata: JSON, **fields: Any) -> JSON:
    return {**stored, **fields, "metadata": {**stored["metadata"], **metadata}}


def merging(subresource: str = "", **patch: Any) -> Write:
    return lambda stored: merge_patch(REBALANCERS, key(stored), patch, subresource)


def replacing(metadata: JSON, subresource: str = "", **fields: Any) -> Write:
    return lambda stored: replace(REBALANCERS, key(stored), changed(stored, metadata, **fields), subresource)


def operating(op: str, path: str, value: Any) -> Write:
    return lambda stored: json_patch(REBALANCERS, key(stored), [{"op": op, "path": path, "value": value}], "me")


def applying(metadata: JSON, **fields: Any) -> Write:
    def write(stored: JSON) -> APIRequest:
        kind = {field: stored[field] for field in ("apiVersion", "kind")}
        named = {"name": stored["metadata"]["name"], **metadata}
        return apply(REBALANCERS, key(stored), {**kind, "metadata": named, **fields}, "me")

    return write


def making(metadata: JSON) -> Write:
    """A new object with another name, or with the same one if the name does not show."""

    def write(stored: JSON) -> APIRequest:
        return create(REBALANCERS, "", {**stored, "metadata": {"name": stored["metadata"]["name"], **metadata}})

    return write


def unchanged(field: str) -> Write:
    return lambda stored: merging(metadata={field: stored["metadata"][field], **LABELS})(stored)


ANOTHER_UID, ANOTHER_VERSION = {"uid": "another"}, {"resourceVersion": "1"}
WRITES: dict[str, Write] = {
    "a patch": merging(metadata=LABELS, spec={"ttlSecondsAfterFinished": 5}),
    "a patch of the same uid": unchanged("uid"),
    "a patch of the same version": unchanged("resourceVersion"),
    "a patch of another uid": merging(metadata={**ANOTHER_UID, **LABELS}),
    "a patch of another version": merging(metadata={**ANOTHER_VERSION, **LABELS}),
    "a patch of both": merging(metadata={**ANOTHER_UID, **ANOTHER_VERSION, **LABELS}),
    "a patch without a version": merging(metadata={"resourceVersion": None, **LABELS}),
    "a patch of the name": merging(metadata={"name": "another"}),
    "an empty patch": merging(),
    "a patch of immutable metadata": merging(metadata={"generation": 9, "creationTimestamp": None}),
    "a patch of a status without its subresource": merging(status=STATUS),
    "a patch of a status": merging("status", metadata=LABELS, status=STATUS, spec={"ttlSecondsAfterFinished": 5}),
    "a patch of a status of another uid": merging("status", metadata=ANOTHER_UID, status=STATUS),
    "a patch of a status of another version": merging("status", metadata=ANOTHER_VERSION, status=STATUS),
    "a replacement": replacing(LABELS, status=STATUS),
    "a replacement of another uid": replacing({**ANOTHER_UID, **LABELS}),
    "a replacement of another version": replacing({**ANOTHER_VERSION, **LABELS}),
    "a replacement without a version": replacing({"resourceVersion": "", **LABELS}),
    "a replacement of a status": replacing(LABELS, "status", status=STATUS),
    "a replacement of a status of another uid": replacing(ANOTHER_UID, "status", status=STATUS),
    "a JSON patch": operating("add", "/spec/ttlSecondsAfterFinished", 5),
    "a JSON patch of another uid": operating("replace", "/metadata/uid", "another"),
    "a JSON patch of another version": operating("replace", "/metadata/resourceVersion", "1"),
    "an apply": applying(LABELS),
    "an apply with another uid": applying({**ANOTHER_UID, **LABELS}),
    "an apply with another version": applying({**ANOTHER_VERSION, **LABELS}),
    "a create of an existing object": making({}),
    "a create with a version": making(ANOTHER_VERSION),
    "a deletion": lambda stored: delete(REBALANCERS, key(stored)),
    "a deletion of another uid": lambda stored: delete(REBALANCERS, key(stored), uid="another"),
    "a deletion of another version": lambda stored: delete(REBALANCERS, key(stored), resource_version="1"),
}


def seen(stored: JSON) -> JSON:
    """An object without the values that differ between servers."""
    own = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "deletionGracePeriodSeconds")
    metadata = {field: value for field, value in stored["metadata"].items() if field not in own}
    if "deletionTimestamp" in metadata:
        metadata["deletionTimestamp"] = "set"
    return {**{field: value for field, value in stored.items() if field != "kind"}, "metadata": metadata}


def answered(server: APIClient, request: APIRequest) -> Any:
    try:
        answer = json.loads(ask(server, request))
    except ApiError as error:
        return error.status, error.reason
    return seen(answer) if answer.get("kind") != "Status" else answer["status"]


def observed_changes(server: APIClient, version: str, name: str) -> list[str]:
    with server.send(watch(REBALANCERS, version, 30, 40.0)) as watching:
        for chunk in watching.chunks():
            for line in filter(None, chunk.split(b"\n")):
                event = json.loads(line)
                if event["object"]["metadata"].get("name") == name:
                    watching.abort()
                    return [event["type"], seen(event["object"])]
    return []


def outcome(server: APIClient, content: JSON, write: Write) -> list[Any]:
    """Create an object and write to it. Return the responses, the stored object, its list entry and its watch event."""
    stored = json.loads(ask(server, create(REBALANCERS, "", content)))
    found = [seen(stored), answered(server, write(stored))]
    found.append(answered(server, get(REBALANCERS, key(stored))))
    listed = json.loads(ask(server, page(REBALANCERS, "", 5.0)))["items"]
    left = [each for each in listed if key(each) == key(stored)]
    found.append([seen(each) for each in left])
    version = stored["metadata"]["resourceVersion"]
    if [each["metadata"]["resourceVersion"] for each in left] == [version]:
        return [*found, "no new version"]
    return [*found, observed_changes(server, version, key(stored)[1])]


@pytest.mark.parametrize("write", WRITES.values(), ids=list(WRITES))
def test_both_servers_give_the_same_results(control_plane: ControlPlane, write: Write):
    content = workload_rebalancer()
    content["status"] = {"observedGeneration": 1}
    memory = KubeInMemory()
    memory.put(REBALANCERS.object(("", "first")), {})  # so that another object has version 1
    real = load_client(control_plane.kubeconfig)
    assert outcome(memory, content, write) == outcome(real, content, write)


def test_a_kind_that_is_not_served_is_not_a_missing_object(control_plane: ControlPlane):
    server, found = load_client(control_plane.kubeconfig), {}
    for version in ("v1alpha2", "v1alpha9"):
        bindings = Collection.of(f"work.karmada.io/{version}", "resourcebindings")
        with pytest.raises(ApiError) as refusal:
            ask(server, get(bindings, ("default", "ghost-deployment")))
        found[version] = refusal.value.status, is_gone(refusal.value)
    assert found == {"v1alpha2": (404, True), "v1alpha9": (404, False)}


def test_both_servers_keep_a_deleted_object_until_its_last_finalizer_is_gone(control_plane: ControlPlane):
    content = workload_rebalancer()
    content["metadata"]["finalizers"] = ["example.org/a", "example.org/b"]
    key_of = "", content["metadata"]["name"]
    writes = [
        create(REBALANCERS, "", content),
        delete(REBALANCERS, key_of),
        delete(REBALANCERS, key_of),
        merge_patch(REBALANCERS, key_of, {"metadata": {"deletionTimestamp": None, "finalizers": ["example.org/b"]}}),
        merge_patch(REBALANCERS, key_of, {"metadata": {"finalizers": None}}),
    ]
    servers = KubeInMemory(), load_client(control_plane.kubeconfig)

    def stored_after(server: APIClient, write: APIRequest) -> Any:
        # The answer to a deletion is not compared: a real server answers with the object that stays.
        answered(server, write)
        return answered(server, get(REBALANCERS, key_of))

    found = [[stored_after(server, each) for each in writes] for server in servers]
    assert found[0] == found[1]
    assert found[0][-1] == (404, "NotFound")
