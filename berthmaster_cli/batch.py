"""``simulate --jsonl``: JSON Lines in, JSON Lines out.

A line is a fleet with bindings, in the types of Karmada, or a federation with a policy and an object, in the types of
KubeAdmiral.
"""

import sys
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from berthmaster.model.binding import Binding, BindingSpec, BindingStatus
from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import FieldError, InputError
from berthmaster.model.kubeadmiral import FederatedCluster, KubeAdmiralSpec, as_cluster
from berthmaster.model.meta import Count, ObjectMeta
from berthmaster.model.placement_limits import PlacementLimits
from berthmaster.model.quantity import Quantity
from berthmaster.scheduling.decision import Decision, FailureKind
from berthmaster.scheduling.fleet import Fleet, fleet_of
from berthmaster.scheduling.kubeadmiral.preparation import UnitWorkload, policy_unit
from berthmaster.scheduling.kubeadmiral.profile import kubeadmiral_profile
from berthmaster.scheduling.kubeadmiral.unit import GPU, placed, request_of
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


class ObjectToSchedule(msgspec.Struct, rename="camel"):
    """An object of a federation."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    resource: str = ""
    replicas: Count = 0  # those desired in Divide mode
    gpu: Count | None = None  # nvidia.com/gpu of each replica
    current: dict[str, Count | None] = {}  # by cluster; None where the number is not set


class FederationLine(msgspec.Struct):
    """The clusters of a federation, the spec of a policy without further defaults, and an object to schedule."""

    clusters: tuple[FederatedCluster, ...]
    policy: KubeAdmiralSpec
    object: ObjectToSchedule
    id: LineID = None


class FederationResult(msgspec.Struct):
    """The decision on the object: replicas by cluster, None where the mode assigns no numbers, or an error."""

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
    with counting("Deciding", "lines") as progress:
        for number, line in enumerate(_lines(), 1):
            if line.strip():
                sys.stdout.buffer.write(json_line(answer(line, profile)))
                sys.stdout.buffer.flush()
            if number % _LINES_PER_UPDATE == 0:
                progress(number, 0)


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
    return BindingResult(named.name, decision.group, decision.assignment, *_failure(decision))


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
    return BatchFederationAnswer(line.id, FederationResult(placed(unit, decision), *_failure(decision)))


def _failure(decision: Decision) -> tuple[str | None, str | msgspec.UnsetType]:
    """Return the error, and why a decision is too large. Other failures have no message here."""
    if decision.failure is None:
        return None, msgspec.UNSET
    is_large = decision.failure.kind is FailureKind.TOO_LARGE
    return decision.failure.kind.value, decision.failure.message if is_large else msgspec.UNSET


def _is_federation(line: bytes) -> bool:
    try:
        return "object" in decode_json(dict[str, msgspec.Raw], line)
    except FieldError:
        return False


def _id_of(line: bytes) -> LineID:
    """Return the id of a line that is invalid otherwise; None if there is none."""
    try:
        return decode_json(_LineWithID, line).id
    except FieldError:
        return None
