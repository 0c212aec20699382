"""AdmissionReviews from bytes and to bytes.

Whatever comes in gets a review back. If it is no review of the one version that is spoken, ``NotAReview`` says so
with the status of HTTP to use, and carries the UID as far as one can be made out.
"""

import re
from typing import Any, Final

import msgspec

from webhook.admission.outcome import Outcome
from webhook.admission.problem import Problem
from webhook.admission.review import (
    API_VERSION,
    KIND,
    Request,
    Response,
    ReviewRequest,
    ReviewResponse,
    Status,
    StatusCause,
    StatusDetails,
)

_DECODER: Final = msgspec.json.Decoder(ReviewRequest)
_ENCODER: Final = msgspec.json.Encoder()
# What is left of a broken document may still say which review it was. API servers put the UID first.
_UID_IN_PIECES: Final = re.compile(rb'"request"\s*:\s*\{\s*"uid"\s*:\s*("(?:[^"\\\x00-\x1f]|\\.){0,512}")')
_MAX_WARNINGS: Final = 24
_MAX_WARNING_LENGTH: Final = 256  # API servers cut longer ones, and drop what goes beyond 4,096 in all
_MAX_DENIALS: Final = 64
_MAX_MESSAGE_LENGTH: Final = 16_384


class NotAReview(Exception):  # noqa: N818 - an outcome of decoding, answered like any other
    """What came in is no AdmissionReview of the version that is spoken.

    Attributes:
        status: the status of HTTP that says so.
        uid: the review's UID; empty if none can be made out.
    """

    def __init__(self, problem: str, *, status: int = 400, uid: str = "") -> None:
        super().__init__(problem)
        self.status = status
        self.uid = uid


def decode(body: bytes) -> Request:
    """The request of a review.

    Raises:
        NotAReview: there is none.
    """
    try:
        review = _DECODER.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise _diagnosed(body, error) from None
    if review.api_version != API_VERSION or review.kind != KIND:
        raise NotAReview(_wrong_type(review.api_version, review.kind), uid=review.request.uid)
    if not review.request.uid:
        raise NotAReview("request.uid is empty; an API server always sends one")
    return review.request


def encode(uid: str, outcome: Outcome) -> bytes:
    """The answer to a review."""
    status = None if outcome.allowed else _status(outcome)
    # A refused object is not stored, so a patch of it would be noise.
    patch = _ENCODER.encode(outcome.patch) if outcome.patch and outcome.allowed else None
    response = Response(
        uid=uid,
        allowed=outcome.allowed,
        status=status,
        patch=patch,
        patch_type="JSONPatch" if patch is not None else None,
        audit_annotations=outcome.audit,
        warnings=_warnings(outcome.warnings),
    )
    return _ENCODER.encode(ReviewResponse(response))


def encode_failure(uid: str, code: int, reason: str, message: str) -> bytes:
    """The answer to what never became a review: the same shape, with a status of HTTP's."""
    status = Status(message=message, reason=reason, code=code)
    return _ENCODER.encode(ReviewResponse(Response(uid=uid, allowed=False, status=status)))


def salvaged_uid(body: bytes) -> str:
    """The UID in a document that cannot be read as a whole; empty if there is none."""
    found = _UID_IN_PIECES.search(body)
    if found is None:
        return ""
    try:
        return msgspec.json.decode(found[1], type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""


def _diagnosed(body: bytes, error: Exception) -> NotAReview:
    """Why a body is no review, in words, with its UID if that can be read."""
    if isinstance(error, RecursionError):
        return NotAReview("the body is nested too deeply", uid=salvaged_uid(body))
    try:
        document: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as not_json:
        return NotAReview(f"the body is not valid JSON: {not_json}", uid=salvaged_uid(body))
    if not isinstance(document, dict):
        return NotAReview("the body is not an AdmissionReview but a JSON value that is no object")
    request = document.get("request")
    uid = request.get("uid") if isinstance(request, dict) else None
    known = uid if isinstance(uid, str) else ""
    version, kind = document.get("apiVersion"), document.get("kind")
    if version != API_VERSION or kind != KIND:
        return NotAReview(_wrong_type(version, kind), uid=known)
    if not isinstance(request, dict):
        return NotAReview("request is missing; an AdmissionReview without one asks nothing")
    if not known:
        return NotAReview("request.uid is missing or not a string")
    return NotAReview(f"the AdmissionReview is malformed: {error}", uid=known)


def _wrong_type(version: object, kind: object) -> str:
    given = f"{str(kind)[:64]!r} of {str(version)[:64]!r}"
    return f"expected {KIND} of {API_VERSION!r}, got {given}; set admissionReviewVersions to [v1]"


def _status(outcome: Outcome) -> Status:
    if outcome.malformed:
        return Status(message=outcome.malformed, reason="BadRequest", code=400)
    shown = outcome.denials[:_MAX_DENIALS]
    causes = tuple(StatusCause("FieldValueInvalid", each.detail, each.path) for each in shown)
    return Status(message=_message(outcome.denials), reason="Forbidden", code=403, details=StatusDetails(causes))


def _message(denials: tuple[Problem, ...]) -> str:
    """One problem stands alone; several are a list, so that each can be found."""
    if len(denials) == 1:
        return str(denials[0])[:_MAX_MESSAGE_LENGTH]
    lines = [f"{len(denials)} problems:", *(f"- {each}" for each in denials[:_MAX_DENIALS])]
    if len(denials) > _MAX_DENIALS:
        lines.append(f"- and {len(denials) - _MAX_DENIALS} more")
    return "\n".join(lines)[:_MAX_MESSAGE_LENGTH]


def _warnings(warnings: tuple[Problem | str, ...]) -> tuple[str, ...]:
    texts = list(dict.fromkeys(_cut(str(each)) for each in warnings))
    if len(texts) > _MAX_WARNINGS:
        texts = [*texts[: _MAX_WARNINGS - 1], f"and {len(texts) - _MAX_WARNINGS + 1} more warnings"]
    return tuple(texts)


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MAX_WARNING_LENGTH else f"{text[: _MAX_WARNING_LENGTH - 1]}…"
