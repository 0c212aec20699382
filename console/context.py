"""What a page uses of the application: the services, the visitor of the request, and parts that may be missing."""

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, Generic, NamedTuple, TypeVar, cast

from flask import g

from berthmaster.runtime.clock import Clock
from console.authentication import Visitor
from console.source import SourceError, VisibleSource


@dataclass(frozen=True, slots=True)
class PageOptions:
    """The options that pages use."""

    title: str = ""
    page_rows: int = 50


@dataclass(frozen=True, slots=True)
class ConsoleServices:
    """What pages use."""

    source: VisibleSource
    clock: Clock
    options: PageOptions = field(default_factory=PageOptions)
    log: logging.Logger = field(default_factory=lambda: logging.getLogger("berthmaster.console"))
    version: str = ""

    @property
    def page_rows(self) -> int:
        return self.options.page_rows


def services() -> ConsoleServices:
    """Return the services of the request."""
    return cast("ConsoleServices", g.services)


def visitor() -> Visitor:
    """Return the visitor of the request."""
    return cast("Visitor", g.visitor)


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
