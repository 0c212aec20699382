"""What a page uses of the application: the services, and the visitor of the request."""

import logging
from dataclasses import dataclass, field
from typing import Final, Literal, cast

from flask import g

from berthmaster.runtime.clock import Clock
from console.source import Source

SignedInBy = Literal["loopback", "token", "session", "certificate", "proxy"]
CLUSTER_SCOPED: Final = "-"
"""Stands for the namespace of cluster-scoped workloads, in addresses and in ``Visitor.namespaces``."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """The client of a request.

    Attributes:
        name: the name of the user; empty if the console requires no sign-in.
        signed_in_by: what proved the name. ``loopback``: nothing, because the console serves this machine only.
        groups: the groups of the user, as a SubjectAccessReview gets them.
        namespaces: the namespaces that the user may see, with ``-`` for cluster-scoped workloads; None for all.
    """

    name: str = ""
    signed_in_by: SignedInBy = "loopback"
    groups: tuple[str, ...] = ()
    namespaces: frozenset[str] | None = None

    def may_see(self, namespace: str) -> bool:
        """Return whether the visitor may see what is in a namespace; an empty one is cluster-scoped."""
        return self.namespaces is None or (namespace or CLUSTER_SCOPED) in self.namespaces


@dataclass(frozen=True, slots=True)
class PageOptions:
    """The options that pages use.

    Attributes:
        title: the name of the installation, in the title of each page; may be empty.
        page_rows: the rows of one page of a long table.
    """

    title: str = ""
    page_rows: int = 50


@dataclass(frozen=True, slots=True)
class ConsoleServices:
    """What pages use.

    Attributes:
        source: the extender, as this visitor may see it.
        clock: the time, for ages and durations.
        options: the options that pages use.
        log: the log of the console.
    """

    source: Source
    clock: Clock
    options: PageOptions = field(default_factory=PageOptions)
    log: logging.Logger = field(default_factory=lambda: logging.getLogger("berthmaster.console"))


def services() -> ConsoleServices:
    """Return the services of the request."""
    return cast("ConsoleServices", g.services)


def visitor() -> Visitor:
    """Return the visitor of the request."""
    return cast("Visitor", g.visitor)
