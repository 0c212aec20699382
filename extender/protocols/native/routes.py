"""The paths of the native API."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

from berthmaster.ledger.records import PastExplanation
from berthmaster.model.decode import decode_json, encode_json
from berthmaster.native_api import what_if, why, wire
from berthmaster.native_api.connection import REVIEW_PATH
from berthmaster.native_api.days import FleetDays
from berthmaster.native_api.drift import DriftView
from berthmaster.native_api.fleet import FleetView, StateVersion, WorkloadPage, WorkloadQuery
from berthmaster.native_api.policies import ClaimsView, PolicyList, PolicyView
from berthmaster.native_api.problems import ProblemList
from extender.protocols.cheap_requests import never_cheap
from extender.protocols.native import (
    bindings,
    days,
    drift,
    examples,
    history,
    moves,
    openapi,
    policies,
    problems,
    resilience,
)
from extender.protocols.native import fleet as fleets
from extender.protocols.native import schedule as schedules
from extender.protocols.native import workload_page as workloads
from extender.protocols.native.parameters import NAMESPACES, for_readers, key_of, reader_of, text
from extender.protocols.native.plan import Planner
from extender.protocols.native.review import PlanReviewer
from extender.protocols.native.schedule import PROTOCOL, require_synced
from extender.protocols.native.visible import visible_binding, visible_decision
from extender.protocols.route import JSON, Handler, Operation, Parameter, Reply, Route
from extender.protocols.services import Call, Services

Ask = Callable[[Services, Call], object]
_GROUP: Final = {"group": bindings.PARAMETERS["group"]}
_WHY_NOT: Final = {
    "cluster": Parameter("The cluster.", {"type": "string", "minLength": 1, "examples": ["public-1"]}, required=True),
    "record": text("The id of a recorded decision on the binding; absent for the present."),
}


def answers(ask: Ask, *, synced: bool = True) -> Handler:
    """Return the handler that answers with what ``ask`` returns, once the fleet is known unless not ``synced``."""

    def handle(services: Services, call: Call) -> Reply:
        if synced:
            require_synced(services)
        return Reply(encode_json(ask(services, call)))

    return handle


def routes(planner: Planner | None = None, drifts: drift.Drifts | None = None) -> Sequence[Route]:
    """Return the routes of the API. What is computed in the background is shared by all of their requests."""
    planner, known_drifts = planner or Planner(), drifts or drift.Drifts()
    reviewer, investigator = PlanReviewer(planner), bindings.Investigator()
    known_policies, failures, on_record = policies.Policies(), resilience.Resilience(), days.DaysOnRecord()

    @cache
    def document() -> bytes:
        return encode_json(openapi.description(found))

    found = (
        Route("POST", "/v1/schedule", schedules.schedule_one, PROTOCOL, accepts=(JSON,), query=schedules.PARAMETERS,
              brings_fleet=True, cheap=schedules.is_cheap,
              operation=Operation("schedule", "Schedule a binding", wire.Decided, wire.ScheduleRequest,
                                  {"on the service's fleet": examples.SCHEDULE,
                                   "on a fleet of its own": examples.SCHEDULE_OWN_FLEET}, (404,), example=True)),
        _posted("/v1/plan", planner.plan,
                Operation("plan", "Plan changes of policies, clusters and replicas", what_if.PlanAnswer,
                          what_if.PlanRequest,
                          {"a changed policy": examples.PLAN, "a lost cluster": examples.LOST_CLUSTER}, (404, 409),
                          example=True)),
        Route("POST", "/v1/plan/progress", planner.lines, PROTOCOL, streamed=True, accepts=(JSON,), query={},
              operation=Operation("planWithProgress", "Plan changes, and say each second how far the plan is",
                                  what_if.PlanLine, what_if.PlanRequest, {"a changed policy": examples.PLAN},
                                  example=True)),
        _posted(REVIEW_PATH, reviewer.review,
                Operation("review", "Review a change of one policy", what_if.ReviewAnswer, what_if.ChangeReview,
                          {"a new policy": examples.REVIEW}, (404, 409), example=True))._replace(cheap=never_cheap),
        _shown("/v1/clusters", fleets.cluster_page, "listClusters", "List the clusters of the fleet",
               wire.ClusterList, fleets.PARAMETERS),
        _shown("/v1/version", fleets.state_version, "getVersion",
               "Read the version of the state, which changes whenever another answer may change", StateVersion),
        _shown("/v1/fleet", fleets.fleet_view, "getFleet", "Read all clusters, and what is assigned to them",
               FleetView),
        _shown("/v1/workloads", workloads.workload_page, "listWorkloads", "List workloads, and where they are",
               WorkloadPage, workloads.PARAMETERS, (409,)),
        Route("POST", "/v1/workloads", answers(workloads.workload_page), PROTOCOL, accepts=(JSON,), query={},
              operation=Operation("queryWorkloads", "List workloads by a query that may be too long for a request line",
                                  WorkloadPage, WorkloadQuery,
                                  {"of two namespaces": {"namespaces": ["default", "shop"]}}, (409,), example=True)),
        *_of_bindings("", lambda services, call: visible_binding(
                          bindings.described(services, key_of(call)), reader_of(call)),
                      ("getBinding", "getClusterBinding"), "Read a binding as the service knows it", wire.BindingView,
                      example=True, readers=True),
        *_of_bindings("/decision", lambda services, call: visible_decision(
                          bindings.explained(services, key_of(call)), reader_of(call)),
                      ("explainBinding", "explainClusterBinding"), "Explain the decision on a binding",
                      wire.BindingExplanation, example=True, readers=True),
        *_of_bindings("/outlook", lambda services, call: bindings.binding_outlook(
                          services, key_of(call), call.query.get("group")),
                      ("outlookOfBinding", "outlookOfClusterBinding"), "What each group of a binding could hold",
                      why.BindingOutlook, _GROUP, example=True),
        *_of_bindings("/overview", bindings.binding_overview, ("overviewOfBinding", "overviewOfClusterBinding"),
                      "All that the state says about a binding, in one answer",
                      why.BindingOverview, bindings.PARAMETERS, readers=True),
        *_of_bindings("/manifests", lambda services, call: bindings.manifests_of(
                          services, key_of(call), reader_of(call)),
                      ("manifestsOfBinding", "manifestsOfClusterBinding"),
                      "Read a binding and its workload as manifests", why.BindingManifests, readers=True),
        *_of_bindings("/events", lambda services, call: bindings.events_of(services, key_of(call)),
                      ("listEvents", "listClusterBindingEvents"),
                      "List the events of a binding that the API server has", why.BindingEvents),
        *_listed("/v1/history", history.history, "listHistory", "List what the ledger recorded, the latest first",
                 wire.HistoryPage, history.PARAMETERS, synced=False),
        *_listed("/v1/days", on_record.answer, "listDays",
                 "List how many workloads had which problem on each of the last days", FleetDays, NAMESPACES),
        *_of_bindings("/decisions", history.binding_history, ("listBindingDecisions", "listClusterBindingDecisions"),
                      "List the recorded decisions on a binding", wire.HistoryPage, history.BINDING_PARAMETERS,
                      synced=False),
        *_listed("/v1/problems", problems.problem_list, "listProblems", "List what is broken, the worst first",
                 ProblemList, NAMESPACES),
        *_listed("/v1/moves", moves.moves_view, "listMoves", "List what moves and what moves wait for", why.MovesView,
                 moves.PARAMETERS),
        *_listed("/v1/resilience", failures.asked, "listFailures",
                 "List what each failure alone would do, the worst first", why.ResilienceView, resilience.PARAMETERS),
        *_listed("/v1/drift", known_drifts.answer, "listDrift",
                 "List which workloads do not satisfy their policies any more", DriftView, drift.PARAMETERS),
        *_listed("/v1/policies", known_policies.listed, "listPolicies",
                 "List what policies claim, what rules find, takeovers and priority drops", PolicyList,
                 policies.PARAMETERS),
        *_listed("/v1/policies/{namespace}/{name}", known_policies.shown, "getPolicy",
                 "Read a policy, and which clusters its placement allows", PolicyView, {}, (404, 409)),
        *_listed("/v1/clusterpolicies/{name}", known_policies.shown, "getClusterPolicy",
                 "Read a policy for all namespaces, and which clusters it allows", PolicyView, {}, (404, 409)),
        *_of_bindings("/claims", lambda services, call: bindings.claims_of(services, key_of(call)), _ids("listClaims"),
                      "Read which policy holds a workload", ClaimsView, example=True),
        *_of_bindings("/why-not", investigator.why_not, _ids("whyNot"),
                      "Find the smallest change under which a cluster would get a workload",
                      why.WhyNotView, _WHY_NOT, example=True, synced=False),
        *_of_bindings("/decisions/{record}", investigator.explained, _ids("explainRecord"),
                      "Explain a recorded decision with the fleet as it was", PastExplanation, readers=True,
                      synced=False),
        Route("GET", "/openapi.json", lambda _services, _call: Reply(document()), PROTOCOL, query={},
              operation=Operation("describe", "This document", dict)),
    )  # fmt: skip
    return found


def _posted(path: str, ask: Callable[[Services, Call, Any], object], operation: Operation) -> Route:
    """Return the route of a question in a body, which asks itself whether the fleet is known."""

    def handle(services: Services, call: Call) -> Reply:
        return Reply(encode_json(ask(services, call, decode_json(operation.body or dict, call.body))))

    return Route("POST", path, handle, PROTOCOL, accepts=(JSON,), query={}, operation=operation)


def _shown(
    path: str,
    ask: Ask,
    name: str,
    summary: str,
    answer: type,
    query: Mapping[str, Parameter] | None = None,
    refusals: tuple[int, ...] = (),
) -> Route:
    operation = Operation(name, summary, answer, refusals=refusals, example=True)
    return Route("GET", path, answers(ask), PROTOCOL, query=query or {}, operation=operation)


def _ids(name: str) -> tuple[str, str]:
    return name, f"{name}OfClusterBinding"


def _listed(
    path: str,
    ask: Ask,
    name: str,
    summary: str,
    answer: type,
    query: Mapping[str, Parameter],
    refusals: tuple[int, ...] = (409,),
    *,
    synced: bool = True,
) -> Iterator[Route]:
    operation = Operation(name, summary, answer, refusals=refusals)
    return for_readers(Route("GET", path, answers(ask, synced=synced), PROTOCOL, query=query, operation=operation))


def _of_bindings(
    suffix: str,
    ask: Ask,
    ids: tuple[str, str],
    summary: str,
    answer: type,
    query: Mapping[str, Parameter] | None = None,
    *,
    example: bool = False,
    readers: bool = False,
    synced: bool = True,
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
    handler = answers(ask, synced=synced)
    for path, operation in kinds:
        route = Route("GET", f"{path}{suffix}", handler, PROTOCOL, query=query or {}, operation=operation)
        yield from for_readers(route) if readers else (route,)
