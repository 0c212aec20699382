"""Marking one binding: the scheduler schedules it afresh if the mark is later than its last scheduling."""

from datetime import datetime
from http import HTTPStatus
from typing import Any, Final

from berthmaster.controllers.rebalancer.plan import Marked, Missing, Outcome, Unsettled
from berthmaster.kube.client import APIClient, ask
from berthmaster.kube.events import Reference
from berthmaster.kube.requests import Collection, Key, get, merge_patch
from berthmaster.model.binding import binding_name
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import ApiError, FieldError
from berthmaster.model.meta import ObjectMeta, Timestamp, Value
from berthmaster.model.rebalancer import RebalancedWorkload
from berthmaster.model.selector import is_dns_subdomain

TRIES: Final = 5
"""How often an object is read and written anew while somebody else writes to it too; later the queue waits longer."""
_API_VERSION: Final = "work.karmada.io/v1alpha2"
_RESOURCE_BINDINGS: Final = Collection.of(_API_VERSION, "resourcebindings")
_CLUSTER_RESOURCE_BINDINGS: Final = Collection.of(_API_VERSION, "clusterresourcebindings")


class _Spec(Value, frozen=True):
    reschedule_triggered_at: Timestamp | None = None


class _Status(Value, frozen=True):
    last_scheduled_time: Timestamp | None = None


class MarkableBinding(Value, frozen=True):
    """The little of a binding that matters here; nothing else in it can be an obstacle."""

    metadata: ObjectMeta
    spec: _Spec = _Spec()
    status: _Status = _Status()


def is_gone(error: ApiError) -> bool:
    """Whether the object is surely not there.

    A bare 404 is not enough: it also comes where the kind is not served, or not yet, and what is wrong for good must
    not be concluded from that.
    """
    return error.status == HTTPStatus.NOT_FOUND and error.reason == "NotFound"


def binding_of(workload: RebalancedWorkload) -> tuple[Collection, Key] | None:
    """Where the binding of a workload is; None if there can be none by such a name.

    Names come from users and become parts of paths, so that nothing passes here that is no name.
    """
    name = binding_name(workload.kind, workload.name)
    if not is_dns_subdomain(name) or not (workload.namespace == "" or is_dns_subdomain(workload.namespace)):
        return None
    collection = _RESOURCE_BINDINGS if workload.namespace else _CLUSTER_RESOURCE_BINDINGS
    return collection, (workload.namespace, name)


def needs_mark(binding: MarkableBinding, at: datetime) -> bool:
    """Whether a binding bears no mark, or an earlier one: a mark never goes back."""
    marked_at = binding.spec.reschedule_triggered_at
    return marked_at is None or marked_at < at


def mark(client: APIClient, workload: RebalancedWorkload, at: datetime) -> Outcome:
    """Mark the binding of a workload, unless it bears the same mark or a later one.

    The write holds only for the version that was looked at; if somebody else wrote meanwhile it is looked at anew.
    """
    where = binding_of(workload)
    if where is None:
        return Missing()
    conflict: ApiError
    for _ in range(TRIES):
        try:
            return _mark_once(client, where, at)
        except FieldError as error:
            said = f"the binding {'/'.join(filter(None, where[1]))} is not readable: {error}"
            return Unsettled(ApiError(HTTPStatus.OK, "", said))  # it answered: the other bindings can be had
        except ApiError as error:
            if is_gone(error):
                return Missing()
            if not error.conflict:
                return Unsettled(error)
            conflict = error
    return Unsettled(conflict)


def _mark_once(client: APIClient, where: tuple[Collection, Key], at: datetime) -> Marked:
    """Look at the binding as it is now, and mark it if need be.

    Raises:
        ApiError: that failed; conflicting, if somebody else wrote in between.
        FieldError: it cannot be read.
    """
    collection, key = where
    binding = decode_json(MarkableBinding, ask(client, get(collection, key)))
    if not needs_mark(binding, at):
        return Marked()
    ask(client, merge_patch(collection, key, _patch(binding, at)))
    last = binding.status.last_scheduled_time
    overtaken_at = last if last is not None and last >= at else None
    kind = "ResourceBinding" if key[0] else "ClusterResourceBinding"
    return Marked(Reference(_API_VERSION, kind, *key, binding.metadata.uid), overtaken_at)


def _patch(binding: MarkableBinding, at: datetime) -> dict[str, Any]:
    guard = {"uid": binding.metadata.uid, "resourceVersion": binding.metadata.resource_version}
    return {"metadata": guard, "spec": {"rescheduleTriggeredAt": at}}
