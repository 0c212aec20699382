"""Which moves are under way, and which may begin: budgets over all moves, across leaders and lost responses.

A move is under way if its binding says so, in the annotation that the write of its admission sets. Memory alone is
never the source. Three gaps remain between the bindings and what this process sees, and each counts as a move:

- A write under way. The move is *reserved* before the write is sent.
- A write whose response was lost. It may have been performed, or may still be. The reservation stays until a later
  version of the binding is observed, which shows the result: each write is valid only for one resource version. After
  ``quiet_s`` no server performs it any more, and the watch has delivered it if it was performed.
- Writes of the previous leader. For ``quiet_s`` after this process became the leader it admits nothing. The previous
  leader sent its last write before this process could lead.

Versions of other writes can be observed late. An observed version older than a known one changes nothing. API servers
number versions; a version that is no number counts as newer than all others.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from berthmaster.deciding.budgets import Budgets, MoveCandidate, Waiting
from berthmaster.model.meta import Key

QUIET_S: Final = 60.0
"""The longest time that an API server works on a write (its default), which includes the timeout of our client."""


@dataclass(frozen=True, slots=True)
class _ActiveMove:
    """A move in an observed or written version of its binding."""

    candidate: MoveCandidate
    version: str


@dataclass(slots=True)
class _Reservation:
    """A move that a write is to begin.

    Attributes:
        guard: the resource version that the write is valid for.
        until_s: when the write can no longer happen; None while its response is awaited.
    """

    candidate: MoveCandidate
    guard: str
    until_s: float | None = None


class Admissions:
    """Counts the moves under way and admits new ones. One thread at a time."""

    def __init__(self, budgets: Budgets, leading_since_s: float, quiet_s: float = QUIET_S) -> None:
        """Start without moves. Report all bindings by ``observe`` before the first ``admit``.

        Args:
            leading_since_s: since when this process leads, on the monotonic clock; infinite until ``lead``.
            quiet_s: how long a write can be under way.
        """
        self._budgets = budgets
        self._quiet_s = quiet_s
        self._quiet_until_s = leading_since_s + quiet_s
        self._active: dict[Key, _ActiveMove] = {}
        self._reserved: dict[Key, list[_Reservation]] = {}
        self._causes: dict[Key, str] = {}

    def lead(self, since_s: float) -> None:
        """Begin to admit moves after the quiet time."""
        self._quiet_until_s = since_s + self._quiet_s

    def cause_of(self, key: Key) -> str:
        """Return the kind of the reason why a move waits, as ``Waiting.cause``; ``stabilising`` if it never asked."""
        return self._causes.get(key, "stabilising")

    def set_budgets(self, budgets: Budgets) -> None:
        """Replace the budgets. Moves under way stay."""
        self._budgets = budgets

    def observe(self, key: Key, move: MoveCandidate | None, version: str) -> None:
        """Record the move in a version of a binding: one that was observed, or that a write returned."""
        self._keep(key, lambda each: not _is_newer(version, each.guard))
        known = self._active.get(key)
        if known is not None and version != known.version and not _is_newer(version, known.version):
            return
        if move is None:
            self._active.pop(key, None)
        else:
            self._active[key] = _ActiveMove(move, version)

    def remove(self, key: Key) -> None:
        self._active.pop(key, None)
        self._reserved.pop(key, None)
        self._causes.pop(key, None)

    def admit(
        self,
        candidate: MoveCandidate,
        version: str,
        now: datetime,
        now_s: float,
        totals: Mapping[str, int] | None = None,
    ) -> Waiting | None:
        """Return what a move waits for. If it may begin, reserve it and return None.

        Send the write after this call, valid only for ``version``. Then call ``observe`` with the version that it
        returned, ``refused`` or ``lost``. A move under way whose clusters change is admitted again in the same way.
        """
        found = self._answer(candidate, now, now_s, totals)
        if found is not None:
            self._causes[candidate.key] = found.cause
            return found
        self._causes.pop(candidate.key, None)
        self._reserved.setdefault(candidate.key, []).append(_Reservation(candidate, version))
        return None

    def _answer(
        self, candidate: MoveCandidate, now: datetime, now_s: float, totals: Mapping[str, int] | None
    ) -> Waiting | None:
        if now_s < self._quiet_until_s and self._budgets.limits(candidate):
            left_s = min(self._quiet_until_s - now_s, self._quiet_s)
            return Waiting(
                f"this process has led for less than {self._quiet_s:g} s, and writes of the previous leader may arrive",
                left_s,
                "starting",
            )
        return self._budgets.admit(candidate, self.active(now_s), now, totals)

    def refused(self, key: Key) -> None:
        """Release a reservation whose write the API server has certainly not performed.

        An earlier write of the binding whose response was lost stays reserved: the conflict may be with it.
        """
        self._keep(key, lambda each: each.until_s is not None)

    def lost(self, key: Key, now_s: float) -> None:
        """Keep a reservation whose write was sent and whose response is not known."""
        for each in self._reserved.get(key, ()):
            if each.until_s is None:
                each.until_s = now_s + self._quiet_s

    def active(self, now_s: float) -> list[MoveCandidate]:
        """Return every move that is under way or may be. A binding appears once for each of its possible moves."""
        for key in list(self._reserved):
            self._keep(key, lambda each: each.until_s is None or each.until_s > now_s)
        reserved = (each.candidate for found in self._reserved.values() for each in found)
        return [*(each.candidate for each in self._active.values()), *reserved]

    def _keep(self, key: Key, kept: Callable[[_Reservation], bool]) -> None:
        """Remove the reservations of a binding for which a function returns false."""
        found = [each for each in self._reserved.get(key, ()) if kept(each)]
        if found:
            self._reserved[key] = found
        else:
            self._reserved.pop(key, None)


def _is_newer(version: str, than: str) -> bool:
    """Whether a version is newer than another one. Versions that are no numbers count as newer."""
    if not (version.isdecimal() and than.isdecimal()):
        return version != than
    return int(version) > int(than)
