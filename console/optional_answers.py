"""Questions about parts that an installation may lack, such as the ledger: the answer, or why there is none."""

from collections.abc import Callable, Collection
from http import HTTPStatus
from typing import Final, Generic, NamedTuple, TypeVar

from console.source import SourceError

T = TypeVar("T")
NOT_HERE: Final = (HTTPStatus.CONFLICT, HTTPStatus.SERVICE_UNAVAILABLE)
"""There is no ledger, or it cannot be read now. Of another answer: its objects are not watched, or it is computed."""


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
