"""Whether an update changes the spec of an object, apart from defaults."""

from collections.abc import Callable
from typing import Any

from webhook.admission.json_patch import Draft, PatchTooLargeError
from webhook.admission.wire import AdmissionRequest

Complete = Callable[[Draft], None]


def spec_is_unchanged(request: AdmissionRequest, complete: Complete) -> bool:
    """Return whether a request is an update that does not change the spec.

    Args:
        complete: applies the same defaults to the stored object, which may be older than they are. The shape of both
            objects has been checked.
    """
    new, old = request.object or {}, request.old_object
    if request.operation != "UPDATE" or old is None:
        return False
    if new.get("spec") == old.get("spec"):
        return True
    try:
        return bool(_completed_spec(new, complete) == _completed_spec(old, complete))
    except PatchTooLargeError:
        return False  # the mutating webhook denies such an update


def _completed_spec(raw: dict[str, Any], complete: Complete) -> Any:  # noqa: ANN401 - any JSON value
    draft = Draft(raw)
    complete(draft)
    return draft.get("spec")
