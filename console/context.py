"""What a page uses of the application: the services, and the visitor of the request."""

from dataclasses import dataclass
from typing import Final, cast

from flask import g

from berthmaster.runtime.clock import Clock
from console.authentication import SignInOptions
from console.commands import CommandContexts
from console.links import OutsideLink
from console.source import VisibleSource
from console.visitor import Visitor

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
