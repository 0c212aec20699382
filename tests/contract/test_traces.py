"""Traces of real processes, as a collector gets them: a plan, and a review with its question to the extender."""

import json
import subprocess
import sys

import pytest
from conftest import ROOT
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from pytest_httpserver import HTTPServer
from reviews import POLICY, admission_review
from servers import running
from waiting import wait_for
from webhook_process import running as running_webhook
from werkzeug import Response

FLEET = [f"--against={ROOT / 'examples/karmada' / each}" for each in ("clusters.yaml", "groups")]


class Collector:
    """Receives spans over OTLP. It has the service, the name, the trace and the parent of each."""

    def __init__(self, server: HTTPServer) -> None:
        self.spans = []
        server.expect_request("/v1/traces", method="POST").respond_with_handler(self._received)

    def _received(self, request):
        message = ExportTraceServiceRequest.FromString(request.get_data())
        for resource in message.resource_spans:
            (service,) = [
                each.value.string_value for each in resource.resource.attributes if each.key == "service.name"
            ]
            spans = [span for scope in resource.scope_spans for span in scope.spans]
            self.spans += [(service, each.name, each.trace_id, each.span_id, each.parent_span_id) for each in spans]
        return Response(b"", content_type="application/x-protobuf")

    def named(self):
        return {(service, name) for service, name, *_ in self.spans}


@pytest.fixture
def collector(httpserver, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", httpserver.url_for("").rstrip("/"))
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
    return Collector(httpserver)


def test_a_plan_has_one_trace(collector):
    command = [sys.executable, "-m", "berthmaster_cli.main", "plan", *FLEET, "-f", str(ROOT / "examples/plan")]
    subprocess.run(command, check=True, timeout=60, stdout=subprocess.DEVNULL)  # noqa: S603 - this program
    assert collector.named() == {("berthmaster-plan", name) for name in ("plan", "read", "decide")}
    assert len({trace for *_, trace, _, _ in collector.spans}) == 1


def test_a_review_and_its_question_have_one_trace(collector, tmp_path):
    extender = [f"--filename={ROOT / 'examples/karmada'}", "--workers=1"]
    with (
        running("extender", *extender, log=tmp_path / "log") as asked,
        running_webhook(tmp_path, f"--impact-url={asked.url}", "--workers=1") as webhook,
    ):
        connection = webhook.connection()
        body = json.dumps(admission_review(POLICY))
        connection.request("POST", "/impact-propagationpolicy", body, {"Content-Type": "application/json"})
        assert connection.getresponse().read()
        connection.close()
        wait_for(lambda: len(collector.spans) >= 3, lambda: collector.spans)
    ids = {name: (trace, span, parent) for _, name, trace, span, parent in collector.spans}
    review, question, answer = ids["review"], ids["ask the extender"], ids["/v1/review"]
    assert review[0] == question[0] == answer[0]
    assert (question[2], answer[2]) == (review[1], question[1])


def test_a_variable_without_the_extra_is_an_error(monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from berthmaster_cli.main import run; sys.argv[1:] = ['lint', 'examples/karmada']; run()"
    )
    done = subprocess.run(  # noqa: S603 - this program
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, "the extra 'traces'" in done.stderr) == (2, True), done.stderr
