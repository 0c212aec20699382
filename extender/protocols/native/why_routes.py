"""The paths of the questions that begin with why."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from berthmaster.ledger.records import PastExplanation
from berthmaster.model.decode import encode_json
from berthmaster.model.policy import POLICY_KINDS, PolicyReference
from berthmaster.native_api.why import (
    ClaimsView,
    DriftView,
    MovesView,
    PolicyList,
    PolicyView,
    ResilienceView,
    WhyNotView,
)
from berthmaster.native_api.wire import InvalidField
from berthmaster.simulation.plan_answer import Switch
from extender.protocols.native import examples
from extender.protocols.native.background import WAIT_S
from extender.protocols.native.drift import PARAMETERS as DRIFT_PARAMETERS
from extender.protocols.native.drift import Drifts, drift_query
from extender.protocols.native.moves import PARAMETERS as MOVES_PARAMETERS
from extender.protocols.native.moves import move_query, moves_view
from extender.protocols.native.parameters import choice, count, flag, for_readers, number, reader_of, text
from extender.protocols.native.policies import PARAMETERS, Policies, policy_query
from extender.protocols.native.resilience import FailureQuestion, Resilience, domains_of
from extender.protocols.native.schedule import PROTOCOL, require_synced
from extender.protocols.native.visible import visible_impact, visible_policy, visible_record
from extender.protocols.native.why import Investigator, claims_of
from extender.protocols.problem import Refusal
from extender.protocols.route import Handler, Operation, Parameter, Reply, Route
from extender.protocols.services import Call, Services

_FAILURES: Final = 200
_MAX_FAILURES: Final = 1000
_DOMAIN: Final = "cluster"
_SEEN: Final = text(
    "Only objects of these namespaces, separated by commas; - for those without a namespace. Empty for none."
)
_OF_MOVES: Final = {**MOVES_PARAMETERS, "namespaces": _SEEN}
_RESILIENCE: Final = {
    "by": Parameter(
        "What fails as a whole: cluster, region, zone, provider, or several of them with commas.",
        {"type": "string", "default": _DOMAIN},
    ),
    "limit": count("The most failures.", _MAX_FAILURES),
    "stale": Parameter(
        "Whether to answer soon, with the last figures, or without any with the progress.",
        {"type": "boolean", "default": False},
    ),
    "failover": Parameter(
        "What moves off lost clusters: nothing (off), what does not tolerate a NoExecute taint (on), or what the "
        "control plane is known to move (auto).",
        {"type": "string", "enum": [each.value for each in Switch], "default": Switch.AUTO.value},
    ),
}
_WHY_NOT: Final = {
    "cluster": Parameter("The cluster.", {"type": "string", "minLength": 1}, required=True),
    "record": text("The id of a recorded decision on the binding; absent for the present."),
}


def why_routes(drifts: Drifts) -> Sequence[Route]:
    """Return the routes, with a state of their own beside the drift of the fleet."""
    investigator, known_policies, failures = Investigator(), Policies(), Resilience()

    def resilience(services: Services, call: Call) -> Reply:
        require_synced(services)
        failover = choice("failover", call.query.get("failover", Switch.AUTO), Switch)
        question = FailureQuestion(domains_of(call.query.get("by", _DOMAIN)), failover)
        limit = number(call.query, "limit", _FAILURES, _MAX_FAILURES)
        if flag(call.query, "stale"):
            call = call._replace(deadline_s=min(call.deadline_s, services.clock.monotonic_s() + WAIT_S))
        found = failures.answer(services, call, question, limit)
        reader = reader_of(call)
        return Reply(encode_json(replace(found, impacts=[visible_impact(each, reader) for each in found.impacts])))

    def drift(services: Services, call: Call) -> Reply:
        require_synced(services)
        return Reply(encode_json(drifts.answer(services, call, drift_query(call.query, reader_of(call)))))

    def policies(services: Services, call: Call) -> Reply:
        require_synced(services)
        reader = reader_of(call)
        query = policy_query(call.query)._replace(namespaces=reader.namespaces)
        found = known_policies.page(services, call, query)
        return Reply(encode_json(replace(found, items=[visible_policy(each, reader) for each in found.items])))

    def one_policy(services: Services, call: Call) -> Reply:
        require_synced(services)
        reader, namespace = reader_of(call), call.path_values.get("namespace", "")
        reference = PolicyReference(POLICY_KINDS[not namespace], namespace, call.path_values["name"])
        if not reader.sees(namespace):
            raise Refusal(404, f"there is no {reference}")
        found = known_policies.one(services, call, reference, reader)
        return Reply(encode_json(replace(found, row=visible_policy(found.row, reader))))

    def why_not(services: Services, call: Call) -> Reply:
        cluster, record = call.query.get("cluster", ""), call.query.get("record")
        if not cluster:
            raise _missing("cluster", "the name of a cluster is required")
        if record is not None:
            return Reply(encode_json(investigator.why_not_then(services, call, binding_key(call), record, cluster)))
        require_synced(services)
        return Reply(encode_json(investigator.why_not(services, call, binding_key(call), cluster)))

    def recorded(services: Services, call: Call) -> Reply:
        found = investigator.recorded(services, call, binding_key(call), call.path_values["record"])
        return Reply(encode_json(visible_record(found, reader_of(call))))

    return [
        *for_readers(Route(
            "GET", "/v1/moves", moves, PROTOCOL, query=_OF_MOVES,
            operation=Operation("listMoves", "List what moves and what moves wait for", MovesView, refusals=(409,)))),
        *for_readers(Route(
            "GET", "/v1/resilience", resilience, PROTOCOL, query=_RESILIENCE,
            operation=Operation("listFailures", "List what each failure alone would do, the worst first",
                                ResilienceView, refusals=(409,)))),
        *for_readers(Route(
            "GET", "/v1/drift", drift, PROTOCOL, query={**DRIFT_PARAMETERS, "namespaces": _SEEN},
            operation=Operation("listDrift", "List which workloads do not satisfy their policies any more",
                                DriftView, refusals=(409,)))),
        *for_readers(Route(
            "GET", "/v1/policies", policies, PROTOCOL, query={**PARAMETERS, "namespaces": _SEEN},
            operation=Operation("listPolicies",
                                "List what policies claim, what rules find, takeovers and priority drops",
                                PolicyList, refusals=(409,)))),
        *for_readers(Route(
            "GET", "/v1/policies/{namespace}/{name}", one_policy, PROTOCOL, query={},
            operation=Operation("getPolicy", "Read a policy, and which clusters its placement allows",
                                PolicyView, refusals=(404, 409)))),
        *for_readers(Route(
            "GET", "/v1/clusterpolicies/{name}", one_policy, PROTOCOL, query={},
            operation=Operation("getClusterPolicy", "Read a policy for all namespaces, and which clusters it allows",
                                PolicyView, refusals=(404, 409)))),
        *binding_routes("/claims", claims, _ids("listClaims"), "Read which policy holds a workload",
                        ClaimsView, examples.claimed),
        *binding_routes("/why-not", why_not, _ids("whyNot"),
                        "Find the smallest change under which a cluster would get a workload",
                        WhyNotView, examples.not_there, _WHY_NOT),
        *binding_routes("/decisions/{record}", recorded, _ids("explainRecord"),
                        "Explain a recorded decision with the fleet as it was", PastExplanation, readers=True),
    ]  # fmt: skip


def _ids(name: str) -> tuple[str, str]:
    return name, f"{name}OfClusterBinding"


def claims(services: Services, call: Call) -> Reply:
    """``GET /v1/bindings/{namespace}/{name}/claims`` and ``GET /v1/clusterbindings/{name}/claims``."""
    require_synced(services)
    return Reply(encode_json(claims_of(services, *binding_key(call))))


def moves(services: Services, call: Call) -> Reply:
    """``GET /v1/moves``, or ``POST`` with the namespaces of the reader."""
    require_synced(services)
    return Reply(encode_json(moves_view(services, move_query(call.query, reader_of(call).namespaces))))


def _missing(name: str, problem: str) -> Refusal:
    return Refusal(400, f"query parameter {name}: {problem}", errors=[InvalidField(f"?{name}", problem)])


def binding_routes(
    suffix: str,
    handler: Handler,
    ids: tuple[str, str],
    summary: str,
    answer: type,
    example: Callable[[], Any] | None = None,
    query: Mapping[str, Parameter] | None = None,
    *,
    readers: bool = False,
) -> Iterator[Route]:
    """Yield the routes.

    Args:
        suffix: the end of both paths.
        readers: whether there are routes for readers, too: the answer can name objects of other namespaces.
    """
    own, other = ids
    kinds = (
        ("/v1/bindings/{namespace}/{name}", Operation(own, summary, answer, example, refusals=(404, 409))),
        ("/v1/clusterbindings/{name}", Operation(other, f"{summary}, cluster-scoped", answer, refusals=(404, 409))),
    )
    for path, operation in kinds:
        route = Route("GET", f"{path}{suffix}", handler, PROTOCOL, query=query or {}, operation=operation)
        yield from for_readers(route) if readers else (route,)


def binding_key(call: Call) -> tuple[str, str]:
    """Return the namespace and the name of the binding in the path; an empty namespace for a cluster-scoped one."""
    return call.path_values.get("namespace", ""), call.path_values["name"]
