"""Which controllers there are, and which of them run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from extender.controllers.controller import Controller
from extender.controllers.parts import Parts
from extender.controllers.settings import Settings
from fleet.errors import InputError, shown

ALL: Final = "*"


@dataclass(frozen=True, slots=True)
class Registration:
    """A controller that can be run.

    Attributes:
        name: as ``--controllers`` writes it.
        build: makes it; imports it no earlier.
        by_default: whether ``*`` means it too.
    """

    name: str
    build: Callable[[Parts, Settings], Controller]
    by_default: bool = True


REGISTRY: Final[tuple[Registration, ...]] = ()


def selected(switches: Sequence[str], known: Sequence[Registration]) -> list[Registration]:
    """The controllers that switches leave on, as kube-controller-manager's ``--controllers``.

    Args:
        switches: ``*`` means all that are on by default; a name turns one on, ``-name`` turns one off, wherever they
            stand.
        known: all there are.

    Raises:
        InputError: a name is unknown, or nothing is left.
    """
    names = [each.name for each in known]
    for switch in switches:
        if switch != ALL and switch.removeprefix("-") not in names:
            raise InputError(
                f"--controllers: {shown(switch.removeprefix('-'))} is unknown; known are {', '.join(names) or 'none'}"
            )
    found = [
        each
        for each in known
        if f"-{each.name}" not in switches and (each.name in switches or (each.by_default and ALL in switches))
    ]
    if not found:
        raise InputError(
            f"--controllers: {shown(','.join(switches))} leaves none; known are {', '.join(names) or 'none'}"
        )
    return found
