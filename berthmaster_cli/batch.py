"""``simulate --jsonl``: JSON Lines in, JSON Lines out.

A line is a fleet with bindings, in the types of Karmada, or a federation with a policy and an object, in the types of
KubeAdmiral.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec
from rich.progress import Progress

from berthmaster.model.binding import Binding, BindingSpec, BindingStatus
from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import FieldError, InputError
from berthmaster.model.kubeadmiral import FederatedCluster, KubeAdmiralSpec, as_cluster
from berthmaster.model.meta import Count, ObjectMeta, Quantity
from berthmaster.model.validation import PlacementLimits
from berthmaster.scheduling.fleet import Fleet, fleet_of
from berthmaster.scheduling.kubeadmiral.preparation import UnitWorkload, policy_unit
from berthmaster.scheduling.kubeadmiral.profile import kubeadmiral_profile
from berthmaster.scheduling.kubeadmiral.unit import GPU, placed, request_of
from berthmaster.scheduling.profile import Profile
from berthmaster.scheduling.request import Decision, FailureKind, Request
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster_cli.output import json_line, stderr

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


class ObjectToSchedule(msgspec.Struct, rename="camel"):
    """An object of a federation.

    Attributes:
        replicas: the desired replicas in Divide mode.
        gpu: ``nvidia.com/gpu`` of each replica; None requests none.
        current: replicas by cluster; None where the number is not set.
    """

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    resource: str = ""
    replicas: Count = 0
    gpu: Count | None = None
    current: dict[str, Count | None] = {}


class FederationLine(msgspec.Struct):
    """The clusters of a federation, the spec of a policy without further defaults, and an object to schedule."""

    clusters: tuple[FederatedCluster, ...]
    policy: KubeAdmiralSpec
    object: ObjectToSchedule
    id: LineID = None


class FederationResult(msgspec.Struct):
    """The decision on the object: replicas by cluster, None where the mode assigns no numbers, or an error.

    A policy that is too large has a message, too.
    """

    clusters: dict[str, int | None]
    error: str | None
    message: str | msgspec.UnsetType = msgspec.UNSET


class BatchFederationAnswer(msgspec.Struct):
    """The result of a line."""

    id: LineID
    result: FederationResult


class LineProblem(msgspec.Struct):
    """What is wrong with a line: the JSON path, and what is accepted there."""

    path: str
    message: str


class LineError(msgspec.Struct):
    """The answer to an invalid line."""

    id: LineID
    error: LineProblem


class _LineWithID(msgspec.Struct):
    id: LineID = None


def answer_lines(profile: Profile) -> None:
    """Answer each line of standard input by a line on standard output. Empty lines have no answer."""
    write = sys.stdout.buffer.write
    with _progress() as advance:
        for line in _lines():
            if line.strip():
                write(json_line(answer(line, profile)))
                sys.stdout.buffer.flush()
            advance()


def answer(line: bytes, profile: Profile) -> KarmadaAnswer | BatchFederationAnswer | LineError:
    """Decide what a line asks for, or describe what is wrong with it."""
    if len(line) > MAX_LINE_BYTES:
        return LineError(None, LineProblem("", f"the line is longer than {MAX_LINE_BYTES} bytes"))
    try:
        if _is_federation(line):
            return _answer_federation(decode_json(FederationLine, line), profile.limits)
        parsed = decode_json(KarmadaLine, line)
        scheduler = Scheduler(_fleet(parsed.clusters), profile)
        return KarmadaAnswer(parsed.id, [_decide(scheduler, binding) for binding in parsed.bindings])
    except FieldError as error:
        return LineError(_id_of(line), LineProblem(error.path, error.problem))
    except InputError as error:
        return LineError(_id_of(line), LineProblem("clusters", str(error)))


def _lines() -> Iterator[bytes]:
    """Yield the lines of standard input. A line that is too long is cut one byte above the limit."""
    while line := sys.stdin.buffer.readline(MAX_LINE_BYTES + 1):
        yield line
        while len(line) > MAX_LINE_BYTES and not line.endswith(b"\n"):
            line = sys.stdin.buffer.readline(MAX_LINE_BYTES + 1)


def _fleet(clusters: Sequence[Cluster]) -> Fleet:
    try:
        return fleet_of(clusters)
    except FieldError as error:
        raise error.below("clusters") from None


def _decide(scheduler: Scheduler, named: NamedBinding) -> BindingResult:
    decision = scheduler.schedule(Request.of(Binding(named.spec, ObjectMeta(named.name), named.status)))
    error = decision.failure.kind.value if decision.failure is not None else None
    return BindingResult(named.name, decision.group, decision.assignment, error, _message(decision))


def _answer_federation(line: FederationLine, limits: PlacementLimits) -> BatchFederationAnswer:
    fleet, wanted = _fleet([as_cluster(each) for each in line.clusters]), line.object
    workload = UnitWorkload(
        api_version=wanted.api_version,
        kind=wanted.kind,
        name=wanted.name,
        namespace=wanted.namespace,
        replicas=wanted.replicas,
        requests={GPU: Quantity.parse(wanted.gpu)} if wanted.gpu is not None else {},
        current=wanted.current,
    )
    unit = policy_unit(workload, line.policy)
    profile = kubeadmiral_profile(limits=limits)
    decision = Scheduler(fleet, profile).schedule(request_of(unit))
    error = decision.failure.kind.value if decision.failure is not None else None
    return BatchFederationAnswer(line.id, FederationResult(placed(unit, decision), error, _message(decision)))


def _message(decision: Decision) -> str | msgspec.UnsetType:
    """Return why a decision is too large. Other failures have no message here."""
    failure = decision.failure
    return failure.message if failure is not None and failure.kind is FailureKind.TOO_LARGE else msgspec.UNSET


def _is_federation(line: bytes) -> bool:
    try:
        return "object" in msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return False


def _id_of(line: bytes) -> LineID:
    """Return the id of a line that is invalid otherwise; None if there is none."""
    try:
        return decode_json(_LineWithID, line).id
    except FieldError:
        return None


@contextmanager
def _progress() -> Iterator[Callable[[], None]]:
    """Count lines on standard error if it is a terminal. The context is a function to call after each line."""
    console = stderr()
    if not console.is_terminal:
        yield lambda: None
        return
    with Progress("Deciding", "{task.completed} lines", console=console, transient=True) as bar:
        task, lines = bar.add_task("", total=None), 0

        def advance() -> None:
            nonlocal lines
            lines += 1
            if lines % _LINES_PER_UPDATE == 0:
                bar.update(task, completed=lines)

        yield advance
