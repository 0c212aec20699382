"""``/v1/history`` and the decisions on one binding: what the ledger has."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from berthmaster.ledger.records import Query, RecordId
from berthmaster.model.errors import InputError, LedgerError, NotRecordedError, shown
from berthmaster.model.meta import is_valid_name
from berthmaster.native_api.wire import HistoryPage
from extender.protocols.native.parameters import flag, key_of, number, reader_of, text, time, values
from extender.protocols.problem import Refusal
from extender.protocols.services import Call, Services

if TYPE_CHECKING:
    from berthmaster.ledger.reader import LedgerReader

T = TypeVar("T")
_RETRY: Final = (("Retry-After", "5"),)
_PAGE: Final = 50
_MAX_PAGE: Final = 1000
_MAX_NAME: Final = 512
BINDING_PARAMETERS: Final = {
    "after": text("The page contains the records before this one, by its id."),
    "limit": number("The most records of the page.", _MAX_PAGE, default=_PAGE),
    "since": time("Only records from this time on."),
    "until": time("Only records up to this time."),
}
_OBJECTS: Final = {
    "namespace": text("Only objects of this namespace.", maxLength=_MAX_NAME),
    "kind": text("Only objects of this kind.", maxLength=_MAX_NAME),
    "name": text("Only objects of this name.", maxLength=_MAX_NAME),
    "cluster": text("Only records that change the replicas on this cluster.", maxLength=_MAX_NAME),
    "policy": text("Only workloads of this policy: NAME or NAMESPACE/NAME.", maxLength=_MAX_NAME),
    "trigger": text("Only decisions with this trigger, records of this kind.", maxLength=_MAX_NAME),
}
PARAMETERS: Final = {
    **BINDING_PARAMETERS,
    **_OBJECTS,
    "moves": flag("Only decisions that change an assignment or evict from a cluster."),
    "user": text("Only changes that this user made, as the API server names users.", maxLength=_MAX_NAME),
}


def history(services: Services, call: Call) -> HistoryPage:
    """Return records by the parameters of a request: those of objects that the reader may see."""
    given = values(PARAMETERS, call.query)
    namespace, kind, name, cluster, policy, trigger = (given.get(name, "") for name in _OBJECTS)
    seen = reader_of(call).namespaces
    wanted = Query(
        namespace, kind, name, cluster, policy, trigger, namespaces=seen, moves_only=given["moves"],
        user=given.get("user", ""),
    )  # fmt: skip
    return _page(services, wanted, given)


def binding_history(services: Services, call: Call) -> HistoryPage:
    """Return the decisions on a binding; raises as ``history``.

    The name of a binding is that of its workload, a dash and the kind in lower case.
    """
    namespace, name = key_of(call)
    workload, dash, kind = name.rpartition("-")
    if not dash or not is_valid_name(name):
        raise Refusal(404, f"there is no binding {shown(name)}")
    wanted = Query(namespace, kind, workload, decisions_only=True, cluster_scoped=not namespace)
    return _page(services, wanted, values(BINDING_PARAMETERS, call.query))


def _page(services: Services, wanted: Query, given: Mapping[str, Any]) -> HistoryPage:
    ledger = ledger_of(services)
    times = {f"{name}_us": round(given[name].timestamp() * 1e6) for name in ("since", "until") if name in given}
    after = RecordId.parse(given["after"]) if "after" in given else None
    found = from_ledger(services, lambda: ledger.page(wanted._replace(**times), given["limit"], after), invalid=400)
    return HistoryPage(found.rows, None if found.after is None else str(found.after))


def ledger_of(services: Services) -> "LedgerReader":
    """Return the ledger. Raises ``Refusal`` if there is none."""
    if services.ledger is None:
        raise Refusal(409, "the extender has no ledger; start it with --ledger (chart: ledger.secretName)")
    return services.ledger


def from_ledger(services: Services, ask: Callable[[], T], *, invalid: int = 409) -> T:
    """Return what the ledger answers. ``invalid`` is the status for a question that it cannot answer."""
    try:
        return ask()
    except LedgerError as error:
        services.log.warning("the ledger cannot be read: %s", error)
        raise Refusal(503, "the ledger cannot be read now", headers=_RETRY) from None
    except NotRecordedError as error:
        raise Refusal(404, str(error)) from None
    except InputError as error:
        raise Refusal(invalid, str(error)) from None
