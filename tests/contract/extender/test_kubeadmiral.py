"""KubeAdmiral's scheduler webhook over sockets: what it could not decide is counted and logged."""

import pytest
from servers import Server, Wire, request

VERBS = ["filter", "score", "select"]


def doubts(server: Server) -> dict[str, float]:
    name = 'berthmaster_extender_answers_in_doubt_total{protocol="kubeadmiral",reason='
    lines = [line.removeprefix(name) for line in server.metrics().splitlines() if line.startswith(name)]
    counts = {line.partition("}")[0].strip('"'): float(line.rpartition(" ")[2]) for line in lines}
    return {verb: counts.get(verb, 0.0) for verb in VERBS}


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
