"""Reads AdmissionReviews, counts and logs them, and always answers with one."""

import logging
import time
import uuid
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Final

from msgspec.structs import replace

from berthmaster.kube.events import Recorder
from berthmaster.model.note import NoteRecorder
from berthmaster.runtime.clock import Clock
from berthmaster.runtime.logs import BurstFilter, fields
from berthmaster.serving.responses import HTTPReply
from webhook import metrics
from webhook.admission import wire
from webhook.admission.catalog import IMPACT_PATHS, ROUTES
from webhook.admission.context import AdmissionContext
from webhook.admission.gate_decision import GateDecision, GateResult
from webhook.admission.impact import NotComputed, PolicyImpact, ReviewedChange
from webhook.admission.large import review_body
from webhook.admission.review_outcome import ReviewOutcome
from webhook.admission.reviews import ReviewRoute
from webhook.admission.settings import AdmissionSettings
from webhook.admission.wire import NotAReview, RequestHead
from webhook.gate_events import record_gate_event
from webhook.impact import ExtenderImpact
from webhook.notes import note_of

_LOG: Final = logging.getLogger("berthmaster.webhook")
_LOG_PER_S: Final = 50.0
_LOG_BURST: Final = 500
_NOTES_PER_S: Final = 10.0
_NOTE_BURST: Final = 200
_JSON: Final = "application/json"
_HEADERS: Final = (("Content-Type", _JSON),)
_REASONS: Final = {
    400: "BadRequest",
    404: "NotFound",
    405: "MethodNotAllowed",
    408: "Timeout",
    411: "LengthRequired",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    500: "InternalError",
    503: "ServiceUnavailable",
}
_OPERATIONS: Final = frozenset({"CREATE", "UPDATE", "DELETE", "CONNECT"})
_MAX_LOGGED_FIELDS: Final = 20
# There are few combinations of labels, and ``labels`` takes longer than counting.
_reviews: Final = cache(metrics.REVIEWS.labels)
_rule_hits: Final = cache(metrics.RULE_HITS.labels)
_gate_decisions: Final = cache(metrics.GATE.labels)
_MARGIN_S: Final = 0.2
"""The time that an answer needs after its impact has arrived."""


class Reviewer:
    """Answer review requests with fixed settings. Safe for several threads."""

    def __init__(
        self,
        settings: AdmissionSettings,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
        *,
        impact: ExtenderImpact | None = None,
        timeout_s: float = 2.5,
        events: Recorder | None = None,
        ledger: NoteRecorder | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Set up the reviewer.

        Args:
            timeout_s: the time limit of a review, in which its impact has to arrive.
            clock: limits how many log lines and records a burst makes; the one of the machine by default.
        """
        self._context = AdmissionContext(settings, new_id)
        self._impact = impact
        self._timeout_s = timeout_s
        self._events = events
        self._ledger = ledger
        self._note_limit = BurstFilter(_NOTES_PER_S, _NOTE_BURST, clock)
        self._seconds = {path: metrics.SECONDS.labels(path) for path in ROUTES}
        self._log_limit = BurstFilter(_LOG_PER_S, _LOG_BURST, clock)

    def answer(self, path: str, content_type: str, body: bytes, begun_s: float | None = None) -> HTTPReply:
        """Review the body of a POST request to a path of ``ROUTES``. Never raises.

        Args:
            begun_s: when the first byte of the request arrived, on the monotonic clock; None if that is not known.
        """
        started = time.perf_counter()
        if content_type.partition(";")[0].strip().lower() != _JSON:
            return self.refuse(path, 415, f"content type {content_type[:64]!r} is not {_JSON}", body)
        try:
            reply = self._review(path, ROUTES[path], body, begun_s)
        except NotAReview as error:
            return self._refused(path, error.status, error.uid, str(error))
        except Exception:  # noqa: BLE001 - the crash handler: the API server must get an answer with its UID
            uid = wire.find_uid(body)
            _LOG.exception("review failed", extra=fields(uid=uid, path=path))
            metrics.REFUSED.labels("500").inc()
            problem = "the webhook failed on this object; its log has the details"
            # The HTTP status is 200: a failurePolicy is for webhooks that the API server cannot reach.
            return HTTPReply(200, _HEADERS, wire.encode_failure(uid, 500, _REASONS[500], problem))
        self._seconds[path].observe(time.perf_counter() - started)
        return reply

    def refuse(self, path: str, status: int, problem: str, body: bytes) -> HTTPReply:
        """Answer a request that is not a review. The answer carries the UID if the body contains one."""
        return self._refused(path, status, wire.find_uid(body), problem)

    def _review(self, path: str, route: ReviewRoute, content: bytes, begun_s: float | None) -> HTTPReply:
        context = self._context
        if self._impact is not None and path in IMPACT_PATHS:
            until_s = (time.monotonic() if begun_s is None else begun_s) + self._timeout_s - _MARGIN_S
            context = context.asking(_ImpactUntil(self._impact, until_s))
        request, outcome = review_body(route, content, context)
        body = wire.encode(request.uid, outcome)
        verdict = "allowed" if outcome.allowed else "malformed" if outcome.malformed else "denied"
        operation = request.operation if request.operation in _OPERATIONS else "other"
        _reviews(path, operation, verdict, "true" if request.dry_run else "false").inc()
        if outcome.denials or outcome.warnings:
            for rule, findings in Counter(outcome.rules).items():
                _rule_hits(rule).inc(findings)
        if outcome.gate is not None:
            self._report_gate(outcome.gate, request)
        if self._ledger is not None:
            self._record(self._ledger, request, outcome)
        if not outcome.allowed:
            self._log_refusal(f"review {verdict}", _review_fields(path, verdict, request, outcome))
        elif _LOG.isEnabledFor(logging.DEBUG):
            _LOG.debug("review allowed", extra=_review_fields(path, verdict, request, outcome))
        return HTTPReply(200, _HEADERS, body)

    def _report_gate(self, decision: GateDecision, request: RequestHead) -> None:
        """Count a decision of the gate, log an exemption, and record an event. A dry run has no events."""
        _gate_decisions(decision.result.value, "true" if request.dry_run else "false").inc()
        if decision.result is GateResult.EXEMPT:
            log_fields = fields(
                uid=request.uid,
                username=request.user_info.username,
                operation=request.operation,
                namespace=request.namespace,
                name=decision.change.name,
                plan=decision.plan,
                dry_run=bool(request.dry_run),
            )
            _LOG.warning("exempt from the blast radius: %s", decision.message, extra=log_fields)
        if self._events is not None and not request.dry_run:
            record_gate_event(self._events, decision, request)

    def _record(self, ledger: NoteRecorder, request: RequestHead, outcome: ReviewOutcome) -> None:
        """Record a review, unless there are too many. The next record says how many are missing."""
        note = note_of(request, outcome)
        if note is None or (suppressed := self._note_limit.take()) is None:
            return
        if suppressed:
            note = replace(note, details={**note.details, "suppressed": suppressed})
        ledger.noted(note)

    def _refused(self, path: str, status: int, uid: str, problem: str) -> HTTPReply:
        metrics.REFUSED.labels(str(status)).inc()
        self._log_refusal("request refused", fields(status=status, uid=uid, path=path, problem=problem))
        return HTTPReply(status, _HEADERS, wire.encode_failure(uid, status, _REASONS[status], problem))

    def _log_refusal(self, message: str, log_fields: dict[str, object]) -> None:
        """Log a refusal at info, unless there are too many."""
        if _LOG.isEnabledFor(logging.INFO) and (suppressed := self._log_limit.take()) is not None:
            _LOG.info(message, extra={**log_fields, "suppressed": suppressed})


class _ImpactUntil:
    """The impact of changes, until a point in time."""

    def __init__(self, source: ExtenderImpact, until_s: float) -> None:
        self._source = source
        self._until_s = until_s

    def impact(self, change: ReviewedChange) -> PolicyImpact | NotComputed:
        return self._source.ask(change, self._until_s - time.monotonic())


def _review_fields(path: str, verdict: str, request: RequestHead, outcome: ReviewOutcome) -> dict[str, object]:
    """Return the log fields of a review. They identify the object and contain none of its values."""
    return fields(
        uid=request.uid,
        path=path,
        operation=request.operation,
        namespace=request.namespace,
        name=request.name,
        dry_run=bool(request.dry_run),
        verdict=verdict,
        denied_fields=[each.field for each in outcome.denials][:_MAX_LOGGED_FIELDS],
        rules=sorted(set(outcome.rules)),
        patched=len(outcome.patch),
    )
