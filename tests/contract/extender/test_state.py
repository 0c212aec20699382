"""The state of an extender, its protection, and its end."""

import os
import shutil
import signal
import ssl
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest
from authority import Authority
from click.testing import CliRunner
from conftest import ROOT
from servers import Wire, request, running
from waiting import wait_for

from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import convert
from berthmaster.model.errors import ServiceError
from berthmaster.native_api.client import Client
from berthmaster.native_api.what_if import PlanRequest
from berthmaster.simulation.changes import Down
from berthmaster_cli.main import main
from extender.protocols.native import examples
from extender.state.state import NO_SOURCE

EXAMPLES = ROOT / "examples" / "karmada"


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "manifests"
    made.mkdir()
    shutil.copy(EXAMPLES / "clusters.yaml", made)
    shutil.copytree(EXAMPLES / "groups", made / "groups")
    return made


@pytest.fixture
def server(folder, tmp_path):
    flags = ("-f", folder, "--interval-s", 0.1, "--workers", 1)
    with running("extender", *flags, log=tmp_path / "log") as started:
        yield started


def names(server):
    with Client(server.url) as client:
        return [cluster.name for cluster in client.clusters()]


def test_changes_are_read_and_invalid_content_is_not_used(server, folder):
    path = folder / "clusters.yaml"
    before = path.read_text()
    path.write_text(before.replace("member5", "member6"))
    wait_for(lambda: "member6" in names(server))
    path.write_text("{broken")
    wait_for(lambda: "stale since" in server.probe("/readyz")[1])
    status, text = server.probe("/readyz")
    assert status == 200, "the last valid state is in use"
    assert "clusters.yaml" in text
    assert "member6" in names(server)
    wait_for(lambda: "berthmaster_extender_state_stale 1.0" in server.metrics())
    assert 'berthmaster_extender_source_failures_total{source="folder"} 1.0' in server.metrics()
    assert "the new state cannot be used" in server.log.read_text()
    path.write_text(before)
    wait_for(lambda: server.probe("/readyz")[1] == "ok\n")
    assert "member5" in names(server)


def test_without_manifests_only_requests_with_clusters_are_answered(tmp_path):
    with running("extender", "--workers", 1, log=tmp_path / "log") as server:
        assert server.probe("/readyz") == (200, f"ok\n{NO_SOURCE}\n")
        with Client(server.url) as client, pytest.raises(Exception, match="the extender has no fleet"):
            client.plan(PlanRequest(changes=(Down("member1"),)))
    assert NO_SOURCE in (tmp_path / "log").read_text()


def test_manifests_without_workloads_are_a_gap_of_every_answer(tmp_path):
    with (
        running("extender", "-f", EXAMPLES / "clusters.yaml", "--workers", 1, log=tmp_path / "log") as server,
        Client(server.url) as client,
    ):
        answers = [
            client.fleet(), client.workloads(), client.moves(), client.policies(),
            client.plan(PlanRequest(changes=(Down("member1"),))).plan,
        ]  # fmt: skip
    gap = "the manifests have no binding and no resource template: the workloads of the fleet are not known"
    assert [gap in each.gaps for each in answers] == [True] * 5
    assert not answers[-1].complete


GOOD = request("POST", "/v1/schedule", msgspec.json.encode(examples.SCHEDULE_OWN_FLEET))
TOKEN = "a-token-of-some-length"  # noqa: S105 - valid for the service of this test only


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def secured(authority, tmp_path_factory):
    """Start a service with TLS, client certificates and tokens, and without a fleet."""
    folder = tmp_path_factory.mktemp("secured")
    (folder / "tokens").write_text(f"{TOKEN},alice\n")
    certificate, key = authority.issue("localhost")
    flags = (
        "--cert-file", certificate, "--key-file", key, "--client-ca-file", authority.ca, "--token-file",
        folder / "tokens", "--workers", 1,
    )  # fmt: skip
    with running("extender", *flags, log=folder / "log") as server:
        yield server, folder / "tokens"


def context(authority, *, certificate=True):
    made = ssl.create_default_context(cafile=authority.ca)
    if certificate:
        made.load_cert_chain(*authority.issue("client"))
    return made


@pytest.mark.parametrize(
    ("header", "status"),
    [
        pytest.param({"Authorization": f"Bearer {TOKEN}"}, 200, id="a valid token"),
        pytest.param({"Authorization": f"Bearer {TOKEN}x"}, 401, id="an unknown token"),
        pytest.param({}, 401, id="no token"),
    ],
)
def test_a_valid_token_is_required(secured, authority, header, status):
    with Wire(secured[0].port, context(authority)) as wire:
        head, _, body = GOOD.partition(b"\r\n\r\n")
        lines = "".join(f"\r\n{name}: {value}" for name, value in header.items()).encode()
        wire.send(head + lines + b"\r\n\r\n" + body)
        answer = wire.answer()
    assert answer.status == status
    assert ("www-authenticate" in answer.headers) == (status == 401)


def test_clients_without_a_token_do_not_learn_which_paths_exist(secured, authority):
    for method, path in (("GET", "/nothing"), ("GET", "/openapi.json"), ("PUT", "/v1/schedule")):
        with Wire(secured[0].port, context(authority)) as wire:
            wire.send(request(method, path))
            assert wire.answer().status == 401


def test_a_client_certificate_is_required(secured, authority):
    # In TLS 1.3, the client gets the error when it reads.
    with Wire(secured[0].port, context(authority, certificate=False)) as wire:
        wire.send(GOOD)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            wire.answer()


def test_the_client_sends_its_certificate_and_token(secured, authority):
    server, tokens = secured
    url, binding = f"https://127.0.0.1:{server.port}", convert(Binding, examples.BINDING)
    shown = {"ca_file": authority.ca, "certificate": authority.issue("client")}
    with Client(url, **shown) as client, pytest.raises(ServiceError, match="bearer token") as refused:
        client.schedule(binding)
    assert refused.value.status == 401
    clusters = [convert(Cluster, raw) for raw in examples.CLUSTERS]
    with Client(url, token_file=tokens, **shown) as client:
        assert client.schedule(binding, clusters).clusters == {"private-1": 6}
        with pytest.raises(ServiceError, match="the extender has no fleet"):
            client.schedule(binding)


@pytest.mark.parametrize(
    ("flags", "missing"),
    [
        pytest.param(["--bind", "0.0.0.0:0"], "TLS is not configured", id="plain HTTP"),
        pytest.param(
            ["--bind", "[::]:0", "--cert-file", "c", "--key-file", "k"],
            "authentication is not configured",
            id="TLS only",
        ),
        pytest.param(["--bind", "192.0.2.1:0", "--token-file", "t"], "TLS is not configured", id="tokens only"),
    ],
)
def test_it_refuses_to_serve_beyond_loopback_without_protection(flags, missing):
    result = CliRunner().invoke(main, ["extender", *flags])
    assert missing in str(result.exception)
    assert "--insecure" in str(result.exception)


def test_clients_that_have_connected_before_the_stop_are_answered_and_later_ones_refused(tmp_path):
    with running("extender", "--workers", 1, "--grace-s", 60, log=tmp_path / "log") as server, ExitStack() as stack:
        [worker] = filter(stops_at_term, children(server.process.pid))
        os.kill(worker, signal.SIGSTOP)
        try:
            wait_for(lambda: set(states(worker)) == {"T"})  # a thread that still runs could take the next signal
            clients = [stack.enter_context(Wire(server.port, timeout_s=60)) for _ in range(3)]
            for client in clients:
                client.send(GOOD)
            server.process.send_signal(signal.SIGTERM)
            wait_for(lambda: has_term(worker, "ShdPnd"))
        finally:
            os.kill(worker, signal.SIGCONT)
        answers = [final_answer(client) for client in clients]
        assert [(each.status, each.headers["connection"]) for each in answers] == [(200, "close")] * 3
        with pytest.raises(ConnectionRefusedError):
            Wire(server.port)


def final_answer(client):
    """Return the next response that is not an interim one."""
    while (answer := client.answer()).status == 100:
        pass
    return answer


def children(pid):
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def stops_at_term(pid):
    """Return whether a process is a worker: the one that serves the probes ignores SIGTERM."""
    return not has_term(pid, "SigIgn")


def has_term(pid, field):
    signals = int(status(Path(f"/proc/{pid}"), field), 16)
    return bool(signals >> (signal.SIGTERM - 1) & 1)


def states(pid):
    """Return the states of all threads of a process: ``T`` is stopped."""
    return [status(task, "State") for task in Path(f"/proc/{pid}/task").iterdir()]


def status(folder, field):
    """Return the first word of a field in the status of a process or a thread."""
    lines = (folder / "status").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith(f"{field}:"))


def test_workers_that_were_killed_leave_their_counts_and_no_files(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with running("extender", "--workers", 1, log=tmp_path / "log") as server:

        def asked():
            lines = server.metrics().splitlines()
            return sum(
                float(each.split()[-1]) for each in lines if each.startswith("berthmaster_extender_requests_total{")
            )

        def worker():
            children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
            return [pid for pid in map(int, children) if pid not in killed]

        killed, counts, files = set(), [], []
        for _ in range(5):
            wait_for(lambda: answered(server.port))
            counts.append(asked())
            files.append(len(list(tmp_path.rglob("*.db"))))
            for pid in worker():
                killed.add(pid)
                os.kill(pid, signal.SIGKILL)
            wait_for(lambda: server.probe("/readyz")[0] == 200)
        assert counts == sorted(counts)
        assert counts[-1] >= 5
        assert files[-1] <= files[1] + 1, files


def answered(port):
    """Whether the service answered a request."""
    try:
        with Wire(port) as wire:
            wire.send(request("GET", "/openapi.json"))
            return wire.answer().status == 200
    except OSError:
        return False
