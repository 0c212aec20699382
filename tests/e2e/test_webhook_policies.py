"""Berthmaster's webhook as users of a control plane see it: what is stored, denied and warned about."""

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest
from e2e.api import Api, RefusedError
from e2e.control_plane import ControlPlane
from e2e.manifests import (
    EVERY_KIND,
    admiral_cluster_policy,
    admiral_policy,
    policies_of_every_kind,
    propagation_policy,
    workload_rebalancer,
)
from e2e.processes import Processes, wait_for
from e2e.registration import registered
from e2e.service import ALL_HOOKS, Service
from e2e.serving import Serving

pytestmark = pytest.mark.e2e

DROP = "policy.berthmaster.io/priority-drop"
JSON = dict[str, Any]


@pytest.fixture(scope="module", params=["companion", "standalone"])
def mode(request: pytest.FixtureRequest) -> str:
    """Both ways to run the webhook."""
    return str(request.param)


FAULTY = {
    "PropagationPolicy": lambda: propagation_policy(
        "default", placement={"clusterAffinity": {}, "clusterAffinities": [{"affinityName": "any"}]}
    ),
    "KubeAdmiral ClusterPropagationPolicy": lambda: admiral_cluster_policy(maxClusters=-1),
    "WorkloadRebalancer": lambda: workload_rebalancer(ttlSecondsAfterFinished=-1),
}


@pytest.fixture(scope="module")
def faulty(control_plane: ControlPlane, mode: str) -> dict[str, JSON]:  # noqa: ARG001  anew for each mode
    """Objects from before the webhook, held by a finalizer, that it would not have let in."""
    stored = {}
    for kind, make in FAULTY.items():
        stored[kind] = make()
        stored[kind]["metadata"]["finalizers"] = ["berthmaster.io/hold"]
        control_plane.api.create(stored[kind])
    return stored


@pytest.fixture(scope="module")
def webhook(
    control_plane: ControlPlane,
    processes: Processes,
    mode: str,
    faulty: dict[str, JSON],  # noqa: ARG001  they stand before the webhook is asked
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Serving]:
    samples = policies_of_every_kind(control_plane.new_namespace()).values()
    folder = tmp_path_factory.mktemp("webhook")
    (folder / "client-ca.crt").write_bytes(control_plane.authority.certificate)
    # In one mode the API server must show its certificate. tests/contract checks that nobody else gets in.
    clients = [f"--client-ca-file={folder / 'client-ca.crt'}"] if mode == "standalone" else []
    with closing(Service(processes, folder, mode)) as service:
        replica = service.start("--feature-gates=PolicyPreemption=true", *clients)
        with registered(control_plane, ALL_HOOKS, service.url, service.authority.certificate, samples):
            yield replica


@pytest.fixture(autouse=True)
def _in_effect(webhook: Serving) -> None:
    """Every test of this module meets the webhook."""


def remove(api: Api, policy: Mapping[str, Any]) -> None:
    """Delete for good: in standalone mode a finalizer waits for Karmada's controller, which is not there."""
    api.delete(policy)
    if api.exists(policy):
        api.patch(policy, {"metadata": {"finalizers": None}})
    assert not api.exists(policy)


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_an_acceptable_object_is_created_updated_and_deleted(api: Api, namespace: str, kind: str):
    policy = policies_of_every_kind(namespace)[kind]
    api.create(policy)
    api.patch(policy, {"metadata": {"labels": {"touched": "yes"}}})
    assert api.get(policy)["metadata"]["labels"]["touched"] == "yes"
    remove(api, policy)


def by_field(**constraint: Any) -> JSON:
    return {"placement": {"spreadConstraints": [constraint]}}


def test_defaults_of_a_propagation_policy_arrive(api: Api, namespace: str):
    spec = api.create(
        propagation_policy(
            namespace,
            placement={
                "spreadConstraints": [{"maxGroups": 3}],
                "replicaScheduling": {"replicaSchedulingType": "Divided"},
            },
            failover={"application": {"decisionConditions": {"tolerationSeconds": 10}}},
            propagateDeps=True,
        )
    ).object["spec"]
    assert spec["resourceSelectors"][0]["namespace"] == namespace
    assert spec["placement"]["spreadConstraints"] == [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 3}]
    assert spec["placement"]["replicaScheduling"]["replicaDivisionPreference"] == "Weighted"
    assert spec["failover"]["application"]["gracePeriodSeconds"] == 600
    assert (spec["preemption"], spec["priority"]) == ("Never", 0)


GROUPS = [{"affinityName": "near", "clusterNames": ["a"]}, {"affinityName": "far", "clusterNames": ["b"]}]
REBALANCED = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}

REFUSED = {
    "both affinities": (
        lambda ns: propagation_policy(ns, placement={"clusterAffinity": {}, "clusterAffinities": GROUPS}),
        "spec.placement",
    ),
    "no cluster at most": (lambda ns: admiral_policy(ns, maxClusters=0), "spec.maxClusters"),
    "a namespaced workload without its namespace": (
        lambda ns: workload_rebalancer(REBALANCED),  # noqa: ARG005
        "spec.workloads[0].namespace",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_names_the_field(api: Api, namespace: str, case: str):
    make, path = REFUSED[case]
    policy = make(namespace)
    with pytest.raises(RefusedError) as caught:
        api.create(policy)
    assert (caught.value.status, caught.value.reason) == (403, "Forbidden")
    assert "denied the request" in caught.value.message
    assert f"{path}: " in caught.value.message
    assert path in caught.value.fields
    assert not api.exists(policy)


@pytest.mark.parametrize("kind", FAULTY)
def test_a_faulty_object_from_before_the_webhook_can_still_be_deleted(api: Api, faulty: dict[str, JSON], kind: str):
    policy = faulty[kind]
    with pytest.raises(RefusedError):
        api.create(FAULTY[kind](), dry_run=True)
    api.delete(policy)
    assert "deletionTimestamp" in api.get(policy)["metadata"]
    api.patch(policy, {"metadata": {"finalizers": None}})
    assert not api.exists(policy)


def test_a_warning_reaches_the_client_once_and_the_object_is_stored(api: Api, namespace: str):
    policy = propagation_policy(namespace, **by_field(spreadByField="cluster", minGroups=2))
    reply = api.create(policy)
    assert sum("maxGroups" in text for text in reply.warnings) == 1, reply.warnings
    assert api.exists(policy)


def drop_of(policy: Mapping[str, Any]) -> JSON | None:
    text = policy["metadata"].get("annotations", {}).get(DROP)
    return json.loads(text) if text else None


def to_priority(api: Api, policy: Mapping[str, Any], priority: int) -> JSON:
    return api.patch(policy, {"spec": {"priority": priority}}).object


def test_a_priority_drop_is_annotated_in_the_audit_log(control_plane: ControlPlane, api: Api, namespace: str):
    policy = propagation_policy(namespace, priority=10)
    api.create(policy)
    to_priority(api, policy, 5)

    def annotated() -> list[str]:
        """Blocking mode writes an event before the request ends, but maybe after its answer."""
        found = control_plane.audit_annotations(policy)
        return [text for one in found for key, text in one.items() if key.endswith("/priority-drop")]

    assert wait_for("the audit log", annotated, 5) == ['{"from": 10, "to": 5}']


def test_a_dry_run_of_a_drop_shows_the_record_and_stores_nothing(api: Api, namespace: str):
    policy = propagation_policy(namespace, priority=10)
    stored = api.create(policy).object
    shown = api.patch(policy, {"spec": {"priority": 5}}, dry_run=True)
    assert drop_of(shown.object) == {"from": 10, "to": 5}
    assert api.get(policy) == stored
    api.delete(policy, dry_run=True)
    assert api.get(policy) == stored
