"""The table of all pages, in the order of the navigation."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from flask import Blueprint, render_template

from console.pages import drift, fleet, history, moves, policies, resilience, what_if, workloads

HELP: Final = Blueprint("help", __name__)


@HELP.get("/help")
def show_help() -> str:
    return render_template("help.html")


class PageEntry(NamedTuple):
    """One entry of the navigation. ``key`` is the key that opens the page after ``g``."""

    title: str
    endpoint: str
    key: str
    blueprint: Blueprint


PAGES: Final[Sequence[PageEntry]] = (
    PageEntry("Fleet", "fleet.show", "f", fleet.BLUEPRINT),
    PageEntry("Workloads", "workloads.show", "w", workloads.BLUEPRINT),
    PageEntry("What if", "what_if.show", "i", what_if.BLUEPRINT),
    PageEntry("Resilience", "resilience.show", "r", resilience.BLUEPRINT),
    PageEntry("Drift", "drift.show", "d", drift.BLUEPRINT),
    PageEntry("Moves", "moves.show", "m", moves.BLUEPRINT),
    PageEntry("History", "history.show", "y", history.BLUEPRINT),
    PageEntry("Policies", "policies.show", "p", policies.BLUEPRINT),
    PageEntry("Help", "help.show_help", "h", HELP),
)
