"""``/v1/history`` and the decisions on one binding: what the ledger has."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from berthmaster.ledger.records import Query, RecordId
from berthmaster.model.errors import InputError, LedgerError, shown
from berthmaster.model.gaps import ANY_READER, Reader
from berthmaster.model.meta import is_valid_name
from berthmaster.native_api.wire import HistoryPage, InvalidField
from extender.protocols.native.parameters import count, flag, text, time
from extender.protocols.problem import Refusal
from extender.protocols.route import Parameter
from extender.protocols.services import Services

MAX_PAGE: Final = 1000
BINDING_PARAMETERS: Final = {
    "after": text("The page contains the records before this one, by its id."),
    "limit": count("The most records of the page.", MAX_PAGE),
    "since": time("Only records from this time on."),
    "until": time("Only records up to this time."),
}
PARAMETERS: Final = {
    **BINDING_PARAMETERS,
    "namespace": text("Only objects of this namespace."),
    "kind": text("Only objects of this kind."),
    "name": text("Only objects of this name."),
    "cluster": text("Only records that change the replicas on this cluster."),
    "policy": text("Only workloads of this policy: NAME or NAMESPACE/NAME."),
    "trigger": text("Only decisions with this trigger, records of this kind."),
    "moves": Parameter(
        "Only decisions that change an assignment or evict from a cluster.", {"type": "boolean", "default": False}
    ),
}
_MAX_NAME: Final = 512


def history(services: Services, query: Mapping[str, str], limit: int, reader: Reader = ANY_READER) -> HistoryPage:
    """Return records by the parameters of a request: those of objects that the reader may see."""
    return _page(
        services,
        Query(
            _text(query, "namespace"),
            _text(query, "kind"),
            _text(query, "name"),
            _text(query, "cluster"),
            _text(query, "policy"),
            _text(query, "trigger"),
            namespaces=reader.namespaces,
            moves_only=flag(query, "moves"),
        ),
        query,
        limit,
    )


def binding_history(services: Services, namespace: str, name: str, query: Mapping[str, str], limit: int) -> HistoryPage:
    """Return the decisions on a binding; raises as ``history``.

    The name of a binding is that of its workload, a dash and the kind in lower case.
    """
    workload, dash, kind = name.rpartition("-")
    if not dash or not is_valid_name(name):
        raise Refusal(404, f"there is no binding {shown(name)}")
    wanted = Query(namespace, kind, workload, decisions_only=True, cluster_scoped=not namespace)
    return _page(services, wanted, query, limit)


def _page(services: Services, wanted: Query, query: Mapping[str, str], limit: int) -> HistoryPage:
    if services.ledger is None:
        raise Refusal(409, "the extender has no ledger; start it with --ledger (chart: ledger.secretName)")
    wanted = wanted._replace(
        since_us=_time(query, "since", wanted.since_us), until_us=_time(query, "until", wanted.until_us)
    )
    after = RecordId.parse(query["after"]) if "after" in query else None
    try:
        found = services.ledger.page(wanted, limit, after)
    except LedgerError as error:
        services.log.warning("the ledger cannot be read: %s", error)
        raise Refusal(503, "the ledger cannot be read now", headers=(("Retry-After", "5"),)) from None
    except InputError as error:
        raise Refusal(400, str(error)) from None
    return HistoryPage(found.rows, None if found.after is None else str(found.after))


def _text(query: Mapping[str, str], name: str) -> str:
    value = query.get(name, "")
    if len(value) > _MAX_NAME:
        raise _invalid(name, f"{shown(value)} is longer than {_MAX_NAME} characters")
    return value


def _time(query: Mapping[str, str], name: str, default: int) -> int:
    if name not in query:
        return default
    try:
        moment = datetime.fromisoformat(query[name])
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        accepted = "a time with its offset, such as 2026-11-21T03:12:00Z"
        raise _invalid(name, f"{shown(query[name])} is not accepted; accepted is {accepted}")
    return round(moment.timestamp() * 1e6)


def _invalid(name: str, problem: str) -> Refusal:
    return Refusal(400, f"query parameter {name}: {problem}", errors=[InvalidField(f"?{name}", problem)])
