"""Parts of an installation that may be missing: a page leaves them out, with a hint."""

from collections.abc import Callable, Collection
from http import HTTPStatus
from typing import Final, Generic, NamedTuple, TypeVar

from console.source import SourceError

T = TypeVar("T")
NO_LEDGER: Final = (HTTPStatus.CONFLICT, HTTPStatus.SERVICE_UNAVAILABLE)
"""There is no ledger, or it cannot be read now."""
NOT_YET: Final = NO_LEDGER
"""The objects for an answer are not watched, or the first answer is being computed."""


class Offered(NamedTuple, Generic[T]):
    """An answer, or why this installation has none.

    Attributes:
        answer: the answer; None if the installation lacks what it needs.
    """

    answer: T | None
    hint: str


def optional(question: Callable[[], T], missing: Collection[int] = (HTTPStatus.CONFLICT,)) -> Offered[T]:
    """Ask a question about an optional part, such as the ledger.

    Args:
        missing: the statuses of the extender that leave out this part only. An extender that does not answer leaves
            it out, too.

    Raises:
        SourceError: the extender refuses for another reason.
    """
    try:
        return Offered(question(), "")
    except SourceError as error:
        if error.status not in missing and not error.unanswered:
            raise
        return Offered(None, error.detail or str(error))
