"""Parts of an installation that may be missing: a page leaves them out, with a hint."""

import re
from collections.abc import Callable, Collection
from http import HTTPStatus
from typing import Final, Generic, NamedTuple, TypeVar

from console.source import SourceError

_REFUSAL: Final = re.compile(r"the service refused the request: (.*?)(?: \(request [^()]*\))?", re.DOTALL)
"""The message of an error of the client. People read the part that the extender wrote."""

T = TypeVar("T")


class Offered(NamedTuple, Generic[T]):
    """An answer, or why this installation has none.

    Attributes:
        answer: the answer; None if the installation lacks what it needs.
        hint: what the installation lacks, as the extender says it; empty with an answer.
    """

    answer: T | None
    hint: str


def optional(question: Callable[[], T], missing: Collection[int] = (HTTPStatus.CONFLICT,)) -> Offered[T]:
    """Ask a question about an optional part, such as the ledger.

    Args:
        question: asks the source.
        missing: the statuses of the extender that leave out this part only.

    Raises:
        SourceError: the extender cannot be asked, or refuses for another reason.
    """
    try:
        return Offered(question(), "")
    except SourceError as error:
        if error.status not in missing:
            raise
        found = _REFUSAL.fullmatch(str(error))
        return Offered(None, found[1] if found is not None else str(error))
