"""The paths of the native API."""

from collections.abc import Sequence
from typing import Final

from berthmaster.model.decode import decode_json, encode_json
from berthmaster.native_api.access import REVIEW_PATH
from berthmaster.native_api.fleet import WorkloadQuery
from berthmaster.native_api.review import ChangeReview
from berthmaster.native_api.what_if import PlanRequest, SimulateRequest
from extender.protocols.native import openapi
from extender.protocols.native.bindings import described, explained
from extender.protocols.native.fleet import cluster_page
from extender.protocols.native.fleet_view import fleet_view, state_version
from extender.protocols.native.history import BINDING_PARAMETERS, PARAMETERS, binding_history, history
from extender.protocols.native.outlook import binding_outlook
from extender.protocols.native.parameters import flag, for_readers, number, reader_of
from extender.protocols.native.plan import Planner
from extender.protocols.native.review import PlanReviewer
from extender.protocols.native.schedule import PROTOCOL, is_cheap, require_synced, schedule_batch, schedule_one
from extender.protocols.native.simulate import Simulator
from extender.protocols.native.visible import visible_binding, visible_decision, visible_history
from extender.protocols.native.why_routes import binding_key, why_routes
from extender.protocols.native.workload_page import PARAMETERS as LIST_PARAMETERS
from extender.protocols.native.workload_page import query_of, workload_page
from extender.protocols.route import JSON, JSON_LINES, Reply, Route, never_cheap
from extender.protocols.services import Call, Services

LINES: Final = (JSON_LINES, "application/jsonl", "application/json-lines")
MAX_PAGE: Final = 5000
_PAGE: Final = 500
_HISTORY_PAGE: Final = 50
_MAX_HISTORY_PAGE: Final = 1000


def routes(planner: Planner | None = None) -> Sequence[Route]:
    """Return the routes of the API.

    Args:
        planner: answers plans; a new one by default.
    """
    simulator, planner = Simulator(), planner or Planner()
    reviewer = PlanReviewer(planner)

    def simulate(services: Services, call: Call) -> Reply:
        request = decode_json(SimulateRequest, call.body)
        return Reply(encode_json(simulator.simulate(services, call, request)))

    def plan(services: Services, call: Call) -> Reply:
        request = decode_json(PlanRequest, call.body)
        return Reply(encode_json(planner.plan(services, call, request)))

    def review(services: Services, call: Call) -> Reply:
        request = decode_json(ChangeReview, call.body)
        return Reply(encode_json(reviewer.review(services, call, request)))

    def document(_services: Services, _call: Call) -> Reply:
        return Reply(openapi.document())

    binding, cluster_binding = "/v1/bindings/{namespace}/{name}", "/v1/clusterbindings/{name}"
    return (
        Route(
            "POST", "/v1/schedule", schedule, PROTOCOL, accepts=(JSON,), query=frozenset({"explain"}),
            brings_fleet=True, cheap=is_cheap,
        ),
        Route(
            "POST", "/v1/schedule/batch", batch, PROTOCOL, streamed=True, accepts=LINES, query=frozenset({"explain"}),
        ),
        Route("POST", "/v1/simulate", simulate, PROTOCOL, accepts=(JSON,), query=frozenset()),
        Route("POST", "/v1/plan", plan, PROTOCOL, accepts=(JSON,), query=frozenset()),
        Route("POST", REVIEW_PATH, review, PROTOCOL, accepts=(JSON,), query=frozenset(), cheap=never_cheap),
        Route("GET", "/v1/clusters", clusters, PROTOCOL, query=frozenset({"after", "limit"})),
        Route("GET", "/v1/version", version, PROTOCOL, query=frozenset()),
        Route("GET", "/v1/fleet", fleet, PROTOCOL, query=frozenset()),
        Route("GET", "/v1/workloads", workloads, PROTOCOL, query=LIST_PARAMETERS),
        Route("POST", "/v1/workloads", workloads, PROTOCOL, accepts=(JSON,), query=frozenset()),
        *for_readers(Route("GET", binding, binding_as_known, PROTOCOL, query=frozenset())),
        *for_readers(Route("GET", cluster_binding, binding_as_known, PROTOCOL, query=frozenset())),
        *for_readers(Route("GET", f"{binding}/decision", binding_decision, PROTOCOL, query=frozenset())),
        *for_readers(Route("GET", f"{cluster_binding}/decision", binding_decision, PROTOCOL, query=frozenset())),
        Route("GET", f"{binding}/outlook", outlook_of_binding, PROTOCOL, query=frozenset({"group"})),
        Route("GET", f"{cluster_binding}/outlook", outlook_of_binding, PROTOCOL, query=frozenset({"group"})),
        *for_readers(Route("GET", "/v1/history", recorded, PROTOCOL, query=PARAMETERS)),
        Route("GET", f"{binding}/decisions", binding_decisions, PROTOCOL, query=BINDING_PARAMETERS),
        Route("GET", f"{cluster_binding}/decisions", binding_decisions, PROTOCOL, query=BINDING_PARAMETERS),
        *why_routes(),
        Route("GET", "/openapi.json", document, PROTOCOL, query=frozenset()),
    )  # fmt: skip


def schedule(services: Services, call: Call) -> Reply:
    """``POST /v1/schedule``."""
    return Reply(schedule_one(services, call, diagnose=flag(call.query, "explain")))


def batch(services: Services, call: Call) -> Reply:
    """``POST /v1/schedule/batch``."""
    answers = schedule_batch(services, call, diagnose=flag(call.query, "explain"))
    return Reply(answers, content_type=JSON_LINES)


def clusters(services: Services, call: Call) -> Reply:
    """``GET /v1/clusters``."""
    limit = number(call.query, "limit", _PAGE, MAX_PAGE)
    require_synced(services)
    with services.state.reading() as cache:
        page = cluster_page(cache, services.state.freshness, call.query.get("after", ""), limit)
    return Reply(encode_json(page))


def version(services: Services, _call: Call) -> Reply:
    """``GET /v1/version``."""
    require_synced(services)
    return Reply(encode_json(state_version(services)))


def fleet(services: Services, call: Call) -> Reply:
    """``GET /v1/fleet``."""
    require_synced(services)
    view = fleet_view(services)
    services.check_deadline(call)
    return Reply(encode_json(view))


def workloads(services: Services, call: Call) -> Reply:
    """``GET /v1/workloads``, or ``POST`` for a query that is too long for a request line."""
    query = decode_json(WorkloadQuery, call.body) if call.body else query_of(call.query)
    require_synced(services)
    return Reply(encode_json(workload_page(services, call, query)))


def binding_as_known(services: Services, call: Call) -> Reply:
    """``GET /v1/bindings/{namespace}/{name}`` and ``GET /v1/clusterbindings/{name}``."""
    require_synced(services)
    found = described(services, *binding_key(call))
    return Reply(encode_json(visible_binding(found, reader_of(call))))


def binding_decision(services: Services, call: Call) -> Reply:
    """``GET /v1/bindings/{namespace}/{name}/decision`` and ``GET /v1/clusterbindings/{name}/decision``."""
    require_synced(services)
    found = explained(services, *binding_key(call))
    return Reply(encode_json(visible_decision(found, reader_of(call))))


def outlook_of_binding(services: Services, call: Call) -> Reply:
    """``GET /v1/bindings/{namespace}/{name}/outlook`` and ``GET /v1/clusterbindings/{name}/outlook``."""
    require_synced(services)
    return Reply(encode_json(binding_outlook(services, *binding_key(call), call.query.get("group"))))


def recorded(services: Services, call: Call) -> Reply:
    """``GET /v1/history``."""
    limit = number(call.query, "limit", _HISTORY_PAGE, _MAX_HISTORY_PAGE)
    return Reply(encode_json(visible_history(history(services, call.query, limit), reader_of(call))))


def binding_decisions(services: Services, call: Call) -> Reply:
    """``GET /v1/bindings/{namespace}/{name}/decisions`` and ``GET /v1/clusterbindings/{name}/decisions``."""
    limit = number(call.query, "limit", _HISTORY_PAGE, _MAX_HISTORY_PAGE)
    return Reply(encode_json(binding_history(services, *binding_key(call), call.query, limit)))
