"""The paths of the questions that begin with why."""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from berthmaster.model.decode import encode_json
from berthmaster.native_api.problem import InvalidField
from extender.protocols.native.moves import moves_view
from extender.protocols.native.parameters import for_readers, number, reader_of
from extender.protocols.native.policies import PARAMETERS, Policies, policy_query
from extender.protocols.native.resilience import Resilience, domains_of
from extender.protocols.native.schedule import PROTOCOL, require_synced
from extender.protocols.native.visible import visible_impact, visible_policy, visible_record
from extender.protocols.native.why import Investigator, claims_of
from extender.protocols.problem import Refusal
from extender.protocols.route import Reply, Route
from extender.protocols.services import Call, Services

_MOVES: Final = 1000
_MAX_MOVES: Final = 10_000
_FAILURES: Final = 200
_MAX_FAILURES: Final = 1000
_DOMAIN: Final = "cluster"
_BINDINGS: Final = ("/v1/bindings/{namespace}/{name}", "/v1/clusterbindings/{name}")


def why_routes() -> Sequence[Route]:
    """Return the routes, with a state of their own."""
    investigator, known_policies, failures = Investigator(), Policies(), Resilience()

    def resilience(services: Services, call: Call) -> Reply:
        require_synced(services)
        domains = domains_of(call.query.get("by", _DOMAIN))
        limit = number(call.query, "limit", _FAILURES, _MAX_FAILURES)
        found = failures.answer(services, call, domains, limit)
        reader = reader_of(call)
        return Reply(encode_json(replace(found, impacts=[visible_impact(each, reader) for each in found.impacts])))

    def policies(services: Services, call: Call) -> Reply:
        require_synced(services)
        reader = reader_of(call)
        query = policy_query(call.query)._replace(namespaces=reader.namespaces)
        found = known_policies.page(services, call, query)
        return Reply(encode_json(replace(found, items=[visible_policy(each, reader) for each in found.items])))

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
        *for_readers(Route("GET", "/v1/moves", moves, PROTOCOL, query=frozenset({"namespaces", "limit"}))),
        *for_readers(Route("GET", "/v1/resilience", resilience, PROTOCOL, query=frozenset({"by", "limit"}))),
        *for_readers(Route("GET", "/v1/policies", policies, PROTOCOL, query=PARAMETERS)),
        *(
            route
            for binding in _BINDINGS
            for route in (
                Route("GET", f"{binding}/claims", claims, PROTOCOL, query=frozenset()),
                Route("GET", f"{binding}/why-not", why_not, PROTOCOL, query=frozenset({"cluster", "record"})),
                *for_readers(Route("GET", f"{binding}/decisions/{{record}}", recorded, PROTOCOL, query=frozenset())),
            )
        ),
    ]


def claims(services: Services, call: Call) -> Reply:
    """``GET /v1/bindings/{namespace}/{name}/claims`` and ``GET /v1/clusterbindings/{name}/claims``."""
    require_synced(services)
    return Reply(encode_json(claims_of(services, *binding_key(call))))


def moves(services: Services, call: Call) -> Reply:
    """``GET /v1/moves``, or ``POST`` with the namespaces of the reader."""
    require_synced(services)
    limit = number(call.query, "limit", _MOVES, _MAX_MOVES)
    return Reply(encode_json(moves_view(services, reader_of(call).namespaces, limit)))


def binding_key(call: Call) -> tuple[str, str]:
    """Return the namespace and the name of the binding in the path; an empty namespace for a cluster-scoped one."""
    return call.path_values.get("namespace", ""), call.path_values["name"]


def _missing(name: str, problem: str) -> Refusal:
    return Refusal(400, f"query parameter {name}: {problem}", errors=[InvalidField(f"?{name}", problem)])
