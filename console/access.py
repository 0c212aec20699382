"""Which namespaces a visitor may see: SubjectAccessReviews of the API server, kept for a short time."""

import math
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Final, NamedTuple

from berthmaster.kube.client import APIClient, ask
from berthmaster.kube.requests import APIRequest, Collection, create
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import ApiError, FieldError
from berthmaster.model.meta import CLUSTER_SCOPED, Value
from berthmaster.model.policy_defaults import DEFAULT_NAMESPACE
from berthmaster.runtime.clock import Clock
from console.answer_cache import AnswerCache
from console.source import SourceError
from console.visitor import Visitor

_REVIEWS: Final = Collection.of("authorization.k8s.io/v1", "subjectaccessreviews")
_KEPT_S: Final = 30.0
_STALE_S: Final = 30.0
_MAX_ANSWERS: Final = 1000
_AT_ONCE: Final = 8
_ALL: Final = ""
_GROUP: Final = "work.karmada.io"
_LISTED: Final = ("resourcebindings", "clusterresourcebindings")

Namespaces = frozenset[str] | None


class _Known(NamedTuple):
    namespaces: Namespaces
    asked_s: float


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
        self._cache = AnswerCache(_MAX_ANSWERS)
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
        last = self._cache.last(key)
        known: _Known | None = None if last is None else last.answer

        def ask() -> Namespaces:
            # Equal questions that know the same answer are asked once.
            version = "none" if known is None else str(known.asked_s)
            found = self._cache.answer(
                key,
                version,
                lambda: _Known(self._ask(visitor, namespace), self._clock.monotonic_s()),
                lambda _found: version,
            )
            self._cache.remember(key, found, self._clock.now())
            return found.namespaces

        age_s = math.inf if known is None else self._clock.monotonic_s() - known.asked_s
        if known is None or age_s >= _KEPT_S + _STALE_S:
            return ask()
        if age_s >= _KEPT_S:
            self._background.submit(ask)
        return known.namespaces

    def may_list_events(self, visitor: Visitor, namespace: str) -> bool:
        """Return whether a visitor may list events of a namespace; of cluster-scoped objects if it is empty.

        Raises:
            SourceError: the API server cannot be asked.
        """
        return self._may_list(visitor, "events", namespace or DEFAULT_NAMESPACE, group="")

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

    def _may_list(self, visitor: Visitor, resource: str, namespace: str, group: str = _GROUP) -> bool:
        attributes = {"group": group, "resource": resource, "verb": "list", "namespace": namespace}
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
