"""The commands that answer or mend what a page shows, ready to copy. The one place that writes them.

Pure functions of what the page is about. A test gives each command to the parser of `berthmaster`.
"""

import shlex
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, assert_never

from berthmaster.model.kind_names import guessed_names
from berthmaster.model.meta import CLUSTER_SCOPED, object_name
from berthmaster.native_api.fleet import WorkloadRow
from berthmaster.native_api.problems import FleetProblem, Subject
from berthmaster.views.move_rows import MoveRow, RowState

_KIND: Final = "ResourceBinding"
_CLUSTER_KIND: Final = "ClusterResourceBinding"
_DAY: Final = "24h"
_PLACE: Final = "{cluster}"
STUCK: Final = frozenset({RowState.OVERDUE, RowState.BLOCKED, RowState.INVALID})
"""The moves that do not go on by themselves. Their rows have commands."""


class Command(NamedTuple):
    """A command, and what it does, in an imperative sentence without a full stop."""

    purpose: str
    words: tuple[str, ...]

    @property
    def text(self) -> str:
        """The command as a shell reads it."""
        return shlex.join(self.words)


class CommandContexts(NamedTuple):
    """The contexts of the kubeconfig of visitors.

    Attributes:
        plane: of the control plane; empty for the current one.
        member: of a member cluster, with ``{cluster}`` for its name.
    """

    plane: str = ""
    member: str = _PLACE


class NamedWorkload(NamedTuple):
    """A workload and its binding. ``namespace`` is empty for a cluster-scoped one."""

    namespace: str
    kind: str
    name: str
    binding: str
    clusters: Sequence[str] = ()

    @property
    def is_printable(self) -> bool:
        return _printable(self.namespace, self.kind, self.name, self.binding, *self.clusters)


class CommandWriter:
    """Writes the commands of one installation. Names that no API server accepts get no commands."""

    def __init__(self, contexts: CommandContexts = CommandContexts()) -> None:  # noqa: B008 - immutable
        self._contexts = contexts

    def of_workload(self, workload: NamedWorkload, *, cluster: str = "", moving: bool = False) -> list[Command]:
        """Return the commands about a workload. ``cluster`` is one on which it does not run, if that is asked."""
        if not workload.is_printable or not _printable(cluster):
            return []
        return list(self._of_workload(workload, cluster, moving=moving))

    def of_listed(self, row: WorkloadRow) -> list[Command]:
        """Return the first command about a workload of a list."""
        return self.of_workload(NamedWorkload(row.namespace, row.kind, row.name, row.binding))[:1]

    def of_move(self, move: MoveRow) -> list[Command]:
        """Return the commands about a move."""
        kind, name = move.workload.split("/")[-2:]
        return self.of_workload(NamedWorkload(move.namespace, kind, name, move.binding), moving=True)

    def of_cluster(self, name: str, *, draining: bool = False) -> list[Command]:
        if not _printable(name):
            return []
        back = self._berthmaster("Allow workloads on it again", "undrain", name)
        away = self._berthmaster("Move all workloads off it", "drain", name)
        return [
            self._kubectl(
                "Show what Karmada knows about it, with its events", "describe", "clusters.cluster.karmada.io", name
            ),
            self._member("Show its nodes", name, "get", "nodes"),
            self._berthmaster("Show what its loss would stop and move", "simulate", "--down", name),
            Command("Show what moved here", _words("history", "--cluster", name, "--since", _DAY)),
            self._berthmaster("Show what a drain would move", "drain", name, "--dry-run"),
            back if draining else away,
        ]

    def of_policy(self, kind: str, namespace: str, name: str) -> list[Command]:
        if not _printable(kind, namespace, name):
            return []
        full = object_name(namespace, name)
        return [
            self._kubectl("Read it", "get", _plural("policy.karmada.io", kind), name, *_in(namespace), "-o", "yaml"),
            self._kubectl("Show its events", "events", "--for", f"{kind}/{name}", *_in(namespace)),
            Command("Show what moved by it", _words("history", "--policy", full, "--since", _DAY)),
            self._berthmaster("Show what an edit would move, before it is applied", "plan", "-f", "policy.yaml"),
            self._berthmaster(
                "Show what its deletion would move", "plan", "--delete", object_name(namespace, kind, name)
            ),
        ]

    def of_problem(self, problem: FleetProblem) -> list[Command]:
        """Return the commands that show more about a problem, or end it."""
        match problem.subject:
            case Subject.CLUSTER:
                return self.of_cluster(problem.cluster)
            case Subject.WORKLOAD | Subject.MOVE:
                named = NamedWorkload(problem.namespace, problem.workload_kind, problem.name, problem.binding)
                return self.of_workload(named, moving=problem.subject is Subject.MOVE)
            case Subject.CONTROLLERS:
                return [self._doctor(), self.moves()]
            case Subject.BRAKE:
                return [
                    self.moves(),
                    self._berthmaster("Show which clusters engage the brake", "moves", "resume", "--dry-run"),
                    self._berthmaster("End the brake, and accept that these clusters are lost", "moves", "resume"),
                ]
            case Subject.CONFIGURATION:
                return [self.moves(), self._doctor()]
            case Subject.STATE:
                return [self._doctor()]
            case Subject.GATE:
                kind, _, name = problem.policy.partition(" ")
                namespace, _, own = name.rpartition("/")
                return self.of_policy(kind, namespace, own)
            case _:
                assert_never(problem.subject)

    def moves(self) -> Command:
        return self._berthmaster("Show what moves and what waits", "moves")

    def history(
        self,
        *,
        workload: tuple[str, str] = ("", ""),
        namespace: str = "",
        cluster: str = "",
        policy: str = "",
        trigger: str = "",
        user: str = "",
        since: str = "",
        until: str = "",
    ) -> list[Command]:
        """Return the command of the page History with its filters. ``workload``: kind and name; both may be empty."""
        kind, name = workload
        given = {
            "-n": namespace, "--cluster": cluster, "--policy": policy, "--trigger": trigger, "--user": user,
            "--since": since, "--until": until,
        }  # fmt: skip
        # The command needs the kind of a workload.
        if not _printable(kind, name, *given.values()) or (name and not kind):
            return []
        words = [f"{kind}/{name}"] if name else []
        words += [word for option, value in given.items() if value for word in (option, value)]
        return [Command("Show these records from the ledger", _words("history", *words))]

    def workloads(self, namespace: str = "") -> list[Command]:
        """Return the commands of the page Workloads for a namespace; for all if it is empty."""
        if not _printable(namespace):
            return []
        if namespace == CLUSTER_SCOPED:
            return [self._kubectl("List their bindings", "get", "clusterresourcebindings.work.karmada.io")]
        where = _in(namespace) or ("-A",)
        return [
            self._kubectl("List their bindings", "get", "resourcebindings.work.karmada.io", *where),
            self._berthmaster("Show where they are placed, and what is due", "simulate", *where),
        ]

    def drift(self) -> list[Command]:
        return [self._berthmaster("Show what a repair would move", "drift", "-o", "wide")]

    def resilience(self, by: str) -> list[Command]:
        return [self._berthmaster("Show what each failure would stop and move", "resilience", "--by", by)]

    def _of_workload(self, workload: NamedWorkload, cluster: str, *, moving: bool) -> Iterator[Command]:
        namespace, kind, name, binding, clusters = workload
        where, resource = _in(namespace), f"{kind}/{name}"
        bindings = f"{_KIND if namespace else _CLUSTER_KIND}"
        yield self._berthmaster("Show why it is where it is", "explain", resource, *where)
        if cluster:
            yield self._berthmaster("Show what would put it on this cluster", "why-not", resource, cluster, *where)
        if moving:
            yield self._berthmaster("Show what its move waits for", "moves", *where)
        yield Command("Show its decisions", _words("history", resource, *where, "--since", _DAY))
        yield self._kubectl(
            "Read its binding", "get", _plural("work.karmada.io", bindings), binding, *where, "-o", "yaml"
        )
        yield self._kubectl("Show the events of its binding", "events", "--for", f"{bindings}/{binding}", *where)
        for each in clusters:
            yield self._member(f"Show it on {each}", each, "describe", f"{kind.lower()}/{name}", *where)

    def _doctor(self) -> Command:
        return self._berthmaster("Check the installation", "doctor")

    def _berthmaster(self, purpose: str, command: str, *words: str) -> Command:
        plane = ("--context", self._contexts.plane) if self._contexts.plane else ()
        return Command(purpose, _words(command, *words, *plane))

    def _kubectl(self, purpose: str, *words: str) -> Command:
        plane = ("--context", self._contexts.plane) if self._contexts.plane else ()
        return Command(purpose, ("kubectl", *plane, *words))

    def _member(self, purpose: str, cluster: str, *words: str) -> Command:
        return Command(purpose, ("kubectl", "--context", self._contexts.member.replace(_PLACE, cluster), *words))


def _plural(group: str, kind: str) -> str:
    return f"{guessed_names(group, kind).plural}.{group}"


def _words(*words: str) -> tuple[str, ...]:
    return ("berthmaster", *words)


def _in(namespace: str) -> tuple[str, ...]:
    return ("-n", namespace) if namespace else ()


def _printable(*names: str) -> bool:
    """Return whether a shell and a reader see these names alike, and no command takes one for an option."""
    return all((each.isprintable() and not each.startswith("-")) or each == CLUSTER_SCOPED for each in names)
