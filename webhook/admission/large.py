"""Reviews of large bodies: what is too large is found before an object becomes dicts and lists.

A dict takes 64 bytes of memory for two bytes of JSON. An object with very many values is refused by their number. The
sizes of other large objects are checked on typed values, which take less time and memory.

An update that does not change the spec is never refused for its size, and neither is an object that is being deleted:
objects that were stored before the webhook must stay removable.
"""

from typing import Any, Final

import msgspec

from berthmaster.model.decode import decode_json, read_json
from berthmaster.model.errors import FieldError
from webhook.admission.catalog import POLICY_GROUPS
from webhook.admission.context import AdmissionContext
from webhook.admission.field_problem import ABSENT, FieldProblem
from webhook.admission.review_outcome import ALLOWED, ReviewOutcome
from webhook.admission.reviews import ReviewRoute, is_ignored, request_problem, review
from webhook.admission.rules.sizes import TOO_LARGE
from webhook.admission.wire import AdmissionRequest, RequestHead, UnreadRequest, decode, decode_unread

LARGE_BYTES: Final = 64 * 2**10
"""Bodies above this size are checked before their objects are decoded."""
_NULL: Final = msgspec.Raw(b"null")
_MEMBER_VALUES: Final = 1000


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    deletion_timestamp: msgspec.Raw = _NULL


class _Object(msgspec.Struct, frozen=True):
    metadata: msgspec.Raw = _NULL
    spec: msgspec.Raw = _NULL


def review_body(route: ReviewRoute, body: bytes, context: AdmissionContext) -> tuple[RequestHead, ReviewOutcome]:
    """Review the body of a request.

    Returns:
        The request, at least without its objects, and the outcome.

    Raises:
        NotAReview: the body is not an AdmissionReview.
    """
    if len(body) <= LARGE_BYTES:
        request = decode(body)
        return request, review(route, request, context)
    unread = decode_unread(body)
    outcome = _review_unread(route, unread, context)
    if outcome is not None:
        return unread, outcome
    try:
        request = _decoded(unread, body, context)
    except FieldError as error:
        return unread, ReviewOutcome(malformed=f"the object cannot be read: {error}")
    return unread, review(route, request, context)


def values_of(document: msgspec.Raw) -> int:
    """Return about how many values a JSON document has; never fewer. Characters in strings count too."""
    text = bytes(document)
    return 1 + text.count(b",") + text.count(b"{") + text.count(b"[")


def _review_unread(route: ReviewRoute, request: UnreadRequest, context: AdmissionContext) -> ReviewOutcome | None:
    """Return the outcome of a review that needs no object, or is too large; None if it needs a usual review."""
    problem = request_problem(route, request)
    if problem:
        return ReviewOutcome(malformed=problem)
    if is_ignored(route, request):
        return ALLOWED
    try:
        new, old = _members(request.object), _members(request.old_object)
        deletion = _decoded_as(_Metadata, old.metadata).deletion_timestamp
    except FieldError:
        return ReviewOutcome(malformed="the object cannot be read: it, or its metadata, is not a JSON object")
    if bytes(deletion) != b"null":
        return ALLOWED
    if request.operation == "DELETE":
        return None
    try:
        found = _size_problems(route, request, new, context)
    except FieldError as error:
        return ReviewOutcome(malformed=f"the object cannot be read: {error}")
    if not found:
        return None
    # API servers write an object and its stored form in the same way.
    unchanged = request.operation == "UPDATE" and bytes(new.spec) == bytes(old.spec)
    return ReviewOutcome(warnings=found) if unchanged else ReviewOutcome(denials=found)


def _size_problems(
    route: ReviewRoute, request: UnreadRequest, new: _Object, context: AdmissionContext
) -> tuple[FieldProblem, ...]:
    settings = context.settings
    values = values_of(request.object)
    if values > settings.max_values:
        return (
            FieldProblem(
                "request.object", ABSENT, f"about {values:,} JSON values; at most {settings.max_values:,} are reviewed",
                "write several smaller objects, or raise --max-object-values", TOO_LARGE,
            ),
        )  # fmt: skip
    size = memoryview(request.object).nbytes
    policies = POLICY_GROUPS.get(route.group)
    if policies is None:
        return ()
    if size > settings.max_policy_bytes:
        return (
            FieldProblem(
                "request.object", ABSENT, f"{size:,} bytes of JSON; at most {settings.max_policy_bytes:,} are accepted",
                "write several smaller objects, or raise --max-policy-kib", TOO_LARGE,
            ),
        )  # fmt: skip
    return policies.excess(request, bytes(new.spec), context)


def _decoded(request: UnreadRequest, body: bytes, context: AdmissionContext) -> AdmissionRequest:
    """Decode a request. Of a stored object that is too large, decode only the small members."""
    if values_of(request.old_object) <= context.settings.max_values:
        return decode(body)
    head = {name: getattr(request, name) for name in RequestHead.__struct_fields__}
    return AdmissionRequest(
        **head, object=read_json(request.object), old_object=_small_members(_members(request.old_object))
    )


def _small_members(stored: _Object) -> dict[str, Any]:
    """Return the metadata and the spec of an object without their members that have many values."""
    return {
        name: {
            key: read_json(value)
            for key, value in (_decoded_as(dict[str, msgspec.Raw], member) or {}).items()
            if values_of(value) <= _MEMBER_VALUES
        }
        for name, member in (("metadata", stored.metadata), ("spec", stored.spec))
    }


def _members(document: msgspec.Raw) -> _Object:
    members: _Object = _decoded_as(_Object, document)
    return members


def _decoded_as(kind: Any, document: msgspec.Raw) -> Any:  # noqa: ANN401 - a type, and a value of it
    """Decode a JSON object; null is an empty one."""
    return decode_json(kind, document if bytes(document) != b"null" else b"{}")
