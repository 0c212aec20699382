"""AdmissionReviews of ``admission.k8s.io/v1``: the fields that reviews use, decoding and encoding."""

import re
from typing import Any, Final, Literal, TypeVar

import msgspec

from berthmaster.model.decode import NOT_JSON, decode_json
from berthmaster.model.errors import FieldError, printable
from webhook.admission.field_problem import FieldProblem
from webhook.admission.review_outcome import ReviewOutcome

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"

MAX_WARNINGS: Final = 24
# API servers cut warnings of more than 256 characters, and drop all after 4,096 in total.
_MAX_WARNING_LENGTH: Final = 256
_MAX_WARNING_BYTES: Final = 4096
MAX_DENIALS: Final = 64
_MAX_PROBLEM_LENGTH: Final = 1024
MAX_MESSAGE_LENGTH: Final = 16_384
_ABSENT: Final = msgspec.Raw(b"null")
# A broken document may still contain the UID of its review. API servers write the UID first.
_UID_IN_TEXT: Final = re.compile(rb'"request"\s*:\s*\{\s*"uid"\s*:\s*("(?:[^"\\\x00-\x1f]|\\.){0,512}")')
_ENCODER: Final = msgspec.json.Encoder()


class _Wire(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The base of the types here. Decoding ignores unknown fields."""


class GroupVersionKind(_Wire, frozen=True):
    """The kind of an object."""

    group: str = ""
    version: str = ""
    kind: str = ""


class UserInfo(_Wire, frozen=True):
    """The user who sent the object."""

    username: str = ""
    groups: tuple[str, ...] = ()


class RequestHead(_Wire, frozen=True):
    """The request of the API server without its objects."""

    uid: str
    kind: GroupVersionKind = GroupVersionKind()
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    operation: str = ""
    user_info: UserInfo = UserInfo()
    dry_run: bool | None = None


class AdmissionRequest(RequestHead, frozen=True, kw_only=True):
    """The request of the API server.

    ``object`` and ``old_object`` are raw documents. A patch must apply to the document as sent, with unknown fields.
    """

    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None


class UnreadRequest(RequestHead, frozen=True, kw_only=True):
    """The request of the API server, with its objects as JSON text."""

    object: msgspec.Raw = _ABSENT
    old_object: msgspec.Raw = _ABSENT


class ReviewRequest(_Wire, frozen=True):
    """An incoming AdmissionReview."""

    api_version: str
    kind: str
    request: AdmissionRequest


class UnreadReview(_Wire, frozen=True):
    """An incoming AdmissionReview that may be large."""

    api_version: str
    kind: str
    request: UnreadRequest


class StatusCause(_Wire, frozen=True):
    """One reason of a denial, for programs."""

    reason: str
    message: str
    field: str


class StatusDetails(_Wire, frozen=True):
    """The reasons of a denial, for programs."""

    causes: tuple[StatusCause, ...]


class AdmissionStatus(_Wire, frozen=True, kw_only=True):
    """Why a review did not allow an object."""

    status: Literal["Failure"] = "Failure"
    message: str
    reason: str
    code: int
    details: StatusDetails | None = None


class Response(_Wire, frozen=True, kw_only=True):
    """The response. ``patch`` is JSON; the encoder writes bytes as base64, as the API requires."""

    uid: str
    allowed: bool
    status: AdmissionStatus | None = None
    patch: bytes | None = None
    patch_type: Literal["JSONPatch"] | None = None
    audit_annotations: dict[str, str] = {}
    warnings: tuple[str, ...] = ()


class ReviewResponse(msgspec.Struct, frozen=True, rename="camel"):
    """An outgoing AdmissionReview."""

    response: Response
    api_version: str = API_VERSION
    kind: str = KIND


class NotAReview(Exception):  # noqa: N818 - an outcome of decoding, answered like any other
    """The body is not an AdmissionReview of the supported version."""

    def __init__(self, problem: str, *, status: int = 400, uid: str = "") -> None:
        super().__init__(problem)
        self.status = status
        self.uid = uid


R = TypeVar("R", ReviewRequest, UnreadReview)
_DECODER: Final = msgspec.json.Decoder(ReviewRequest)
_UNREAD_DECODER: Final = msgspec.json.Decoder(UnreadReview)


def decode(body: bytes) -> AdmissionRequest:
    """Decode the request of a review. Raises ``NotAReview`` if the body is not a valid AdmissionReview."""
    return _checked(_DECODER, body).request


def decode_unread(body: bytes) -> UnreadRequest:
    """Decode the request of a review, but not its objects. Takes little time and memory.

    Raises:
        NotAReview: the body is not a valid AdmissionReview. The objects may be invalid.
    """
    return _checked(_UNREAD_DECODER, body).request


def _checked(decoder: msgspec.json.Decoder[R], body: bytes) -> R:
    try:
        review = decoder.decode(body)
    except NOT_JSON as error:
        raise _not_a_review(body, error) from None
    if review.api_version != API_VERSION or review.kind != KIND:
        raise NotAReview(_wrong_type(review.api_version, review.kind), uid=review.request.uid)
    if not review.request.uid:
        raise NotAReview("request.uid is empty; an API server always sends one")
    return review


def encode(uid: str, outcome: ReviewOutcome) -> bytes:
    """Encode the answer to a review."""
    status = None if outcome.allowed else _status(outcome)
    # The API server does not store a denied object, so its patch is of no use.
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
    """Encode the answer to a request that was not reviewed, as an AdmissionReview with an HTTP status."""
    status = AdmissionStatus(message=message, reason=reason, code=code)
    return _ENCODER.encode(ReviewResponse(Response(uid=uid, allowed=False, status=status)))


def find_uid(body: bytes) -> str:
    """Return the UID in a document that cannot be decoded; empty if there is none."""
    try:
        return _uid_of(_LOOSE_DECODER.decode(body)) or ""
    except NOT_JSON:
        found = _UID_IN_TEXT.search(body)
    return (_text(found[1]) or "") if found is not None else ""


class _LooseReview(msgspec.Struct, frozen=True, rename="camel"):
    """Any JSON object. The values are not decoded, whatever their size."""

    api_version: msgspec.Raw = _ABSENT
    kind: msgspec.Raw = _ABSENT
    request: msgspec.Raw = _ABSENT


_LOOSE_DECODER: Final = msgspec.json.Decoder(_LooseReview)


class _LooseRequest(msgspec.Struct, frozen=True):
    uid: msgspec.Raw = _ABSENT


def _not_a_review(body: bytes, error: Exception) -> NotAReview:
    """Return why a body is not a review, with its UID if possible. Decodes no part of the body to dicts or lists."""
    if isinstance(error, RecursionError):
        return NotAReview("the body is nested too deeply", uid=find_uid(body))
    if isinstance(error, UnicodeError):
        return NotAReview(_brief(f"the body is not valid JSON: {error}"), uid=find_uid(body))
    try:
        found = _LOOSE_DECODER.decode(body)
    except msgspec.ValidationError:
        return NotAReview("the body is not an AdmissionReview: it is not a JSON object")
    except NOT_JSON as not_json:
        return NotAReview(_brief(f"the body is not valid JSON: {not_json}"), uid=find_uid(body))
    uid = _uid_of(found)
    version, kind = _text(found.api_version), _text(found.kind)
    if version != API_VERSION or kind != KIND:
        return NotAReview(_wrong_type(version, kind), uid=uid or "")
    if bytes(found.request)[:1] != b"{":
        return NotAReview("request is missing or not an object")
    if not uid:
        return NotAReview("request.uid is missing or not a string")
    return NotAReview(_brief(f"the AdmissionReview is malformed: {error}"), uid=uid)


def _uid_of(review: _LooseReview) -> str | None:
    try:
        return _text(decode_json(_LooseRequest, review.request).uid)
    except FieldError:
        return None


def _wrong_type(version: str | None, kind: str | None) -> str:
    given = f"{str(kind)[:64]!r} of {str(version)[:64]!r}"
    return f"expected {KIND} of {API_VERSION!r}, got {given}; set admissionReviewVersions to [v1]"


def _text(raw: msgspec.Raw | bytes) -> str | None:
    """Return a JSON string; None for any other value."""
    try:
        return decode_json(str, bytes(raw))
    except FieldError:
        return None


def _brief(problem: str) -> str:
    return printable(problem, _MAX_PROBLEM_LENGTH)


def _status(outcome: ReviewOutcome) -> AdmissionStatus:
    if outcome.malformed:
        return AdmissionStatus(message=outcome.malformed, reason="BadRequest", code=400)
    denials = outcome.denials[:MAX_DENIALS]
    causes = tuple(StatusCause("FieldValueInvalid", each.detail, each.field) for each in denials)
    return AdmissionStatus(
        message=_message(outcome.denials), reason="Forbidden", code=403, details=StatusDetails(causes)
    )


def _message(denials: tuple[FieldProblem, ...]) -> str:
    if len(denials) == 1:
        return str(denials[0])
    lines = [f"{len(denials)} problems:", *(f"- {each}" for each in denials[:MAX_DENIALS])]
    if len(denials) > MAX_DENIALS:
        lines.append(f"- and {len(denials) - MAX_DENIALS} more")
    return "\n".join(lines)[:MAX_MESSAGE_LENGTH]


def _warnings(warnings: tuple[FieldProblem | str, ...]) -> tuple[str, ...]:
    """Return the warnings that an API server shows: the first ones, and how many more there are."""
    texts = list(dict.fromkeys(_cut(str(each)) for each in warnings))
    kept: list[str] = []
    size = 0
    for text in texts:
        size += len(text.encode())
        if len(kept) == MAX_WARNINGS or size > _MAX_WARNING_BYTES:
            break
        kept.append(text)
    while len(kept) < len(texts):
        more = f"and {len(texts) - len(kept)} more warnings"
        if len(kept) < MAX_WARNINGS and sum(len(text.encode()) for text in (*kept, more)) <= _MAX_WARNING_BYTES:
            return (*kept, more)
        kept.pop()
    return tuple(kept)


def _cut(text: str) -> str:
    # API servers drop warnings with control characters.
    return printable(" ".join(text.split()), _MAX_WARNING_LENGTH)[:_MAX_WARNING_LENGTH]
