"""The parts around Karmada's own suite: its report, the table of plays, the clusters of kind, a busy API server."""

import http.client
import json
import ssl
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from authority import Authority
from e2e.processes import NotInTimeError, Processes
from free_ports import free_port
from karmada_suite import kind_clusters
from karmada_suite.__main__ import main
from karmada_suite.play import Play, Spec, has_ended, read
from karmada_suite.refusing_proxy import RefusingProxy
from karmada_suite.table import differences, failures, only_first, table


def spec(name, *, file="scheduling", passed=True, seconds=4.0):
    return Spec(file, name, passed, seconds, "" if passed else "scheduling_test.go:7 it timed out")


def play(player, *specs):
    return Play(player, 60.0, {(each.file, each.name): each for each in specs})


def report(*, state="passed", kind="It", failure=None):
    return {
        "LeafNodeType": kind,
        "State": state,
        "RunTime": 4_100_000_000,
        "ContainerHierarchyTexts": ["Preemption testing", "by priority"],
        "LeafNodeText": "takes over",
        "LeafNodeLocation": {"FileName": "/go/src/test/e2e/suites/base/preemption_test.go", "LineNumber": 3},
        **({"Failure": failure} if failure else {}),
    }


def test_a_report_has_the_specs_that_ran():
    failure = {"Message": "Timed out", "Location": {"FileName": "/go/src/framework/work.go", "LineNumber": 9}}
    reports = [report(), report(state="failed", failure=failure), report(state="skipped"), report(kind="BeforeSuite")]
    name = "Preemption testing by priority takes over"
    for each, wanted in zip(
        reports,
        (
            [Spec("preemption", name, passed=True, seconds=4.1)],
            [Spec("preemption", name, passed=False, seconds=4.1, failure="work.go:9 Timed out")],
            [],
            [],
        ),
        strict=True,
    ):
        assert list(read(json.dumps([{"SpecReports": [each]}])).values()) == wanted


def test_a_table_counts_what_passed_by_file():
    plays = [
        play("theirs", spec("a", seconds=2.0), spec("b"), spec("c", file="failover")),
        play("ours", spec("a"), spec("b", passed=False)),
    ]
    assert list(table(plays)) == [
        "| Specs | | theirs | ours |",
        "|---|---|---|---|",
        "| failover | 1 | 1 in 4.0 s | - |",
        "| scheduling | 2 | 2 in 3.0 s | 1 in 4.0 s |",
        "| all | 3 | 3 in 4.0 s | 1 in 4.0 s |",
    ]


def test_a_difference_is_a_spec_that_both_played():
    theirs = play("theirs", spec("a"), spec("b"), spec("c", passed=False), spec("d"))
    ours = play("ours", spec("a"), spec("b", passed=False), spec("c"))
    assert only_first(theirs, ours) == [("scheduling", "b")]
    assert list(differences(theirs, ours)) == [
        "1 specs pass only with theirs",
        "  scheduling: b",
        "    scheduling_test.go:7 it timed out",
        "1 specs pass only with ours",
        "  scheduling: c",
        "    scheduling_test.go:7 it timed out",
    ]
    assert list(failures(ours)) == [
        "ours: 2 of 3 specs passed in 60 s",
        "  scheduling: b",
        "    scheduling_test.go:7 it timed out",
    ]


def test_a_play_ends_with_the_suite_or_with_a_component_of_karmada(tmp_path):
    processes = Processes(tmp_path)
    try:
        suite = processes.start("suite", ["sleep", "600"])
        processes.start("controllers", ["true"]).wait(30)
        assert not has_ended(suite, processes)
        processes.start("karmada-webhook", ["true"]).wait(30)
        with pytest.raises(NotInTimeError, match=r"karmada-webhook ended before the suite: .*/karmada-webhook\.log"):
            has_ended(suite, processes)
    finally:
        processes.stop_all()
    alone = Processes(tmp_path)
    suite = alone.start("suite", ["true"])
    suite.wait(30)
    assert has_ended(suite, alone)


@pytest.fixture
def docker(tmp_path, capsys):
    """The command that kind calls, with one spare member."""
    kind_clusters.command(tmp_path / "kind", {"127.9.0.1": '{"kind": "Config"}'})

    def call(*arguments):
        assert kind_clusters.main(tmp_path / "kind", arguments) == 0
        return capsys.readouterr().out.rstrip("\n")

    return call


def test_kind_gets_a_spare_member_as_its_node(docker):
    of_cluster = ("ps", "-a", "--filter", "label=io.x-k8s.kind.cluster=new", "--format", "{{.Names}}")
    address = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
    node = "new-control-plane"
    assert docker("-v").startswith("Docker version")
    assert json.loads(docker("info", "--format", "{{json .}}"))["CgroupVersion"] == "2"
    assert docker(*of_cluster) == ""
    docker("run", "--name", node, "--detach", "kindest/node")
    assert docker(*of_cluster) == node
    assert docker("inspect", "--format", address, node) == "127.9.0.1"
    assert docker("exec", "--privileged", node, "cat", "/etc/kubernetes/admin.conf") == '{"kind": "Config"}'
    assert docker("exec", "--privileged", node, "kubeadm", "init") == ""
    docker("rm", "-f", "-v", node)
    assert docker(*of_cluster) == ""
    docker("run", "--name", "other-control-plane", "kindest/node")
    assert docker("inspect", "--format", address, "other-control-plane") == "127.9.0.1"


def test_kind_finds_its_line_whatever_the_name_of_a_cluster(docker, monkeypatch):
    monkeypatch.setattr(kind_clusters, "FOLLOW_S", 0)
    assert docker("logs", "-f", "member-e2e-v7k-control-plane") == "Reached target Multi-User System"


class Echo(BaseHTTPRequestHandler):
    """Answers with the method, the path and the body of a request."""

    protocol_version = "HTTP/1.1"

    def do_PUT(self):
        content = b"%b %b %b" % (
            self.command.encode(), self.path.encode(), self.rfile.read(int(self.headers["Content-Length"] or 0))
        )  # fmt: skip
        self.send_response(201)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_PUT  # noqa: N815 - the names of the standard library

    def log_message(self, *_):
        """Log nothing."""


@pytest.fixture
def busy(tmp_path):
    """Send a request to an API server that refuses each third one."""
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    access = tmp_path / "user.kubeconfig"
    cluster = {
        "server": f"https://127.0.0.1:{server.server_address[1]}", "certificate-authority": str(authority.ca)
    }  # fmt: skip
    user = {"client-certificate": str(certificate), "client-key": str(key)}
    access.write_text(json.dumps({"clusters": [{"cluster": cluster}], "users": [{"user": user}]}))
    port = free_port()
    with server, RefusingProxy(access, port, 3) as given:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        assert json.loads(given.read_text())["clusters"][0]["cluster"] == {"server": f"http://127.0.0.1:{port}"}
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as line:

            def send(method, body=None):
                line.request(method, "/apis", body)
                answer = line.getresponse()
                return answer.status, answer.read().decode()

            yield send
        server.shutdown()


def test_a_busy_api_server_refuses_each_third_request(busy):
    answers = [busy(*each) for each in [("GET",), ("PUT", "one"), ("PUT", "two"), ("GET",), ("GET",), ("PUT", "three")]]
    assert [status for status, _ in answers] == [201, 201, 409, 201, 201, 429]
    assert [text for status, text in answers if status == 201][:2] == ["GET /apis ", "PUT /apis one"]
    assert json.loads(answers[2][1])["reason"] == "Conflict"


def test_without_binaries_the_suite_says_what_it_needs(monkeypatch, capsys):
    monkeypatch.delenv("KARMADA_BINARIES", raising=False)
    monkeypatch.setattr("sys.argv", ["karmada-suite"])
    assert main() == 0
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith("skipped: KARMADA_BINARIES names no folder")
