"""Which workloads of a result simulate prints: by name, by label, by what happens to them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import click

from berthmaster.manifests import Manifests
from berthmaster.model.errors import InputError
from berthmaster.model.selector import LabelSelector, parse_selector
from berthmaster.simulation.federation import FederationChange, FederationRow
from berthmaster.simulation.report import ChangeRow
from berthmaster.simulation.workload import ResourceName
from berthmaster_cli.flags import argument, option
from berthmaster_cli.inputs import NamespaceFlags
from berthmaster_cli.names import name_in, resource_name
from berthmaster_cli.tables import Changes, Results, is_left

_NO_LABELS: Final[Mapping[str, str]] = {}


class Only(StrEnum):
    """What happens to a workload."""

    MOVES = "moves"
    FAILS = "fails"
    STAYS = "stays"


class ViewFlags(NamespaceFlags):
    """Which workloads are printed."""

    resources: tuple[str, ...] = argument(nargs=-1, metavar="[TYPE/NAME]...")
    selector: str = option(
        "Print only workloads with these labels, as in kubectl.", "", names=("-l", "--selector"), metavar="SELECTOR"
    )
    only: tuple[str, ...] = option(
        "Print only workloads that move, that cannot be scheduled, or that stay. Repeatable.",
        type=click.Choice([each.value for each in Only]),
    )  # fmt: skip
    show_all: bool = option("With changes: print the workloads that stay, too.", names=("--all",))


@dataclass(frozen=True, slots=True)
class View:
    """The workloads to print."""

    names: tuple[ResourceName, ...] = ()
    selector: LabelSelector | None = None
    only: frozenset[Only] = frozenset()
    show_all: bool = False

    def shows(self, resource: str, labels: Mapping[str, str] = _NO_LABELS) -> bool:
        """Return whether a workload is printed, by its name (``NAMESPACE/KIND/NAME``) and labels."""
        if self.selector is not None and not self.selector.matches(labels):
            return False
        return not self.names or any(_means(name, resource) for name in self.names)

    def of_results(self, rows: Results) -> list[Any]:
        wanted = self.only or frozenset(Only)
        return [each for each in rows if (Only.FAILS if is_left(each) else Only.STAYS) in wanted]

    def of_changes(self, rows: Changes, *, table: bool) -> list[Any]:
        """Return the rows of changes to print. A table has what moves or fails because of the changes."""
        if self.only:
            return [each for each in rows if self.only & _what_happens(each)]
        if not table or self.show_all or self.names:
            return list(rows)
        return [each for each in rows if each.moves or _stops(each) or (is_left(each.after) and _is_caused(each))]


def _stops(row: ChangeRow | FederationChange) -> bool:
    return isinstance(row, ChangeRow) and bool(row.stops)


def view_from(flags: ViewFlags, manifests: Manifests | None = None) -> View:
    """Return the view. Without manifests, kinds are the built-in ones."""
    names = [resource_name(text) for text in flags.resources]
    known = manifests or Manifests()
    return View(
        tuple(name_in(known, name, flags.namespace) for name in names),
        parse_selector(flags.selector) if flags.selector else None,
        frozenset(Only(each) for each in flags.only),
        flags.show_all,
    )


def require_known(view: View, resources: Sequence[str]) -> None:
    """Check that every name of a view is among the workloads."""
    for name in view.names:
        if not any(_means(name, resource) for resource in resources):
            raise InputError(f"there is no {name} among {len(resources)} workloads")


def _means(name: ResourceName, resource: str) -> bool:
    *namespace, kind, own = resource.split("/")
    return (
        name.name == own
        and name.kind.lower() == kind.lower()
        and name.namespace in {"", namespace[0] if namespace else ""}
    )


def _what_happens(row: Any) -> set[Only]:  # noqa: ANN401 - a row of either control plane
    found = {Only.MOVES} if row.moves else {Only.STAYS}
    return found | ({Only.FAILS} if is_left(row.after) or (isinstance(row, ChangeRow) and row.left) else set())


def _is_caused(row: Any) -> bool:  # noqa: ANN401 - a row of either control plane
    return isinstance(row.after, FederationRow) or row.caused
