"""The paths of the native API."""

from collections.abc import Callable, Sequence
from functools import cache
from http import HTTPStatus
from typing import Final, TypeVar

from berthmaster.model.decode import decode_json, encode_json
from berthmaster.model.gaps import Reader
from berthmaster.native_api.connection import REVIEW_PATH
from berthmaster.native_api.fleet import FleetView, StateVersion, WorkloadPage, WorkloadQuery
from berthmaster.native_api.outlook import BindingOutlook, BindingOverview
from berthmaster.native_api.review import ChangeReview, ReviewAnswer
from berthmaster.native_api.what_if import PlanAnswer, PlanRequest, SimulateAnswer, SimulateRequest
from berthmaster.native_api.wire import (
    BatchAnswer,
    BatchLine,
    BindingExplanation,
    BindingView,
    ClusterList,
    Decided,
    HistoryPage,
    ScheduleRequest,
)
from extender.protocols.native import examples, openapi
from extender.protocols.native.bindings import described, explained
from extender.protocols.native.drift import Drifts, drift_of_binding
from extender.protocols.native.fleet import cluster_page
from extender.protocols.native.fleet_view import fleet_view, state_version
from extender.protocols.native.history import BINDING_PARAMETERS, PARAMETERS, binding_history, history
from extender.protocols.native.history import MAX_PAGE as HISTORY_PAGE
from extender.protocols.native.outlook import binding_outlook, room_of
from extender.protocols.native.parameters import count, flag, for_readers, number, reader_of, text
from extender.protocols.native.plan import Planner
from extender.protocols.native.review import PlanReviewer
from extender.protocols.native.schedule import PROTOCOL, is_cheap, require_synced, schedule_batch, schedule_one
from extender.protocols.native.simulate import Simulator
from extender.protocols.native.visible import visible_binding, visible_decision
from extender.protocols.native.why import claims_of
from extender.protocols.native.why_routes import binding_key, binding_routes, why_routes
from extender.protocols.native.workload_page import PARAMETERS as LIST_PARAMETERS
from extender.protocols.native.workload_page import query_of, workload_page
from extender.protocols.problem import Refusal
from extender.protocols.route import JSON, JSON_LINES, Operation, Parameter, Reply, Route, never_cheap
from extender.protocols.services import Call, Services

LINES: Final = (JSON_LINES, "application/jsonl", "application/json-lines")
MAX_PAGE: Final = 5000
_PAGE: Final = 500
_HISTORY_PAGE: Final = 50
_EXPLAIN: Final = {
    "explain": Parameter(
        "Add the diagnosis: why each group and cluster was rejected, or its score.",
        {"type": "boolean", "default": False},
    )
}
_CLUSTERS: Final = {
    "after": text("The page contains the names after this one."),
    "limit": count("The most clusters of the page.", MAX_PAGE),
}
_OVERVIEW: Final = {
    "group": text("Explain each cluster in this group; empty for a placement without groups."),
    "clusters": count("The most clusters of each stage of a group; the others are counted. All by default.", MAX_PAGE),
}
_GROUP: Final = {"group": _OVERVIEW["group"]}


def routes(planner: Planner | None = None, drifts: Drifts | None = None) -> Sequence[Route]:
    """Return the routes of the API."""
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
        return Reply(described_routes())

    @cache
    def described_routes() -> bytes:
        return encode_json(openapi.description(found))

    found = (
        Route("POST", "/v1/schedule", schedule, PROTOCOL, accepts=(JSON,), query=_EXPLAIN,
              brings_fleet=True, cheap=is_cheap,
              operation=Operation("schedule", "Schedule a binding", Decided, examples.decided, ScheduleRequest,
                                  {"on the service's fleet": examples.SCHEDULE,
                                   "on a fleet of its own": examples.SCHEDULE_OWN_FLEET}, (404,))),
        Route("POST", "/v1/schedule/batch", batch, PROTOCOL, streamed=True, accepts=LINES, query=_EXPLAIN,
              operation=Operation("scheduleBatch", "Schedule many bindings, one per line", BatchAnswer,
                                  lambda: {"id": "1", "line": 1, "decision": examples.decided()}, BatchLine,
                                  {"a line": {"id": "1", **examples.SCHEDULE}}, (404,))),
        Route("POST", "/v1/simulate", simulate, PROTOCOL, accepts=(JSON,), query={},
              operation=Operation("simulate", "Simulate changes", SimulateAnswer, examples.simulated, SimulateRequest,
                                  {"a lost cluster": examples.SIMULATE}, (404, 409, 429))),
        Route("POST", "/v1/plan", plan, PROTOCOL, accepts=(JSON,), query={},
              operation=Operation("plan", "Plan changes of policies", PlanAnswer, examples.planned, PlanRequest,
                                  {"a changed policy": examples.PLAN}, (404, 409))),
        Route("POST", REVIEW_PATH, review, PROTOCOL, accepts=(JSON,), query={}, cheap=never_cheap,
              operation=Operation("review", "Review a change of one policy", ReviewAnswer, examples.reviewed,
                                  ChangeReview, {"a new policy": examples.REVIEW}, (404, 409))),
        Route("GET", "/v1/clusters", clusters, PROTOCOL, query=_CLUSTERS,
              operation=Operation("listClusters", "List the clusters of the fleet", ClusterList, examples.listed)),
        Route("GET", "/v1/version", version, PROTOCOL, query={},
              operation=Operation("getVersion",
                                  "Read the version of the state, which changes whenever another answer may change",
                                  StateVersion, examples.version)),
        Route("GET", "/v1/fleet", fleet, PROTOCOL, query={},
              operation=Operation("getFleet", "Read all clusters, and what is assigned to them", FleetView,
                                  examples.fleet)),
        Route("GET", "/v1/workloads", workloads, PROTOCOL, query=LIST_PARAMETERS,
              operation=Operation("listWorkloads", "List workloads, and where they are", WorkloadPage,
                                  examples.workloads, refusals=(409,))),
        Route("POST", "/v1/workloads", workloads, PROTOCOL, accepts=(JSON,), query={},
              operation=Operation("queryWorkloads", "List workloads by a query that may be too long for a request line",
                                  WorkloadPage, examples.workloads, WorkloadQuery,
                                  {"of two namespaces": {"namespaces": ["default", "shop"]}}, (409,))),
        *binding_routes("", binding_as_known, ("getBinding", "getClusterBinding"),
                        "Read a binding as the service knows it", BindingView, examples.described, readers=True),
        *binding_routes("/decision", binding_decision, ("explainBinding", "explainClusterBinding"),
                        "Explain the decision on a binding", BindingExplanation, examples.explained, readers=True),
        *binding_routes("/outlook", outlook_of_binding, ("outlookOfBinding", "outlookOfClusterBinding"),
                        "What each group of a binding could hold", BindingOutlook, examples.outlook_of_binding, _GROUP),
        *binding_routes("/overview", overview_of_binding, ("overviewOfBinding", "overviewOfClusterBinding"),
                        "All that the state says about a binding, in one answer",
                        BindingOverview, query=_OVERVIEW, readers=True),
        *for_readers(Route(
            "GET", "/v1/history", recorded, PROTOCOL, query=PARAMETERS,
            operation=Operation("listHistory", "List what the ledger recorded, the latest first", HistoryPage,
                                refusals=(409,)))),
        *binding_routes("/decisions", binding_decisions, ("listBindingDecisions", "listClusterBindingDecisions"),
                        "List the recorded decisions on a binding", HistoryPage, query=BINDING_PARAMETERS),
        *why_routes(drifts or Drifts()),
        Route("GET", "/openapi.json", document, PROTOCOL, query={},
              operation=Operation("describe", "This document", dict)),
    )  # fmt: skip
    return found


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


def overview_of_binding(services: Services, call: Call) -> Reply:
    """``GET /v1/bindings/{namespace}/{name}/overview`` and ``GET /v1/clusterbindings/{name}/overview``."""
    require_synced(services)
    most = number(call.query, "clusters", 0, MAX_PAGE) or None
    found = binding_overview(services, *binding_key(call), call.query.get("group"), reader_of(call), most)
    return Reply(encode_json(found))


def recorded(services: Services, call: Call) -> Reply:
    """``GET /v1/history``."""
    limit = number(call.query, "limit", _HISTORY_PAGE, HISTORY_PAGE)
    return Reply(encode_json(history(services, call.query, limit, reader_of(call))))


def binding_decisions(services: Services, call: Call) -> Reply:
    """``GET /v1/bindings/{namespace}/{name}/decisions`` and ``GET /v1/clusterbindings/{name}/decisions``."""
    limit = number(call.query, "limit", _HISTORY_PAGE, HISTORY_PAGE)
    return Reply(encode_json(binding_history(services, *binding_key(call), call.query, limit)))


T = TypeVar("T")
_LEFT_OUT: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.CONFLICT)
"""A placement with very many groups is not explained, and an installation may lack what a part needs."""


def binding_overview(
    services: Services, namespace: str, name: str, group: str | None, reader: Reader, most: int | None = None
) -> BindingOverview:
    """Return a binding, the decision on it, what each of its groups could hold, who claims it, and its drift."""
    version = services.state.version
    binding = described(services, namespace, name)
    missing: dict[str, str] = {}

    def part(title: str, ask: Callable[[], T]) -> T | None:
        try:
            return ask()
        except Refusal as refusal:
            if refusal.status not in _LEFT_OUT:
                raise
            missing[title] = refusal.detail
            return None

    decision = part("decision", lambda: visible_decision(explained(services, namespace, name, most), reader))
    outlook = part("outlook", lambda: binding_outlook(services, namespace, name, group, most))
    claims = part("claims", lambda: claims_of(services, namespace, name))
    drift = part("drift", lambda: drift_of_binding(services, namespace, name))
    diagnosis = None if decision is None else decision.diagnosis
    room = room_of(services, binding, [] if diagnosis is None else [each.group for each in diagnosis.groups])
    return BindingOverview(visible_binding(binding, reader), decision, outlook, claims, missing, version, room, drift)
