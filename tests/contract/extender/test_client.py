"""The client, and the commands that use it."""

import pytest
from click.testing import CliRunner
from conftest import ROOT
from free_ports import free_port
from http_peer import HttpPeer, http_response
from msgspec.structs import replace
from tables import cases

from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import convert
from berthmaster.model.errors import ServiceError
from berthmaster.native_api.client import Client
from berthmaster.native_api.connection import AbandonedError, RequestRefusedError, UnansweredError
from berthmaster.native_api.fleet import WorkloadQuery
from berthmaster.native_api.policies import PolicyQuery
from berthmaster.native_api.what_if import PlanRequest
from berthmaster.simulation.changes import Down
from berthmaster.simulation.plan_answer import Switch
from berthmaster.views.move_rows import MoveQuery
from berthmaster_cli.main import main
from extender.protocols.native import examples

MANIFESTS = [
    "-f",
    str(ROOT / "examples" / "karmada" / "clusters.yaml"),
    "-f",
    str(ROOT / "examples" / "karmada" / "groups"),
]
BINDING = convert(Binding, examples.BINDING)
CLUSTERS = tuple(convert(Cluster, raw) for raw in examples.CLUSTERS)


@pytest.fixture
def client(server):
    with Client(server.url) as made:
        yield made


def berthmaster(*args):
    result = CliRunner().invoke(main, args)
    assert result.exit_code == 0, result.output + repr(result.exception)
    return result.stdout


def test_the_client_decodes_answers(client):
    decided = client.schedule(BINDING, CLUSTERS, explain=True)
    assert (decided.group, decided.clusters) == ("private", {"private-1": 6})
    assert decided.diagnosis.groups[0].clusters[0].capacity == 8
    lost = client.plan(PlanRequest(changes=(Down("member1"),), failover=Switch.ON))
    assert lost.plan.moves[0].moves == {"member1": (2, None), "member2": (None, 2)}
    assert [cluster.name for cluster in client.clusters()] == [f"member{number}" for number in range(1, 6)]
    assert client.decision("nginx-deployment", "default").clusters == {"member1": 2}
    planned = client.plan(convert(PlanRequest, examples.PLAN))
    assert (planned.counts.workloads, planned.counts.moved) == (1, 0), "the policy selects no workload of the fleet"
    assert client.plan(convert(PlanRequest, examples.PLAN), given_up=lambda: False) == planned
    assert client.binding("nginx-deployment", "default").resource.kind == "Deployment"
    fleet, page = client.fleet(), client.workloads(WorkloadQuery(q="nginx", namespaces=frozenset({"default"})))
    assert ([each.name for each in fleet.clusters], page.items[0].kind) == (
        [f"member{number}" for number in range(1, 6)],
        "Deployment",
    )
    assert client.version().version == fleet.version == page.version


def test_questions_take_the_namespaces_of_the_reader(client):
    seen = {"namespaces": {"default"}}
    whole, scoped = client.binding("nginx-deployment", "default"), client.binding("nginx-deployment", "default", **seen)
    assert replace(scoped, staleness=whole.staleness) == whole
    assert client.decision("nginx-deployment", "default", **seen).clusters == {"member1": 2}
    assert client.resilience(**seen).impacts == client.resilience().impacts


def test_a_reader_may_have_more_namespaces_than_a_request_line_holds(client):
    namespaces = {"default", *(f"a-namespace-with-a-long-name-{number}" for number in range(1000))}
    listed = client.policies(PolicyQuery(namespaces=frozenset(namespaces)))
    assert {each.namespace for each in listed.items} == {"default"}
    assert client.policies(PolicyQuery(namespaces=frozenset(namespaces - {"default"}))).items == []
    assert client.moves(MoveQuery(namespaces=frozenset(namespaces), limit=1)).moves == []
    planned = client.plan(replace(convert(PlanRequest, examples.PLAN), namespaces=frozenset(namespaces)))
    assert planned.counts.workloads == 1


def test_the_error_of_a_refusal_has_the_request_id(client):
    with pytest.raises(
        ServiceError, match=r"there is no binding 'default/nothing' \(request [0-9a-f]{32}\)"
    ) as refused:
        client.decision("nothing", "default")
    assert refused.value.status == 404


def test_a_request_that_is_too_large_is_an_error_before_it_is_sent_completely(client):
    annotations = {"a": "x" * 40 * 2**20}  # more than the buffers of a socket
    large = replace(BINDING, metadata=replace(BINDING.metadata, annotations=annotations))
    with pytest.raises(ServiceError, match=r"the body has [0-9]+ bytes; the limit is 65536") as refused:
        client.schedule(large)
    assert refused.value.status == 413


def test_an_unreachable_service_is_an_error():
    with Client(f"http://127.0.0.1:{free_port()}") as client, pytest.raises(ServiceError, match="cannot be reached"):
        client.schedule(BINDING)


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["simulate", "--failover=on", "--down", "member1", "--scale", "deployment/nginx=5"], id="changes"),
        pytest.param(["simulate", "--label", "member2=a=b", "--reschedule"], id="a reschedule"),
        pytest.param(["simulate", "--taint", "member1=a=b:NoExecute", "-o", "json"], id="JSON"),
        pytest.param(["explain", "deployment/nginx"], id="an explanation"),
        pytest.param(["explain", "default/deployment/nginx", "-o", "yaml"], id="an explanation in YAML"),
    ],
)
def test_the_service_gives_the_output_of_the_command(server, command):
    assert berthmaster(*command, "--server", server.url) == berthmaster(*command, *MANIFESTS)


def test_a_workload_that_the_changes_do_not_concern_is_no_unknown_one(server):
    words = ["simulate", "--label", "member5=a=b", "deployment/nginx", "--server", server.url]
    result = CliRunner().invoke(main, words)
    assert (result.exit_code, "Deployment/nginx is not in the plan" in result.stderr) == (0, True), result.output


def chunked(*lines: bytes, ends: bool = True) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in lines)
    return head + chunks + (b"0\r\n\r\n" if ends else b"")


PROGRESS = b'{"progress":{"about":"the plan","begunAt":"2026-01-01T00:00:00Z","done":1,"total":9}}\n'
PROBLEM = b'{"problem":{"title":"","status":409,"detail":"not observed"}}\n'
REFUSED = b'{"title":"","status":429,"detail":"busy"}'


@cases(
    ("answer", "given_up", "error", "text"),
    {
        "the visitor has gone": (chunked(PROGRESS, ends=False), True, AbandonedError, "given up"),
        "a problem in the last line": (chunked(PROGRESS, PROBLEM), False, RequestRefusedError, "not observed"),
        "a refusal": (http_response("429 Busy", body=REFUSED), False, RequestRefusedError, "busy"),
        "no last line": (chunked(PROGRESS), False, UnansweredError, "before the last line"),
        "an answer that breaks": (chunked(PROGRESS, ends=False), False, UnansweredError, "did not answer"),
        "something else": (chunked(b"<html>\n"), False, ServiceError, "cannot be decoded"),
    },
)
def test_a_plan_that_has_no_answer(answer, given_up, error, text):
    peer = HttpPeer([answer])
    try:
        with (
            Client(f"http://127.0.0.1:{peer.port}", timeout_s=1.0) as client,
            pytest.raises(error, match=text) as failed,
        ):
            client.plan(convert(PlanRequest, examples.PLAN), given_up=lambda: given_up)
    finally:
        peer.close()
    assert type(failed.value) is error
