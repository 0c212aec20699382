"""The paths of the native API."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from berthmaster.model.decode import decode_json, encode_json
from berthmaster.model.errors import shown
from berthmaster.simulation.report import explanation
from berthmaster.simulation.run import examine
from extender.protocols.native import openapi
from extender.protocols.native.batch import answer_batch
from extender.protocols.native.deciding import count, decide, require_explicable, require_synced
from extender.protocols.native.views import cluster_page
from extender.protocols.native.what_if import WhatIf
from extender.protocols.native.wire import ScheduleRequest, SimulateRequest
from extender.protocols.problem import InvalidField, Refusal
from extender.protocols.route import JSON, JSON_LINES, Call, Reply, Route
from extender.protocols.services import Services

PROTOCOL: Final = "native"
LINES: Final = (JSON_LINES, "application/jsonl", "application/json-lines")
MAX_PAGE: Final = 5000
_PAGE: Final = 500
_TRUTH: Final = {"true": True, "false": False}


def routes() -> Sequence[Route]:
    """The paths of the API, each with its own memory."""
    what_if = WhatIf()

    def simulate(services: Services, call: Call) -> Reply:
        asked = decode_json(SimulateRequest, call.body)
        return Reply(encode_json(what_if.simulate(services, call, asked)))

    def document(_services: Services, _call: Call) -> Reply:
        return Reply(openapi.document())

    decision = "/v1/bindings/{namespace}/{name}/decision"
    return (
        Route(
            "POST", "/v1/schedule", schedule, PROTOCOL, accepts=(JSON,), query=frozenset({"explain"}), prompt=True
        ),
        Route(
            "POST", "/v1/schedule/batch", schedule_batch, PROTOCOL, streamed=True, accepts=LINES,
            query=frozenset({"explain"}),
        ),
        Route("POST", "/v1/simulate", simulate, PROTOCOL, accepts=(JSON,), query=frozenset()),
        Route("GET", "/v1/clusters", clusters, PROTOCOL, query=frozenset({"after", "limit"})),
        Route("GET", decision, binding_decision, PROTOCOL, query=frozenset()),
        Route("GET", "/v1/clusterbindings/{name}/decision", binding_decision, PROTOCOL, query=frozenset()),
        Route("GET", "/openapi.json", document, PROTOCOL, query=frozenset()),
    )  # fmt: skip


def schedule(services: Services, call: Call) -> Reply:
    """``POST /v1/schedule``."""
    clock, meter = services.clock, services.meter
    diagnose = _flag(call.query, "explain")
    begun = clock.monotonic_s()
    asked = decode_json(ScheduleRequest, call.body)
    decoded = clock.monotonic_s()
    decided = decide(services, asked, size_bytes=len(call.body), diagnose=diagnose)
    done = clock.monotonic_s()
    body = encode_json(decided)
    meter.took(PROTOCOL, "decode", decoded - begun)
    meter.took(PROTOCOL, "decide", done - decoded)
    meter.took(PROTOCOL, "encode", clock.monotonic_s() - done)
    count(services, PROTOCOL, decided)
    return Reply(body)


def schedule_batch(services: Services, call: Call) -> Reply:
    """``POST /v1/schedule/batch``."""
    diagnose = _flag(call.query, "explain")
    answers: Iterator[bytes] = answer_batch(services, call, PROTOCOL, diagnose=diagnose)
    return Reply(answers, content_type=JSON_LINES)


def clusters(services: Services, call: Call) -> Reply:
    """``GET /v1/clusters``."""
    limit = _number(call.query, "limit", _PAGE, MAX_PAGE)
    require_synced(services)
    with services.state.reading() as memory:
        page = cluster_page(memory, services.state.freshness, call.query.get("after", ""), limit)
    return Reply(encode_json(page))


def binding_decision(services: Services, call: Call) -> Reply:
    """``GET /v1/bindings/{namespace}/{name}/decision``, and the same of a cluster-scoped binding."""
    namespace, name = call.path_values.get("namespace", ""), call.path_values["name"]
    require_synced(services)
    with services.state.reading() as memory:
        workload = memory.workload((namespace, name))
        if workload is None:
            raise Refusal(404, f"there is no binding {shown(f'{namespace}/{name}' if namespace else name)}")
        if workload.binding is not None:
            require_explicable(workload.binding, len(memory.fleet))
        outcome = examine(memory.scheduler, workload, services.clock.now())
    return Reply(encode_json(explanation(outcome)))


def _flag(query: Mapping[str, str], name: str) -> bool:
    """Whether a parameter is on."""
    value = query.get(name)
    if value is None:
        return False
    if value not in _TRUTH:
        raise _refused(name, value, "true or false")
    return _TRUTH[value]


def _number(query: Mapping[str, str], name: str, default: int, most: int) -> int:
    value = query.get(name)
    if value is None:
        return default
    if not (value.isascii() and value.isdecimal() and len(value) < 10 and 1 <= int(value) <= most):
        raise _refused(name, value, f"a number from 1 to {most}")
    return int(value)


def _refused(name: str, value: str, accepted: str) -> Refusal:
    problem = f"{shown(value)} is not accepted; accepted is {accepted}"
    return Refusal(400, f"query parameter {name}: {problem}", errors=[InvalidField(f"?{name}", problem)])
