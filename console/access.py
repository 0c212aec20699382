"""Which namespaces a visitor may see: SubjectAccessReviews of the API server, kept for a short time."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from http import HTTPStatus
from typing import Final, NamedTuple

from berthmaster.kube.client import APIClient, ask
from berthmaster.kube.requests import APIRequest, Collection, create
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import ApiError, FieldError
from berthmaster.model.meta import CLUSTER_SCOPED, Value
from berthmaster.runtime.clock import Clock
from console.authentication import Visitor
from console.source import SourceError

_REVIEWS: Final = Collection.of("authorization.k8s.io/v1", "subjectaccessreviews")
_KEPT_S: Final = 30.0
_STALE_S: Final = 30.0
_MAX_ANSWERS: Final = 1000
_AT_ONCE: Final = 8
_ALL: Final = ""
_LISTED: Final = ("resourcebindings", "clusterresourcebindings")

Namespaces = frozenset[str] | None


_Key = tuple[str, tuple[str, ...], str]
"""The name and the groups of a visitor, and the namespace of the question."""


class _Known(NamedTuple):
    until_s: float
    namespaces: Namespaces


class _ReviewStatus(Value, frozen=True):
    allowed: bool = False


class _Review(Value, frozen=True):
    status: _ReviewStatus = _ReviewStatus()


class NamespaceAccess:
    """Asks whether visitors may list bindings. Safe for several threads."""

    def __init__(self, client: APIClient, clock: Clock, namespaces: Callable[[], Iterable[str]]) -> None:
        """Prepare reviews, without a request.

        Args:
            client: the API server that knows the rights. The console needs the right to create SubjectAccessReviews.
        """
        self._client, self._clock, self._namespaces = client, clock, namespaces
        self._known: OrderedDict[_Key, _Known] = OrderedDict()
        self._asking: dict[_Key, Future[Namespaces]] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="access-review")
        self._background = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="access-renewal")

    def namespaces_of(self, visitor: Visitor, namespace: str = "") -> Namespaces:
        """Return the namespaces whose bindings a visitor may list, with ``-`` for cluster-scoped ones; None for all.

        An answer counts for 30 seconds. For 30 further seconds it is returned while it is asked again. Equal questions
        at one time are asked once.

        Args:
            namespace: only this namespace counts; empty for all that have workloads.

        Raises:
            SourceError: the API server or the extender cannot be asked.
        """
        key = (visitor.name, visitor.groups, namespace)
        with self._lock:
            known, now_s = self._known.get(key), self._clock.monotonic_s()
            if known is not None and now_s < known.until_s:
                return known.namespaces
            usable = known is not None and now_s < known.until_s + _STALE_S
            asked_by_other = self._asking.get(key)
            asking = asked_by_other or self._asking.setdefault(key, Future())
        if asked_by_other is None:
            if usable:
                self._background.submit(self._renew, key, visitor, asking)
            else:
                self._renew(key, visitor, asking)
        return known.namespaces if known is not None and usable else asking.result()

    def _renew(self, key: _Key, visitor: Visitor, asking: "Future[Namespaces]") -> None:
        try:
            namespaces = self._ask(visitor, key[2])
        except BaseException as error:  # noqa: BLE001 - who waits for the answer gets the error
            with self._lock:
                del self._asking[key]
            asking.set_exception(error)
            return
        with self._lock:
            del self._asking[key]
            self._known[key] = _Known(self._clock.monotonic_s() + _KEPT_S, namespaces)
            self._known.move_to_end(key)
            if len(self._known) > _MAX_ANSWERS:
                self._known.popitem(last=False)
        asking.set_result(namespaces)

    def _ask(self, visitor: Visitor, namespace: str) -> Namespaces:
        cluster_scoped = self._may_list(visitor, _LISTED[1], _ALL)
        everywhere = self._may_list(visitor, _LISTED[0], _ALL)
        if cluster_scoped and everywhere:
            return None
        candidates = sorted(({namespace} if namespace else set(self._namespaces())) - {CLUSTER_SCOPED})
        if not everywhere:
            allowed = self._pool.map(lambda each: self._may_list(visitor, _LISTED[0], each), candidates)
            candidates = [name for name, may in zip(candidates, allowed, strict=True) if may]
        return frozenset([*candidates, *([CLUSTER_SCOPED] if cluster_scoped else [])])

    def _may_list(self, visitor: Visitor, resource: str, namespace: str) -> bool:
        attributes = {"group": "work.karmada.io", "resource": resource, "verb": "list", "namespace": namespace}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": visitor.name, "groups": list(visitor.groups), "resourceAttributes": attributes},
        }
        try:
            return decode_json(_Review, self._send(create(_REVIEWS, "", review))).status.allowed
        except (ApiError, FieldError) as error:
            raise SourceError(
                f"The API server cannot be asked what you may see, so nothing is shown: {error}",
                HTTPStatus.SERVICE_UNAVAILABLE,
            ) from None

    def _send(self, request: APIRequest) -> bytes:
        """Send a review. It changes nothing, so it is sent once more if the connection was closed."""
        try:
            return ask(self._client, request)
        except ApiError as error:
            if error.status != 0:
                raise
            return ask(self._client, request)
