"""What a page uses of the application: the services, and the visitor of the request."""

import logging
from dataclasses import dataclass, field
from typing import cast

from flask import g

from berthmaster.runtime.clock import Clock
from console.source import VisibleSource
from console.visitor import Visitor


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
