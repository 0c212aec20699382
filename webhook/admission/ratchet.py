"""Leniency with what is stored already: a check that is new must not lock up objects that were stored before it.

A controller that adds a label or takes away its finalizer sends the whole object. If that were refused for a spec that
it did not touch, deletions would hang and records could not be cleared. Such findings are told as warnings; whoever
changes the spec has to get it right.
"""

from collections.abc import Callable, Iterable
from typing import Any

from webhook.admission.outcome import Outcome
from webhook.admission.patch import Draft
from webhook.admission.problem import Problem
from webhook.admission.review import Request


def outcome(
    denials: Iterable[Problem],
    warnings: Iterable[Problem],
    request: Request,
    complete: Callable[[Draft], None] = lambda _draft: None,
) -> Outcome:
    """The outcome of checks that the object's other guardians do not make.

    Args:
        denials: what is to be refused, unless the update is not about it.
        warnings: what is told in any case.
        request: the request, its object completed by defaults.
        complete: gives the stored object, which may be older than they are, the same defaults. Its shape and the
            request's have been checked.
    """
    refused = tuple(denials)
    if refused and _not_about_the_spec(request, complete):
        return Outcome(warnings=(*refused, *warnings))
    return Outcome(denials=refused, warnings=tuple(warnings))


def _not_about_the_spec(request: Request, complete: Callable[[Draft], None]) -> bool:
    new, old = request.object or {}, request.old_object
    if request.operation != "UPDATE" or old is None:
        return False
    return bool(_spec(new, complete) == _spec(old, complete))


def _spec(raw: dict[str, Any], complete: Callable[[Draft], None]) -> Any:  # noqa: ANN401 - any JSON value
    draft = Draft(raw)
    complete(draft)
    return draft.get("spec")
