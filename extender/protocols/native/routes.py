"""The paths of the native API."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from http import HTTPStatus
from typing import Final, TypeVar

from berthmaster.ledger.records import PastExplanation
from berthmaster.model.decode import decode_json, encode_json
from berthmaster.model.gaps import Reader
from berthmaster.native_api.connection import REVIEW_PATH
from berthmaster.native_api.fleet import FleetView, StateVersion, WorkloadPage, WorkloadQuery
from berthmaster.native_api.what_if import (
    ChangeReview,
    PlanAnswer,
    PlanLine,
    PlanRequest,
    ReviewAnswer,
    SimulateAnswer,
    SimulateRequest,
)
from berthmaster.native_api.why import (
    BindingOutlook,
    BindingOverview,
    ClaimsView,
    DriftView,
    MovesView,
    PolicyList,
    PolicyView,
    ResilienceView,
    WhyNotView,
)
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
from extender.protocols.native import drift, examples, history, moves, openapi, policies, resilience, workload_page
from extender.protocols.native.bindings import binding_outlook, described, explained, room_of
from extender.protocols.native.fleet import cluster_page, fleet_view, state_version
from extender.protocols.native.parameters import count, flag, for_readers, key_of, reader_of, text, values
from extender.protocols.native.plan import Planner
from extender.protocols.native.review import PlanReviewer
from extender.protocols.native.schedule import PROTOCOL, is_cheap, require_synced, schedule_batch, schedule_one
from extender.protocols.native.simulate import Simulator
from extender.protocols.native.visible import (
    visible_binding,
    visible_decision,
)
from extender.protocols.native.why import Investigator, claims_of
from extender.protocols.problem import Refusal
from extender.protocols.route import JSON, JSON_LINES, Handler, Operation, Parameter, Reply, Route, never_cheap
from extender.protocols.services import Call, Services

T = TypeVar("T")
Ask = Callable[[Services, Call], object]
LINES: Final = (JSON_LINES, "application/jsonl", "application/json-lines")
_MAX_PAGE: Final = 5000
_PAGE: Final = 500
_EXPLAIN: Final = {"explain": flag("Add the diagnosis: why each group and cluster was rejected, or its score.")}
_CLUSTERS: Final = {
    "after": text("The page contains the names after this one."),
    "limit": count("The most clusters of the page.", _MAX_PAGE, default=_PAGE),
}
_OVERVIEW: Final = {
    "group": text("Explain each cluster in this group; empty for a placement without groups."),
    "clusters": count("The most clusters of each stage of a group; the others are counted. All by default.", _MAX_PAGE),
}
_GROUP: Final = {"group": _OVERVIEW["group"]}
_WHY_NOT: Final = {
    "cluster": Parameter("The cluster.", {"type": "string", "minLength": 1, "examples": ["public-1"]}, required=True),
    "record": text("The id of a recorded decision on the binding; absent for the present."),
}


def answers(ask: Ask, *, synced: bool = True) -> Handler:
    """Return the handler that answers with what ``ask`` returns, as JSON.

    Args:
        synced: whether the fleet must be known before it is asked.
    """

    def handle(services: Services, call: Call) -> Reply:
        if synced:
            require_synced(services)
        return Reply(encode_json(ask(services, call)))

    return handle


def routes(planner: Planner | None = None, drifts: drift.Drifts | None = None) -> Sequence[Route]:
    """Return the routes of the API. What is computed in the background is shared by all of their requests."""
    simulator, planner, known_drifts = Simulator(), planner or Planner(), drifts or drift.Drifts()
    reviewer, investigator = PlanReviewer(planner), Investigator()
    known_policies, failures = policies.Policies(), resilience.Resilience()

    def simulate(services: Services, call: Call) -> SimulateAnswer:
        return simulator.simulate(services, call, decode_json(SimulateRequest, call.body))

    def plan(services: Services, call: Call) -> PlanAnswer:
        return planner.plan(services, call, decode_json(PlanRequest, call.body))

    def plan_lines(services: Services, call: Call) -> Reply:
        return Reply(planner.lines(services, call), content_type=JSON_LINES)

    def review(services: Services, call: Call) -> ReviewAnswer:
        return reviewer.review(services, call, decode_json(ChangeReview, call.body))

    def drifted(services: Services, call: Call) -> DriftView:
        return known_drifts.answer(services, call, drift.drift_query(call.query, reader_of(call)))

    @cache
    def document() -> bytes:
        return encode_json(openapi.description(found))

    found = (
        Route("POST", "/v1/schedule", _schedule, PROTOCOL, accepts=(JSON,), query=_EXPLAIN,
              brings_fleet=True, cheap=is_cheap,
              operation=Operation("schedule", "Schedule a binding", Decided, ScheduleRequest,
                                  {"on the service's fleet": examples.SCHEDULE,
                                   "on a fleet of its own": examples.SCHEDULE_OWN_FLEET}, (404,), example=True)),
        Route("POST", "/v1/schedule/batch", _batch, PROTOCOL, streamed=True, accepts=LINES, query=_EXPLAIN,
              operation=Operation("scheduleBatch", "Schedule many bindings, one per line", BatchAnswer, BatchLine,
                                  {"a line": {"id": "1", **examples.SCHEDULE}}, (404,), example=True)),
        Route("POST", "/v1/simulate", answers(simulate, synced=False), PROTOCOL, accepts=(JSON,), query={},
              operation=Operation("simulate", "Simulate changes", SimulateAnswer, SimulateRequest,
                                  {"a lost cluster": examples.SIMULATE}, (404, 409, 429), example=True)),
        Route("POST", "/v1/plan", answers(plan, synced=False), PROTOCOL, accepts=(JSON,), query={},
              operation=Operation("plan", "Plan changes of policies", PlanAnswer, PlanRequest,
                                  {"a changed policy": examples.PLAN}, (404, 409), example=True)),
        Route("POST", "/v1/plan/progress", plan_lines, PROTOCOL, streamed=True, accepts=(JSON,), query={},
              operation=Operation("planWithProgress", "Plan changes of policies, and say each second how far it is",
                                  PlanLine, PlanRequest, {"a changed policy": examples.PLAN}, example=True)),
        Route("POST", REVIEW_PATH, answers(review, synced=False), PROTOCOL, accepts=(JSON,), query={},
              cheap=never_cheap,
              operation=Operation("review", "Review a change of one policy", ReviewAnswer, ChangeReview,
                                  {"a new policy": examples.REVIEW}, (404, 409), example=True)),
        Route("GET", "/v1/clusters", answers(_clusters), PROTOCOL, query=_CLUSTERS,
              operation=Operation("listClusters", "List the clusters of the fleet", ClusterList, example=True)),
        Route("GET", "/v1/version", answers(lambda services, _: state_version(services)), PROTOCOL, query={},
              operation=Operation("getVersion",
                                  "Read the version of the state, which changes whenever another answer may change",
                                  StateVersion, example=True)),
        Route("GET", "/v1/fleet", answers(_fleet), PROTOCOL, query={},
              operation=Operation("getFleet", "Read all clusters, and what is assigned to them", FleetView,
                                  example=True)),
        Route("GET", "/v1/workloads", answers(_workloads), PROTOCOL, query=workload_page.PARAMETERS,
              operation=Operation("listWorkloads", "List workloads, and where they are", WorkloadPage,
                                  refusals=(409,), example=True)),
        Route("POST", "/v1/workloads", answers(_workloads), PROTOCOL, accepts=(JSON,), query={},
              operation=Operation("queryWorkloads", "List workloads by a query that may be too long for a request line",
                                  WorkloadPage, WorkloadQuery,
                                  {"of two namespaces": {"namespaces": ["default", "shop"]}}, (409,), example=True)),
        *_of_bindings("", answers(_binding_as_known), ("getBinding", "getClusterBinding"),
                      "Read a binding as the service knows it", BindingView, example=True, readers=True),
        *_of_bindings("/decision", answers(_binding_decision), ("explainBinding", "explainClusterBinding"),
                      "Explain the decision on a binding", BindingExplanation, example=True, readers=True),
        *_of_bindings("/outlook", answers(_outlook), ("outlookOfBinding", "outlookOfClusterBinding"),
                      "What each group of a binding could hold", BindingOutlook, _GROUP, example=True),
        *_of_bindings("/overview", answers(_overview), ("overviewOfBinding", "overviewOfClusterBinding"),
                      "All that the state says about a binding, in one answer",
                      BindingOverview, query=_OVERVIEW, readers=True),
        *_listed("/v1/history", answers(
                     lambda services, call: history.history(services, call.query, reader_of(call)), synced=False),
                 "listHistory", "List what the ledger recorded, the latest first", HistoryPage, history.PARAMETERS),
        *_of_bindings("/decisions", answers(
                          lambda services, call: history.binding_history(services, *key_of(call), call.query),
                          synced=False),
                      ("listBindingDecisions", "listClusterBindingDecisions"),
                      "List the recorded decisions on a binding", HistoryPage, query=history.BINDING_PARAMETERS),
        *_listed("/v1/moves", answers(_moved), "listMoves", "List what moves and what moves wait for", MovesView,
                 moves.PARAMETERS),
        *_listed("/v1/resilience", answers(failures.asked), "listFailures",
                 "List what each failure alone would do, the worst first", ResilienceView, resilience.PARAMETERS),
        *_listed("/v1/drift", answers(drifted), "listDrift",
                 "List which workloads do not satisfy their policies any more", DriftView, drift.PARAMETERS),
        *_listed("/v1/policies", answers(known_policies.listed), "listPolicies",
                 "List what policies claim, what rules find, takeovers and priority drops", PolicyList,
                 policies.PARAMETERS),
        *_listed("/v1/policies/{namespace}/{name}", answers(known_policies.shown), "getPolicy",
                 "Read a policy, and which clusters its placement allows", PolicyView, {}, (404, 409)),
        *_listed("/v1/clusterpolicies/{name}", answers(known_policies.shown), "getClusterPolicy",
                 "Read a policy for all namespaces, and which clusters it allows", PolicyView, {}, (404, 409)),
        *_of_bindings("/claims", answers(lambda services, call: claims_of(services, *key_of(call))),
                      _ids("listClaims"), "Read which policy holds a workload", ClaimsView, example=True),
        *_of_bindings("/why-not", answers(investigator.asked, synced=False), _ids("whyNot"),
                      "Find the smallest change under which a cluster would get a workload",
                      WhyNotView, _WHY_NOT, example=True),
        *_of_bindings("/decisions/{record}", answers(investigator.explained, synced=False), _ids("explainRecord"),
                      "Explain a recorded decision with the fleet as it was", PastExplanation, readers=True),
        Route("GET", "/openapi.json", lambda _services, _call: Reply(document()), PROTOCOL, query={},
              operation=Operation("describe", "This document", dict)),
    )  # fmt: skip
    return found


def _ids(name: str) -> tuple[str, str]:
    return name, f"{name}OfClusterBinding"


def _listed(
    path: str,
    handler: Handler,
    name: str,
    summary: str,
    answer: type,
    query: Mapping[str, Parameter],
    refusals: tuple[int, ...] = (409,),
) -> Iterator[Route]:
    """Yield the routes of an answer that differs by reader."""
    operation = Operation(name, summary, answer, refusals=refusals)
    return for_readers(Route("GET", path, handler, PROTOCOL, query=query, operation=operation))


def _of_bindings(
    suffix: str,
    handler: Handler,
    ids: tuple[str, str],
    summary: str,
    answer: type,
    query: Mapping[str, Parameter] | None = None,
    *,
    example: bool = False,
    readers: bool = False,
) -> Iterator[Route]:
    """Yield the routes about one binding.

    Args:
        suffix: the end of both paths.
        readers: whether there are routes for readers, too: the answer can name objects of other namespaces.
    """
    own, other = ids
    kinds = (
        ("/v1/bindings/{namespace}/{name}", Operation(own, summary, answer, refusals=(404, 409), example=example)),
        ("/v1/clusterbindings/{name}", Operation(other, f"{summary}, cluster-scoped", answer, refusals=(404, 409))),
    )
    for path, operation in kinds:
        route = Route("GET", f"{path}{suffix}", handler, PROTOCOL, query=query or {}, operation=operation)
        yield from for_readers(route) if readers else (route,)


def _schedule(services: Services, call: Call) -> Reply:
    return Reply(schedule_one(services, call, diagnose=values(_EXPLAIN, call.query)["explain"]))


def _batch(services: Services, call: Call) -> Reply:
    lines = schedule_batch(services, call, diagnose=values(_EXPLAIN, call.query)["explain"])
    return Reply(lines, content_type=JSON_LINES)


def _clusters(services: Services, call: Call) -> ClusterList:
    given = values(_CLUSTERS, call.query)
    with services.state.reading() as cache:
        return cluster_page(cache, services.state.staleness, given.get("after", ""), given["limit"])


def _fleet(services: Services, call: Call) -> FleetView:
    view = fleet_view(services)
    services.check_deadline(call)
    return view


def _workloads(services: Services, call: Call) -> WorkloadPage:
    """Answer ``GET``, or ``POST`` for a query that is too long for a request line."""
    if call.body:
        return workload_page.workload_page(services, call, decode_json(WorkloadQuery, call.body))
    return workload_page.workload_page(services, call, workload_page.query_of(call.query, reader_of(call)))


def _moved(services: Services, call: Call) -> MovesView:
    return moves.moves_view(services, moves.move_query(call.query, reader_of(call).namespaces))


def _binding_as_known(services: Services, call: Call) -> BindingView:
    return visible_binding(described(services, *key_of(call)), reader_of(call))


def _binding_decision(services: Services, call: Call) -> BindingExplanation:
    return visible_decision(explained(services, *key_of(call)), reader_of(call))


def _outlook(services: Services, call: Call) -> BindingOutlook:
    return binding_outlook(services, *key_of(call), call.query.get("group"))


def _overview(services: Services, call: Call) -> BindingOverview:
    most = values(_OVERVIEW, call.query).get("clusters")
    return binding_overview(services, *key_of(call), call.query.get("group"), reader_of(call), most)


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
    drifts = part("drift", lambda: drift.drift_of_binding(services, namespace, name))
    diagnosis = None if decision is None else decision.diagnosis
    room = room_of(services, binding, [] if diagnosis is None else [each.group for each in diagnosis.groups])
    return BindingOverview(visible_binding(binding, reader), decision, outlook, claims, missing, version, room, drifts)
