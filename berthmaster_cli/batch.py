"""``simulate --jsonl``: a line in, a line out."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgspec
from rich.progress import Progress, TaskID

from berthmaster.model.binding import Binding, BindingSpec, BindingStatus
from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import convert, decode_json
from berthmaster.model.errors import FieldError, InputError
from berthmaster.model.kubeadmiral import FederatedCluster, KubeAdmiralSpec, as_cluster
from berthmaster.model.meta import Count, ObjectMeta
from berthmaster.model.quantity import Quantity
from berthmaster.scheduling.fleet import Fleet, fleet_of
from berthmaster.scheduling.kubeadmiral.preparation import UnitWorkload, policy_unit
from berthmaster.scheduling.kubeadmiral.profile import kubeadmiral_profile
from berthmaster.scheduling.kubeadmiral.unit import GPU, placed, request_of
from berthmaster.scheduling.profile import Profile
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster_cli.console import stderr

MAX_LINE_BYTES: Final = 256 * 2**20
_LINES_A_REPORT: Final = 16
_PROFILE: Final = kubeadmiral_profile()


class NamedBinding(msgspec.Struct):
    """A binding of a line."""

    name: str
    spec: BindingSpec
    status: BindingStatus = BindingStatus()


class Line(msgspec.Struct):
    """A fleet, and bindings to schedule on it, each by itself."""

    clusters: tuple[Cluster, ...]
    bindings: tuple[NamedBinding, ...]
    id: str | int | None = None


class Result(msgspec.Struct):
    """What was decided for one binding."""

    name: str
    affinity: str | None
    clusters: dict[str, int]
    error: str | None


class Answer(msgspec.Struct):
    """The results of a line, in its order."""

    id: str | int | None
    results: list[Result]


class FederatedWorkload(msgspec.Struct, rename="camel"):
    """The object: what it is, how many replicas of it are wanted, and where it is now.

    Attributes:
        api_version, kind, resource, namespace, name: of the object; ``resource`` is the plural and plays no part.
        replicas: wanted in Divide mode.
        gpu: ``nvidia.com/gpu`` for each replica; None requests none.
        current: replicas by cluster, None where the number is not set.
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
    """A federation, the spec of a policy, taken as written, and an object to schedule."""

    clusters: tuple[FederatedCluster, ...]
    policy: KubeAdmiralSpec
    object: FederatedWorkload
    id: str | int | None = None


class FederationResult(msgspec.Struct):
    """Replicas by cluster, None where the mode assigns none; or why nothing was decided."""

    clusters: dict[str, int | None]
    error: str | None


class FederationAnswer(msgspec.Struct):
    """The result of a line."""

    id: str | int | None
    result: FederationResult


class Problem(msgspec.Struct):
    """What is wrong with a line: the JSON path, and what is accepted there."""

    path: str
    message: str


class Refusal(msgspec.Struct):
    """A line that could not be answered."""

    id: str | int | None
    error: Problem


class _Identified(msgspec.Struct):
    id: str | int | None = None


def answer_lines(profile: Profile) -> None:
    """Answer every line of stdin on stdout; an empty line answers nothing."""
    write = sys.stdout.buffer.write
    with _progress() as advance:
        for line in _lines():
            if line.strip():
                write(msgspec.json.encode(answer(line, profile)) + b"\n")
                sys.stdout.buffer.flush()
            advance()


def answer(line: bytes, profile: Profile) -> Answer | FederationAnswer | Refusal:
    """Decide what a line asks for, in Karmada's terms or in KubeAdmiral's, or say what is wrong with it."""
    if len(line) > MAX_LINE_BYTES:
        return Refusal(None, Problem("", f"the line is longer than {MAX_LINE_BYTES} bytes"))
    try:
        if _is_federation(line):
            return answer_federation(decode_json(FederationLine, line))
        parsed = decode_json(Line, line)
        scheduler = Scheduler(_fleet(parsed), profile)
        return Answer(parsed.id, [_decide(scheduler, binding) for binding in parsed.bindings])
    except FieldError as error:
        return Refusal(_id_of(line), Problem(error.path, error.problem))
    except InputError as error:
        return Refusal(_id_of(line), Problem("clusters", str(error)))


def _lines() -> Iterator[bytes]:
    """The lines of stdin; of one that is too long only as much as shows that."""
    while line := sys.stdin.buffer.readline(MAX_LINE_BYTES + 1):
        yield line
        while len(line) > MAX_LINE_BYTES and not line.endswith(b"\n"):
            line = sys.stdin.buffer.readline(MAX_LINE_BYTES + 1)


def _fleet(line: Line) -> Fleet:
    try:
        return fleet_of(line.clusters)
    except FieldError as error:
        raise error.below("clusters") from None


def _decide(scheduler: Scheduler, named: NamedBinding) -> Result:
    decision = scheduler.schedule(Request.of(Binding(named.spec, ObjectMeta(named.name), named.status)))
    error = decision.failure.kind.value if decision.failure is not None else None
    return Result(named.name, decision.group, decision.assignment, error)


def _is_federation(line: bytes) -> bool:
    """Whether a line is in KubeAdmiral's terms: it has an object in place of bindings."""
    try:
        return "object" in msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return False


def _id_of(line: bytes) -> str | int | None:
    """The id of a line that is otherwise wrong."""
    try:
        raw = msgspec.json.decode(line)
        return convert(_Identified, raw).id
    except (msgspec.DecodeError, FieldError, RecursionError):
        return None


@contextmanager
def _progress() -> Iterator["_Advance"]:
    """Counts lines on stderr, if somebody looks at it."""
    console = stderr()
    if not console.is_terminal:
        yield _Advance(None, None)
        return
    with Progress(
        *Progress.get_default_columns()[:1], "{task.completed} lines", console=console, transient=True
    ) as bar:
        yield _Advance(bar, bar.add_task("Deciding", total=None))


class _Advance:
    def __init__(self, bar: Progress | None, task: TaskID | None) -> None:
        self._bar = bar
        self._task = task
        self._lines = 0

    def __call__(self) -> None:
        self._lines += 1
        if self._bar is not None and self._task is not None and self._lines % _LINES_A_REPORT == 0:
            self._bar.update(self._task, completed=self._lines)


def answer_federation(line: FederationLine) -> FederationAnswer:
    """Decide where the object goes.

    Raises:
        FieldError: a cluster has no name, or the name of another.
    """
    try:
        fleet = fleet_of([as_cluster(each) for each in line.clusters])
    except FieldError as problem:
        raise problem.below("clusters") from None
    wanted = line.object
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
    decision = Scheduler(fleet, _PROFILE).schedule(request_of(unit))
    error = decision.failure.kind.value if decision.failure is not None else None
    return FederationAnswer(line.id, FederationResult(placed(unit, decision), error))
