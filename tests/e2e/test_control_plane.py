"""The harness itself: what the other tests stand on."""

from collections.abc import Callable
from typing import Any

import pytest
from e2e.api import Api, RefusedError
from e2e.control_plane import ControlPlane, crd_folder, definitions, established
from e2e.manifests import (
    EVERY_KIND,
    admiral_policy,
    pod,
    policies_of_every_kind,
    propagation_policy,
    unique,
)
from e2e.processes import Process, wait_for

pytestmark = pytest.mark.e2e

BIND_LIMIT_S = 20.0


def test_every_definition_of_the_folder_is_established(api: Api):
    wanted = definitions(crd_folder())
    assert len(wanted) >= len(EVERY_KIND)
    assert all(established(api.get(definition)) for definition in wanted)


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_every_policy_kind_is_created_updated_and_deleted(api: Api, namespace: str, kind: str):
    policy = policies_of_every_kind(namespace)[kind]
    created = api.create(policy).object
    assert created["metadata"]["generation"] == 1

    updated = api.patch(policy, {"metadata": {"labels": {"touched": "yes"}}}).object
    assert updated["metadata"]["resourceVersion"] != created["metadata"]["resourceVersion"]
    assert api.get(policy)["metadata"]["labels"] == {"touched": "yes"}

    api.delete(policy)
    assert not api.exists(policy)


def test_defaults_of_karmadas_definitions_arrive(api: Api, namespace: str):
    spec = api.create(propagation_policy(namespace)).object["spec"]
    assert (spec["priority"], spec["preemption"]) == (0, "Never")
    assert (spec["conflictResolution"], spec["schedulerName"]) == ("Abort", "default-scheduler")


def test_defaults_of_kubeadmirals_definitions_arrive(api: Api, namespace: str):
    stored = api.create(admiral_policy(namespace)).object
    triggers = {
        "policyContentChanged": True,
        "clusterJoined": False,
        "clusterLabelsChanged": False,
        "clusterAPIResourcesChanged": False,
    }
    assert stored["spec"]["replicasStrategy"] == "Spread"
    assert stored["spec"]["reschedulePolicy"] == {
        "rescheduleWhen": triggers,
        "replicaRescheduling": {"avoidDisruption": True},
    }


def test_a_refusal_carries_status_reason_and_field(api: Api, namespace: str):
    with pytest.raises(RefusedError) as caught:
        api.create(propagation_policy(namespace, preemption="Sometimes"))
    assert (caught.value.status, caught.value.reason) == (422, "Invalid")
    assert "spec.preemption" in caught.value.message


def test_a_dry_run_is_answered_in_full_and_stores_nothing(api: Api, namespace: str):
    policy = propagation_policy(namespace)
    assert api.create(policy, dry_run=True).object["spec"]["priority"] == 0
    assert not api.exists(policy)


def test_warnings_of_the_api_server_reach_the_tests(api: Api, namespace: str):
    policy = propagation_policy(namespace)
    policy["metadata"]["finalizers"] = ["unqualified-name"]
    reply = api.create(policy)
    api.patch(policy, {"metadata": {"finalizers": None}})
    assert len(reply.warnings) == 1
    assert 'metadata.finalizers: "unqualified-name"' in reply.warnings[0]


def test_namespaces_are_apart(api: Api, control_plane: ControlPlane, namespace: str):
    policy = propagation_policy(namespace)
    api.create(policy)
    other = control_plane.new_namespace()
    assert other != namespace
    assert api.list(policy["apiVersion"], policy["kind"], other) == []


def test_a_scheduler_with_its_own_configuration_binds_a_pod_to_a_node_made_by_hand(
    api: Api, namespace: str, scheduler: Callable[..., Process], nodes: Callable[..., dict[str, Any]]
):
    name = unique("scheduler")
    scheduler({"profiles": [{"schedulerName": name}]})
    here, _there = nodes(zone="here"), nodes(zone="there")
    waiting = pod(namespace, name, nodeSelector={"zone": "here"})
    api.create(waiting)
    bound = wait_for("the pod to be bound", lambda: api.get(waiting)["spec"].get("nodeName"), BIND_LIMIT_S)
    assert bound == here["metadata"]["name"]
