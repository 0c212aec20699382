"""Runs placement tests: the plan of the changes of each, and what differs from its expectations."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace as with_flags
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import msgspec

from berthmaster.manifests import Document, Manifests, manifests_of, overlaid
from berthmaster.model.errors import InputError, name_list
from berthmaster.model.hints import closest
from berthmaster.model.meta import object_name
from berthmaster.model.policy import PolicyReference
from berthmaster.scheduling.profile import Profile
from berthmaster.simulation.change_set import ChangeSet, PlanIndex, what_if
from berthmaster.simulation.changes import AddCluster, Down, WireChange, WorkloadEdit
from berthmaster.simulation.expectations import (
    ClusterRule,
    Deviation,
    Expectation,
    PlannedFleet,
    deviations,
    planned_fleet,
)
from berthmaster.simulation.failures import losses
from berthmaster.simulation.plan_answer import Plan
from berthmaster.simulation.results import PlannedWorkload
from berthmaster.simulation.world import World, is_observed
from berthmaster_cli import inputs
from berthmaster_cli.lint.sources import LintFinding
from berthmaster_cli.options import PlaneFlags
from berthmaster_cli.placement_tests.files import LIVE, AppliedFiles, Lost, WrittenTest
from berthmaster_cli.plan.changed_objects import Deletions, change_set, checked_objects
from berthmaster_cli.reading import documents_of
from berthmaster_cli.resource_names import name_in
from berthmaster_cli.source_options import AssumptionFlags, SimulationFlags
from webhook.admission.field_problem import ABSENT

if TYPE_CHECKING:
    from berthmaster_cli.placement_tests.files import Given

_COMPLETE: Final = "complete"
_STDIN: Final = "-"
_KEPT: Final = 4
"""How many fleets are in memory at once."""
K = TypeVar("K")
V = TypeVar("V")


class FleetFlags(PlaneFlags, SimulationFlags, AssumptionFlags):
    """How fleets are read and simulated."""


class TestVerdict(StrEnum):
    """How a test ended."""

    PASSED = "passed"
    FAILED = "failed"
    INVALID = "invalid"
    """A file is wrong, so that nothing is known."""


class Mismatch(NamedTuple):
    """A difference, with the entry of the test, what the entry is about, and why the plan is as it is.

    ``entry``: the path of the expectation; empty for the whole test.
    """

    entry: str
    about: str
    difference: Deviation
    reasons: list[str]

    @property
    def path(self) -> str:
        return f"{self.entry}.{self.difference.field}" if self.entry else ""


class CheckedTest(NamedTuple):
    """The result of one test. ``plan`` is None if it is invalid."""

    file: WrittenTest
    mismatches: list[Mismatch]
    problems: list[LintFinding]
    plan: Plan | None

    @property
    def verdict(self) -> TestVerdict:
        if self.problems:
            return TestVerdict.INVALID
        return TestVerdict.FAILED if self.mismatches else TestVerdict.PASSED


class _ProblemsError(InputError):
    """A file of a test is wrong."""

    def __init__(self, problems: Sequence[LintFinding]) -> None:
        super().__init__(problems[0].message)
        self.problems = problems


class TestedFleet(NamedTuple):
    """A fleet as it was read."""

    documents: list[Document]
    manifests: Manifests

    @property
    def now(self) -> datetime:
        return inputs.time_of(self.manifests)

    def outcome(self, index: PlanIndex, changes: ChangeSet) -> PlannedFleet:
        """Return what changes of the fleet bring. ``index``: its world."""
        gaps = [gap for gap in self.manifests.gaps if gap.changes_answers]
        observed = is_observed(self.manifests, index.world)
        return planned_fleet(index, changes, self.now, gaps=gaps, observed=observed)


class Fleets:
    """Reads the fleets of tests. It keeps the last ones, because most tests share a fleet.

    Args:
        override: the paths that replace the fleets of all tests; empty for none.
        within: the folder that all files of fleets and of changes must be in; None for any.
    """

    def __init__(self, flags: FleetFlags, override: Sequence[str] = (), within: Path | None = None) -> None:
        self._flags, self._override, self._within = flags, tuple(override), within
        self._fleets: dict[tuple[str, ...], TestedFleet] = {}
        self._worlds: dict[tuple[tuple[str, ...], str, str], World] = {}

    def paths(self, test: WrittenTest) -> tuple[str, ...]:
        """Return the paths of a test's fleet, or ``live``."""
        if self._override:
            return self._override
        named = self._flags.kubeconfig is not None or self._flags.context is not None
        if LIVE in test.fleet and self._within is not None and not named:
            raise InputError(f"{LIVE} is refused with --within; allow it with --kubeconfig or --context")
        return tuple(each if each == LIVE else self.beside(test, each) for each in test.fleet)

    def beside(self, test: WrittenTest, path: str) -> str:
        """Return a path that is relative to the file of a test. Raises ``InputError`` if it leaves the folder."""
        found = Path(test.found.source).parent / path
        if self._within is not None:
            root = self._within.resolve()
            real = found.resolve()
            if not real.is_relative_to(root) or ".git" in real.relative_to(root).parts:
                raise InputError(f"{path} is outside of {self._within}; keep the file in this folder")
        return str(found)

    def fleet(self, paths: tuple[str, ...]) -> TestedFleet:
        return _kept(self._fleets, paths, lambda: self._live() if paths == (LIVE,) else self._of_files(paths))

    def world(self, paths: tuple[str, ...], flags: FleetFlags) -> World:
        manifests = self.fleet(paths).manifests
        key = paths, flags.failover, flags.preemption
        return _kept(self._worlds, key, lambda: inputs.present_world(manifests, flags))

    def _of_files(self, paths: tuple[str, ...]) -> TestedFleet:
        documents = [each.with_namespace() for each in documents_of(paths)]
        return _fleet_of(documents, ", ".join(paths), self._flags)

    def _live(self) -> TestedFleet:
        from berthmaster_cli.live.source import live_fleet  # noqa: PLC0415 - files need no client

        access = inputs.find_control_plane(self._flags, "a fleet of files", asked=True)
        live = live_fleet(access, inputs.read_limits(self._flags), "", [])
        return _fleet_of(live.all(), live.snapshot.name, self._flags)


def _fleet_of(documents: list[Document], origin: str, flags: FleetFlags) -> TestedFleet:
    manifests = manifests_of(documents, origin, **flags.reading)
    return TestedFleet(documents, manifests)


def _kept(known: dict[K, V], key: K, read: Callable[[], V]) -> V:
    """Return the value of a key, and keep it as the newest of few."""
    known[key] = known.pop(key) if key in known else read()
    while len(known) > _KEPT:
        del known[next(iter(known))]
    return known[key]


def run_test(test: WrittenTest, fleets: Fleets, profile: Profile, flags: FleetFlags) -> CheckedTest:
    """Plan the changes of a test, and compare the plan with what the test expects."""
    for name in ("failover", "preemption"):
        switch = getattr(test.test, name)
        flags = with_flags(flags, **{name: switch.value}) if switch is not None else flags
    try:
        fleet, world = _read(test, fleets, flags)
        changes = _changes(test, fleets, fleet, world, flags)
        outcome = _outcome(test, fleet, PlanIndex(world, profile), changes)
        expected = [_full(each, fleet.manifests) for each in test.test.expect]
        _check_names(test, expected, outcome, _known(fleet.manifests, world, changes))
    except _ProblemsError as error:
        return CheckedTest(test, [], list(error.problems), None)
    return CheckedTest(test, list(_mismatches(expected, outcome)), [], outcome.plan)


def _read(test: WrittenTest, fleets: Fleets, flags: FleetFlags) -> tuple[TestedFleet, World]:
    try:
        paths = fleets.paths(test)
        return fleets.fleet(paths), fleets.world(paths, flags)
    except InputError as error:
        raise _ProblemsError([test.problem("fleet", ABSENT, str(error), "correct the fleet of the test")]) from None


def _outcome(test: WrittenTest, fleet: TestedFleet, index: PlanIndex, changes: ChangeSet) -> PlannedFleet:
    try:
        return fleet.outcome(index, changes)
    except InputError as error:
        raise _ProblemsError([test.problem("given", ABSENT, str(error), "correct the changes")]) from None


class _KnownNames(NamedTuple):
    """The names that expectations can mean, beside those of workloads."""

    policies: frozenset[PolicyReference]
    clusters: frozenset[str]


def _known(manifests: Manifests, world: World, changes: ChangeSet) -> _KnownNames:
    joining = (each.cluster.name for each in changes.edits if isinstance(each, AddCluster))
    return _KnownNames(
        frozenset(each.reference for each in (*manifests.policies, *changes.policies)),
        frozenset((*world.clusters, *(each.name for each in changes.clusters), *joining)),
    )


def _changes(test: WrittenTest, fleets: Fleets, fleet: TestedFleet, world: World, flags: FleetFlags) -> ChangeSet:
    """Return the changes of a test as a change set. Raise the problems of those that name nothing."""
    problems: list[LintFinding] = []
    edits: list[WireChange] = []
    applied: list[str] = []
    bare = msgspec.structs.replace(world, workloads=())
    for path, each in test.given:
        try:
            if isinstance(each, AppliedFiles):
                applied += [fleets.beside(test, name) for name in each.paths]
                continue
            for change in _named(each, bare, fleet.manifests):
                if isinstance(change, WorkloadEdit):
                    change.edited(change.chosen(world), world.policies)
                else:
                    bare = change.applied(bare, fleet.now)
                edits.append(change)
        except InputError as error:
            fault, _, remedy = str(error).partition("; ")
            problems.append(test.problem(_blamed(path, each), ABSENT, fault, remedy or "correct the change"))
    changes = ChangeSet()
    if applied:
        try:
            changes = _applied(applied, fleet, world, flags)
        except InputError as error:
            path = next(path for path, each in test.given if isinstance(each, AppliedFiles))
            problems.append(test.problem(path, ABSENT, str(error), "correct the file or its path"))
    if problems:
        raise _ProblemsError(problems)
    edited = what_if(edits, world)
    return msgspec.structs.replace(changes, workload_edits=edited.workload_edits, edits=edited.edits)


def _blamed(path: str, given: "Given") -> str:
    """Return the path of the field that names what a change is about."""
    if isinstance(given, Lost):
        return f"{path}.{given.domain[0].value}"
    return next((f"{path}.{each}" for each in ("cluster", "resource") if hasattr(given, each)), path)


def _named(given: "Lost | WireChange", world: World, manifests: Manifests) -> Sequence[WireChange]:
    """Return a change with what it names: each cluster of a region, and the full name of a workload."""
    if isinstance(given, WorkloadEdit):
        return [msgspec.structs.replace(given, resource=name_in(manifests, given.resource, ""))]
    if not isinstance(given, Lost):
        return [given]
    domain, name = given.domain
    known = {each.name: each.clusters for each in losses(world.clusters, [domain])}
    if name not in known:
        close = closest(name, known)
        hint = f"did you mean {close}?" if close else f"known are {name_list(sorted(known)) or 'none'}"
        raise InputError(f"the fleet has no {domain.value} {name!r}; {hint}")
    return [Down(each) for each in known[name]]


def _applied(paths: Sequence[str], fleet: TestedFleet, world: World, flags: FleetFlags) -> ChangeSet:
    """Return the change set of the objects of files, as ``berthmaster plan`` does."""
    if _STDIN in paths:
        raise InputError("standard input cannot be applied; name a file")
    given = [each.with_namespace() for each in documents_of(paths)]
    identities = {each.identity for each in given}
    over = overlaid([each for each in fleet.documents if each.identity in identities], given)
    return change_set(checked_objects(over, flags), Deletions(), fleet.manifests, flags.replica_fields, world)


def _check_names(test: WrittenTest, expected: Sequence[Expectation], outcome: PlannedFleet, known: _KnownNames) -> None:
    """Raise the problems of names that match nothing, or several workloads. A test with such a name never passes."""
    problems: list[LintFinding] = []
    for index, each in enumerate(expected):
        path, chosen = f"expect[{index}]", outcome.chosen(each)
        for place, value, fault, remedy in _wrong_names(each, chosen, outcome, known):
            problems.append(test.problem(f"{path}.{place}", value, fault, remedy))
    if problems:
        raise _ProblemsError(problems)


_Wrong = tuple[str, object, str, str]
"""A field of an expectation, its value, what is wrong, and the remedy."""


def _wrong_names(
    expected: Expectation, chosen: Sequence[PlannedWorkload], outcome: PlannedFleet, known: _KnownNames
) -> Iterator[_Wrong]:
    if expected.workload is not None and len(chosen) != 1:
        names = [str(one.after.workload) for one in (chosen or outcome.rows)]
        if chosen:
            yield "workload", str(expected.workload), f"means {len(chosen)} workloads", f"write {name_list(names)}"
        else:
            meant = _meant(str(expected.workload), names)
            yield "workload", str(expected.workload), "the fleet has no such workload", meant
    reference = expected.policy_reference
    if reference is not None and reference not in known.policies:
        names = [object_name(*one[1:]) for one in known.policies]
        yield "policy", expected.policy, "the fleet has no such policy", _meant(expected.policy or "", names)
    elif reference is not None and not chosen:
        yield "policy", expected.policy, "holds no workload", "name a policy that holds some"
    for path, name in _named_clusters(expected):
        if name not in known.clusters:
            yield path, name, "the fleet has no cluster of this name", _meant(name, sorted(known.clusters))
    if expected.group is not None and len(chosen) == 1 and expected.group not in (groups := _groups(chosen[0])):
        yield "group", expected.group, "the policy of the workload has no such group", _meant(expected.group, groups)


def _groups(planned: PlannedWorkload) -> list[str]:
    binding = planned.after.workload.binding
    placement = binding.spec.placement if binding is not None else None
    return [each.affinity_name for each in (placement.cluster_affinities if placement is not None else None) or ()]


def _named_clusters(expected: Expectation) -> Iterator[tuple[str, str]]:
    for field, value in (("clusters", expected.clusters), ("overcommitted", expected.overcommitted)):
        if isinstance(value, ClusterRule):
            yield from ((f"{field}.{place}", name) for place, name in value.names)
        else:
            yield from ((f"{field}[{index}]", name) for index, name in enumerate(value or ()))


def _meant(name: str, known: Sequence[str]) -> str:
    close = closest(name, known)
    return f"did you mean {close}?" if close else f"known are {name_list(sorted(set(known))) or 'none'}"


def _full(expectation: Expectation, manifests: Manifests) -> Expectation:
    """Return an expectation with the kind that a short name of its workload means."""
    if expectation.workload is None:
        return expectation
    return msgspec.structs.replace(expectation, workload=name_in(manifests, expectation.workload, ""))


def _mismatches(expected: Sequence[Expectation], outcome: PlannedFleet) -> Iterator[Mismatch]:
    """Yield what differs. An incomplete plan shows nothing, so that no test of it passes."""
    if not outcome.plan.complete:
        unknown = Deviation(_COMPLETE, expected=True, found=False)
        yield Mismatch("", "the plan", unknown, list(outcome.plan.gaps))
    reasons = _reasons(outcome.plan)
    for index, each in enumerate(expected):
        workload = outcome.chosen(each)[0].resource if each.workload is not None else ""
        about = workload or each.policy or "all workloads"
        for difference in deviations(each, outcome):
            why = [f"{name}: {reasons[name]}" for name in difference.workloads if name in reasons]
            yield Mismatch(f"expect[{index}]", about, difference, why)


def _reasons(found: Plan) -> Mapping[str, str]:
    """Return why workloads stay, move and have no place, by name. The last reason says most."""
    listed: list[Any] = [(each.resource, each.message) for each in found.staying]
    listed += [(each.resource, each.reason) for each in found.moves]
    listed += [(each.resource, each.message) for each in found.unplaced]
    return dict(listed)
