"""The paths of the native API."""

from collections.abc import Mapping, Sequence
from typing import Final

from berthmaster.model.decode import decode_json, encode_json
from berthmaster.model.errors import shown
from berthmaster.native_api.problem import InvalidField
from berthmaster.native_api.wire import PlanRequest, SimulateRequest
from extender.protocols.native import openapi
from extender.protocols.native.bindings import described, explained
from extender.protocols.native.fleet import cluster_page
from extender.protocols.native.history import BINDING_PARAMETERS, PARAMETERS, binding_history, history
from extender.protocols.native.outlook import binding_outlook
from extender.protocols.native.plan import Planner
from extender.protocols.native.schedule import PROTOCOL, is_cheap, require_synced, schedule_batch, schedule_one
from extender.protocols.native.simulate import Simulator
from extender.protocols.native.why_routes import binding_key, why_routes
from extender.protocols.problem import Refusal
from extender.protocols.route import JSON, JSON_LINES, Reply, Route
from extender.protocols.services import Call, Services

LINES: Final = (JSON_LINES, "application/jsonl", "application/json-lines")
MAX_PAGE: Final = 5000
_PAGE: Final = 500
_HISTORY_PAGE: Final = 50
_MAX_HISTORY_PAGE: Final = 1000
_BOOLEANS: Final = {"true": True, "false": False}


def routes() -> Sequence[Route]:
    """Return the routes of the API."""
    simulator, planner = Simulator(), Planner()

    def simulate(services: Services, call: Call) -> Reply:
        request = decode_json(SimulateRequest, call.body)
        return Reply(encode_json(simulator.simulate(services, call, request)))

    def plan(services: Services, call: Call) -> Reply:
        request = decode_json(PlanRequest, call.body)
        return Reply(encode_json(planner.plan(services, call, request)))

    def document(_services: Services, _call: Call) -> Reply:
        return Reply(openapi.document())

    binding, cluster_binding = "/v1/bindings/{namespace}/{name}", "/v1/clusterbindings/{name}"
    return (
        Route(
            "POST", "/v1/schedule", schedule, PROTOCOL, accepts=(JSON,), query=frozenset({"explain"}), cheap=is_cheap
        ),
        Route(
            "POST", "/v1/schedule/batch", batch, PROTOCOL, streamed=True, accepts=LINES, query=frozenset({"explain"}),
        ),
        Route("POST", "/v1/simulate", simulate, PROTOCOL, accepts=(JSON,), query=frozenset()),
        Route("POST", "/v1/plan", plan, PROTOCOL, accepts=(JSON,), query=frozenset()),
        Route("GET", "/v1/clusters", clusters, PROTOCOL, query=frozenset({"after", "limit"})),
        Route("GET", binding, binding_as_known, PROTOCOL, query=frozenset()),
        Route("GET", cluster_binding, binding_as_known, PROTOCOL, query=frozenset()),
        Route("GET", f"{binding}/decision", binding_decision, PROTOCOL, query=frozenset()),
        Route("GET", f"{cluster_binding}/decision", binding_decision, PROTOCOL, query=frozenset()),
        Route("GET", f"{binding}/outlook", outlook_of_binding, PROTOCOL, query=frozenset({"group"})),
        Route("GET", f"{cluster_binding}/outlook", outlook_of_binding, PROTOCOL, query=frozenset({"group"})),
        Route("GET", "/v1/history", recorded, PROTOCOL, query=PARAMETERS),
        Route("GET", f"{binding}/decisions", binding_decisions, PROTOCOL, query=BINDING_PARAMETERS),
        Route("GET", f"{cluster_binding}/decisions", binding_decisions, PROTOCOL, query=BINDING_PARAMETERS),
        *why_routes(),
        Route("GET", "/openapi.json", document, PROTOCOL, query=frozenset()),
    )  # fmt: skip


def schedule(services: Services, call: Call) -> Reply:
    """``POST /v1/schedule``."""
    return Reply(schedule_one(services, call, diagnose=_flag(call.query, "explain")))


def batch(services: Services, call: Call) -> Reply:
    """``POST /v1/schedule/batch``."""
    answers = schedule_batch(services, call, diagnose=_flag(call.query, "explain"))
    return Reply(answers, content_type=JSON_LINES)


def clusters(services: Services, call: Call) -> Reply:
    """``GET /v1/clusters``."""
    limit = _number(call.query, "limit", _PAGE, MAX_PAGE)
    require_synced(services)
    with services.state.reading() as cache:
        page = cluster_page(cache, services.state.freshness, call.query.get("after", ""), limit)
    return Reply(encode_json(page))


def binding_as_known(services: Services, call: Call) -> Reply:
    """``GET /v1/bindings/{namespace}/{name}`` and ``GET /v1/clusterbindings/{name}``."""
    require_synced(services)
    return Reply(encode_json(described(services, *binding_key(call))))


def binding_decision(services: Services, call: Call) -> Reply:
    """``GET /v1/bindings/{namespace}/{name}/decision`` and ``GET /v1/clusterbindings/{name}/decision``."""
    require_synced(services)
    return Reply(encode_json(explained(services, *binding_key(call))))


def outlook_of_binding(services: Services, call: Call) -> Reply:
    """``GET /v1/bindings/{namespace}/{name}/outlook`` and ``GET /v1/clusterbindings/{name}/outlook``."""
    require_synced(services)
    return Reply(encode_json(binding_outlook(services, *binding_key(call), call.query.get("group"))))


def recorded(services: Services, call: Call) -> Reply:
    """``GET /v1/history``."""
    limit = _number(call.query, "limit", _HISTORY_PAGE, _MAX_HISTORY_PAGE)
    return Reply(encode_json(history(services, call.query, limit)))


def binding_decisions(services: Services, call: Call) -> Reply:
    """``GET /v1/bindings/{namespace}/{name}/decisions`` and ``GET /v1/clusterbindings/{name}/decisions``."""
    limit = _number(call.query, "limit", _HISTORY_PAGE, _MAX_HISTORY_PAGE)
    return Reply(encode_json(binding_history(services, *binding_key(call), call.query, limit)))


def _flag(query: Mapping[str, str], name: str) -> bool:
    value = query.get(name)
    if value is None:
        return False
    if value not in _BOOLEANS:
        raise _refused(name, value, "true or false")
    return _BOOLEANS[value]


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
