"""What a page uses of the application: the services, the visitor of the request, and parts that may be missing."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Generic, NamedTuple, TypeVar, cast

from flask import g

from berthmaster.runtime.clock import Clock
from console.authentication import SignInOptions, Visitor
from console.commands import CommandContexts
from console.links import OutsideLink
from console.source import SourceError, VisibleSource

STREAM_LIFE_S: Final = 300.0
"""How long a stream of events lasts. Then the browser opens another one, and the visitor is checked again."""


@dataclass(frozen=True, slots=True)
class AppOptions:
    """The options of the application.

    Attributes:
        contexts: the contexts in the commands of the pages.
        links: links to other sites.
        consoles: the consoles of other control planes.
    """

    sign_in: SignInOptions = SignInOptions()  # noqa: RUF009 - frozen
    title: str = ""
    page_rows: int = 50
    tls: bool = False
    form_bytes: int = 2**20
    requests_per_s: float = 50.0
    request_burst: int = 300
    streams: int = 32
    waiting_requests: int = 48
    contexts: CommandContexts = CommandContexts()  # noqa: RUF009 - immutable
    links: tuple[OutsideLink, ...] = ()
    consoles: tuple[OutsideLink, ...] = ()


@dataclass(frozen=True, slots=True)
class ConsoleServices:
    """What pages use. ``version`` is that of the extender's state; empty if it is not known."""

    source: VisibleSource
    clock: Clock
    page_rows: int
    version: str


def services() -> ConsoleServices:
    return cast("ConsoleServices", g.services)


def visitor() -> Visitor:
    return cast("Visitor", g.visitor)


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
