"""One HTTP request to one answer: the frame around ``webhook.admission`` that counts, logs and never fails.

Independent of any framework: ``webhook.app`` calls it with what it found in the request.
"""

import logging
import time
import uuid
from collections.abc import Callable
from functools import cache
from typing import Final, NamedTuple

from prometheus_client import Counter

from berthmaster.runtime.logs import fields
from webhook import metrics
from webhook.admission import wire
from webhook.admission.outcome import ReviewOutcome
from webhook.admission.reviews import ROUTES, ReviewRoute, review
from webhook.admission.rules.catalog import AdmissionContext
from webhook.admission.settings import AdmissionSettings
from webhook.admission.wire import AdmissionRequest, NotAReview

_LOG: Final = logging.getLogger("berthmaster.webhook")
_REASONS: Final = {
    400: "BadRequest",
    404: "NotFound",
    405: "MethodNotAllowed",
    408: "Timeout",
    411: "LengthRequired",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    500: "InternalError",
}
_OPERATIONS: Final = frozenset({"CREATE", "UPDATE", "DELETE", "CONNECT"})


@cache
def _reviews(path: str, operation: str, verdict: str, dry_run: str) -> Counter:
    """The counter of one combination; there are few, and finding one costs more than counting."""
    return metrics.REVIEWS.labels(path, operation, verdict, dry_run)


@cache
def _rule_hits(rule: str) -> Counter:
    return metrics.RULE_HITS.labels(rule)


class Answer(NamedTuple):
    """What goes back. The body is always an AdmissionReview."""

    status: int
    body: bytes


def fresh_id() -> str:
    """A permanent id."""
    return str(uuid.uuid4())


class Reviewer:
    """Answers review requests with fixed settings. Holds nothing that changes: threads may share it."""

    def __init__(self, settings: AdmissionSettings, new_id: Callable[[], str] = fresh_id) -> None:
        self._context = AdmissionContext(settings, new_id)
        self._seconds = {path: metrics.SECONDS.labels(path) for path in ROUTES}

    def answer(self, path: str, content_type: str, body: bytes) -> Answer:
        """Review what was posted to a path of ``ROUTES``."""
        started = time.perf_counter()
        if content_type.partition(";")[0].strip().lower() != "application/json":
            return self.refuse(415, f"content type {content_type[:64]!r} is not application/json", body)
        try:
            request = wire.decode(body)
        except NotAReview as error:
            return self._refused(error.status, error.uid, str(error))
        try:
            answer = self._review(path, ROUTES[path], request)
        except Exception:  # noqa: BLE001 - the crash handler: an API server must get an answer, and its UID
            _LOG.exception("a review failed", extra=fields(uid=request.uid, path=path))
            metrics.REFUSED.labels("500").inc()
            problem = "the webhook failed on this object; its log says why"
            # In the review, not in HTTP: what a failurePolicy decides about is servers that cannot be reached.
            return Answer(200, wire.encode_failure(request.uid, 500, _REASONS[500], problem))
        self._seconds[path].observe(time.perf_counter() - started)
        return answer

    def refuse(self, status: int, problem: str, body: bytes = b"") -> Answer:
        """Answer a request that cannot be a review, with the UID if there is one to be made out."""
        return self._refused(status, wire.salvaged_uid(body), problem)

    def _review(self, path: str, route: ReviewRoute, request: AdmissionRequest) -> Answer:
        outcome = review(route, request, self._context)
        body = wire.encode(request.uid, outcome)
        verdict = "allowed" if outcome.allowed else "malformed" if outcome.malformed else "denied"
        operation = request.operation if request.operation in _OPERATIONS else "other"
        _reviews(path, operation, verdict, "true" if request.dry_run else "false").inc()
        for rule in outcome.rules:
            _rule_hits(rule).inc()
        level = logging.DEBUG if outcome.allowed else logging.INFO
        if _LOG.isEnabledFor(level):
            _LOG.log(level, "reviewed", extra=_entry(path, verdict, request, outcome))
        return Answer(200, body)

    def _refused(self, status: int, uid: str, problem: str) -> Answer:
        metrics.REFUSED.labels(str(status)).inc()
        _LOG.info("refused a request", extra=fields(status=status, uid=uid))
        return Answer(status, wire.encode_failure(uid, status, _REASONS[status], problem))


def _entry(path: str, verdict: str, request: AdmissionRequest, outcome: ReviewOutcome) -> dict[str, object]:
    """What is logged of a review: who and what it was about, and nothing of what the object says."""
    return fields(
        uid=request.uid,
        path=path,
        operation=request.operation,
        namespace=request.namespace,
        name=request.name,
        dry_run=bool(request.dry_run),
        verdict=verdict,
        denied_fields=[each.path for each in outcome.denials][:20],
        rules=sorted(set(outcome.rules)),
        patched=len(outcome.patch),
    )
