"""KubeAdmiral's scheduler webhook over sockets: what it could not decide is counted and logged."""

import json

import pytest
from servers import Server, Wire, request, running

VERBS = ["filter", "score", "select"]


def doubts(server: Server) -> dict[str, float]:
    name = 'berthmaster_extender_answers_in_doubt_total{protocol="kubeadmiral",reason='
    lines = [line.removeprefix(name) for line in server.metrics().splitlines() if line.startswith(name)]
    counts = {line.partition("}")[0].strip('"'): float(line.rpartition(" ")[2]) for line in lines}
    return {verb: counts.get(verb, 0.0) for verb in VERBS}


def member(number: int) -> dict[str, object]:
    """Return a FederatedCluster as it is sent: with the kinds that it serves, which are most of it."""
    kinds = [
        {"group": "apps", "version": "v1", "kind": f"Kind{each}", "pluralName": f"kinds{each}", "scope": "Namespaced"}
        for each in range(300)
    ]
    return {
        "metadata": {"name": f"m{number}", "labels": {"half": str(number % 2)}},
        "status": {"apiResourceTypes": kinds},
    }


def test_a_fleet_of_500_clusters_with_all_their_kinds_is_answered(tmp_path):
    groups = [{"affinityName": "odd", "labelSelector": {"matchLabels": {"half": "1"}}}]
    asked = {
        "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web",
        "schedulingMode": "Duplicate", "annotations": {"policy.berthmaster.io/cluster-affinities": json.dumps(groups)},
    }  # fmt: skip
    scores = [{"cluster": member(number), "score": 1} for number in range(500)]
    body = json.dumps({"schedulingUnit": asked, "clusterScores": scores}).encode()
    with running("extender", "--workers", 1, log=tmp_path / "log") as server, Wire(server.port) as wire:
        wire.send(request("POST", "/kubeadmiral/v1alpha1/select", body))
        answer = json.loads(wire.answer().body)
    assert (len(answer["selectedClusterNames"]), answer["error"]) == (250, "")


@pytest.mark.parametrize("body", [b"{", b" " * 70_000], ids=["an invalid body", "a body over the limit"])
def test_an_answer_in_doubt_is_counted_and_logged_once(server, body):
    before = doubts(server)
    names = [f"{verb}-{len(body)}" for verb in VERBS]
    for verb, name in zip(VERBS, names, strict=True):
        with Wire(server.port) as wire:
            wire.send(request("POST", f"/kubeadmiral/v1alpha1/{verb}", body, X_Request_Id=name))
            assert wire.answer().status == 200
    assert doubts(server) == {verb: count + 1 for verb, count in before.items()}
    for name in names:
        logged = [line for line in server.log.read_text().splitlines() if name in line]
        [line] = [line for line in logged if "could not be decided" in line]
        assert "WARNING" in line.upper()
