"""``simulate --jsonl``: JSON Lines in, JSON Lines out.

A line is a fleet with bindings, in the types of Karmada, or of a kind that the caller answers.
"""

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from berthmaster.model.binding import Binding, BindingSpec, BindingStatus
from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import FieldError, InputError
from berthmaster.model.meta import ObjectMeta
from berthmaster.scheduling.decision import Decision, FailureKind
from berthmaster.scheduling.fleet import Fleet, fleet_of
from berthmaster.scheduling.profile import Profile
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster_cli.output import counting, json_line

MAX_LINE_BYTES: Final = 256 * 2**20
_LINES_PER_UPDATE: Final = 16
LineID = str | int | None


class NamedBinding(msgspec.Struct):
    """A binding to schedule."""

    name: str
    spec: BindingSpec
    status: BindingStatus = BindingStatus()


class KarmadaLine(msgspec.Struct):
    """A fleet, and bindings to schedule on it independently of each other."""

    clusters: tuple[Cluster, ...]
    bindings: tuple[NamedBinding, ...]
    id: LineID = None


class BindingResult(msgspec.Struct):
    """The decision on one binding. A placement that is too large has a message, too."""

    name: str
    affinity: str | None
    clusters: dict[str, int]
    error: str | None
    message: str | msgspec.UnsetType = msgspec.UNSET


class KarmadaAnswer(msgspec.Struct):
    """The results of a line, in the order of its bindings."""

    id: LineID
    results: list[BindingResult]


class LineProblem(msgspec.Struct):
    """What is wrong with a line: the JSON path, and what is accepted there."""

    path: str
    message: str


class LineError(msgspec.Struct):
    """The answer to an invalid line."""

    id: LineID
    error: LineProblem


LineAnswer = Callable[[bytes, Profile], msgspec.Struct]
"""Answers a line. Raises ``FieldError`` or, about its clusters, ``InputError``."""


class _LineWithID(msgspec.Struct):
    id: LineID = None


def answer_lines(profile: Profile, by_member: Mapping[str, LineAnswer]) -> None:
    """Answer each line of standard input by a line on standard output. Empty lines have no answer.

    Args:
        by_member: what answers lines that have a member with this name. All other lines are fleets with bindings.
    """
    with counting("Deciding", "lines") as progress:
        for number, line in enumerate(_lines(), 1):
            if line.strip():
                sys.stdout.buffer.write(json_line(answer(line, profile, by_member)))
                sys.stdout.buffer.flush()
            if number % _LINES_PER_UPDATE == 0:
                progress(number, 0)


def answer(line: bytes, profile: Profile, by_member: Mapping[str, LineAnswer]) -> msgspec.Struct:
    """Decide what a line asks for, or describe what is wrong with it; see ``answer_lines``."""
    if len(line) > MAX_LINE_BYTES:
        return LineError(None, LineProblem("", f"the line is longer than {MAX_LINE_BYTES} bytes"))
    try:
        members = _members(line)
        answered = next((each for name, each in by_member.items() if name in members), _answer_karmada)
        return answered(line, profile)
    except FieldError as error:
        return LineError(_id_of(line), LineProblem(error.path, error.problem))
    except InputError as error:
        return LineError(_id_of(line), LineProblem("clusters", str(error)))


def _answer_karmada(line: bytes, profile: Profile) -> KarmadaAnswer:
    parsed = decode_json(KarmadaLine, line)
    scheduler = Scheduler(checked_fleet(parsed.clusters), profile)
    return KarmadaAnswer(parsed.id, [_decide(scheduler, binding) for binding in parsed.bindings])


def _lines() -> Iterator[bytes]:
    """Yield the lines of standard input. A line that is too long is cut one byte above the limit."""
    while line := sys.stdin.buffer.readline(MAX_LINE_BYTES + 1):
        yield line
        while len(line) > MAX_LINE_BYTES and not line.endswith(b"\n"):
            line = sys.stdin.buffer.readline(MAX_LINE_BYTES + 1)


def checked_fleet(clusters: Sequence[Cluster]) -> Fleet:
    """Return the fleet of a line. Raises ``FieldError`` for an invalid cluster."""
    try:
        return fleet_of(clusters)
    except FieldError as error:
        raise error.below("clusters") from None


def _decide(scheduler: Scheduler, named: NamedBinding) -> BindingResult:
    decision = scheduler.schedule(Request.of(Binding(named.spec, ObjectMeta(named.name), named.status)))
    return BindingResult(named.name, decision.group, decision.assignment, *failure_of(decision))


def failure_of(decision: Decision) -> tuple[str | None, str | msgspec.UnsetType]:
    """Return the error, and why a decision is too large. Other failures have no message here."""
    if decision.failure is None:
        return None, msgspec.UNSET
    is_large = decision.failure.kind is FailureKind.TOO_LARGE
    return decision.failure.kind.value, decision.failure.message if is_large else msgspec.UNSET


def _members(line: bytes) -> Collection[str]:
    """Return the names of the members of a line; none if it is no JSON object."""
    try:
        return decode_json(dict[str, msgspec.Raw], line)
    except FieldError:
        return ()


def _id_of(line: bytes) -> LineID:
    """Return the id of a line that is invalid otherwise; None if there is none."""
    try:
        return decode_json(_LineWithID, line).id
    except FieldError:
        return None
