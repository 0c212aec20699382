"""What a placement test expects of a plan, and what differs from it: a view of the rows of the plan.

Which copies run is the answer of ``deciding.running`` after the changes; what moves and what is overcommitted is that
of the plan.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from enum import Enum, auto
from typing import Annotated, Any, Final

import msgspec

from berthmaster.deciding.running import Hosts
from berthmaster.model.cached import cached_property
from berthmaster.model.gaps import Gap
from berthmaster.model.policy import POLICY_KINDS, PolicyReference
from berthmaster.simulation.change_set import ChangeSet, PlanIndex
from berthmaster.simulation.losses import has_too_few, running_after, runs_no_copy
from berthmaster.simulation.plan_answer import Plan
from berthmaster.simulation.planner import plan, plan_of_simulation, simulated
from berthmaster.simulation.results import PlannedWorkload
from berthmaster.simulation.workload import ResourceName

MAX_NAMES: Final = 5000
"""The most clusters that one expectation names."""
WORKLOAD_STATES: Final = ("group", "clusters", "replicas")
"""What can be expected of one workload only."""
TOTALS: Final = ("overcommitted",)
"""What can be expected of the whole plan only."""
_STATES: Final = (*WORKLOAD_STATES, "nowhere", "short", "moves", *TOTALS)
_Names = Annotated[tuple[str, ...], msgspec.Meta(max_length=MAX_NAMES)]
_Amount = Annotated[int, msgspec.Meta(ge=0)]


class AmountRange(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """An amount that is accepted: exactly one, or the bounds of a range."""

    equal: _Amount | None = None
    at_least: _Amount | None = None
    at_most: _Amount | None = None

    def accepts(self, found: int) -> bool:
        return (
            (self.equal is None or found == self.equal)
            and (self.at_least is None or found >= self.at_least)
            and (self.at_most is None or found <= self.at_most)
        )


class ClusterRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """The clusters that are accepted.

    Attributes:
        within: no copy runs elsewhere, and at least one runs.
        equal: copies run on exactly these.
        without: no copy runs on these, and at least one runs.
    """

    within: _Names | None = msgspec.field(default=None, name="in")
    equal: _Names | None = None
    without: _Names | None = msgspec.field(default=None, name="notIn")

    @property
    def names(self) -> Iterator[tuple[str, str]]:
        """Each cluster that the rule names, with the path of the name."""
        for part, names in (("in", self.within), ("equal", self.equal), ("notIn", self.without)):
            yield from ((f"{part}[{index}]", name) for index, name in enumerate(names or ()))

    def accepts(self, found: Collection[str]) -> bool:
        if self.equal is not None and set(found) != set(self.equal):
            return False
        if self.within is not None and not (found and set(found) <= set(self.within)):
            return False
        return self.without is None or bool(found and set(found).isdisjoint(self.without))


class Expectation(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What must hold for some workloads after the changes, or for the whole plan.

    Attributes:
        workload: one workload.
        policy: ``NAMESPACE/NAME`` of a PropagationPolicy, or ``NAME`` of a ClusterPropagationPolicy. It means the
            workloads that the policy holds afterwards. Without it and ``workload``, all workloads count.
        group: the affinity group that the workload is in.
        clusters: where copies of the workload run.
        replicas: how many replicas of the workload run, on all clusters together.
        nowhere: how many of the workloads run no copy.
        short: how many of them run, and with fewer replicas than they want.
        moves: how many of them move.
        overcommitted: the clusters whose arriving replicas request more than is free.
    """

    workload: ResourceName | None = None
    policy: str | None = None
    group: str | None = None
    clusters: ClusterRule | _Names | None = None
    replicas: AmountRange | _Amount | None = None
    nowhere: AmountRange | _Amount | None = None
    short: AmountRange | _Amount | None = None
    moves: AmountRange | _Amount | None = None
    overcommitted: ClusterRule | _Names | None = None

    @property
    def policy_reference(self) -> PolicyReference | None:
        """The policy that the workloads have; None if the expectation names none."""
        if self.policy is None:
            return None
        namespace, slash, name = self.policy.rpartition("/")
        return PolicyReference(POLICY_KINDS[0] if slash else POLICY_KINDS[1], namespace, name)

    @property
    def states(self) -> Mapping[str, object]:
        """What is expected, by the name of the field."""
        return {each: value for each in _STATES if (value := getattr(self, each)) is not None}


class Lack(Enum):
    """What a workload lacks after changes."""

    NOTHING = auto()
    REPLICAS = auto()
    EVERYTHING = auto()


class PlannedFleet(msgspec.Struct, frozen=True, dict=True):
    """What expectations are compared with: a plan, and all workloads before and after the changes."""

    plan: Plan
    rows: Sequence[PlannedWorkload]
    hosts: Hosts

    def chosen(self, expectation: Expectation) -> Sequence[PlannedWorkload]:
        """Return the workloads that an expectation is about. Deleted ones do not count."""
        name, policy = expectation.workload, expectation.policy_reference
        if name is not None:
            found = self._by_name.get((name.kind.lower(), name.name), ())
            return [each for each in found if name.matches(each.after.workload.resource)]
        if policy is not None:
            return self._by_policy.get(policy, ())
        return [each for each in self._present if each.after.workload.binding is not None]

    def lack(self, planned: PlannedWorkload) -> Lack:
        """Return what a workload lacks after the changes."""
        if runs_no_copy(planned, self.hosts):
            return Lack.EVERYTHING
        return Lack.REPLICAS if has_too_few(planned, self.hosts) else Lack.NOTHING

    @cached_property
    def moving(self) -> frozenset[str]:
        """The names of the workloads that move."""
        return frozenset(each.resource for each in self.plan.moves)

    @cached_property
    def _present(self) -> list[PlannedWorkload]:
        return [each for each in self.rows if not each.is_deleted]

    @cached_property
    def _by_name(self) -> dict[tuple[str, str], list[PlannedWorkload]]:
        found: defaultdict[tuple[str, str], list[PlannedWorkload]] = defaultdict(list)
        for each in self._present:
            resource = each.after.workload.resource
            found[resource.kind.lower(), resource.name].append(each)
        return found

    @cached_property
    def _by_policy(self) -> dict[PolicyReference, list[PlannedWorkload]]:
        found: defaultdict[PolicyReference, list[PlannedWorkload]] = defaultdict(list)
        for each in self._present:
            if each.holder_after is not None:
                found[each.holder_after].append(each)
        return found


def planned_fleet(
    index: PlanIndex, changes: ChangeSet, now: datetime, *, gaps: Sequence[Gap] = (), observed: bool = True
) -> PlannedFleet:
    """Return the plan of changes with all workloads. The arguments are those of ``planner.plan``."""
    found = simulated(index.world, changes, index.scheduler.profile, now)
    if changes.changes_policies_only:  # the plan is about the workloads that the changes concern
        shown = plan(index, changes, now, gaps=gaps, observed=observed)
    else:
        shown = plan_of_simulation(index, changes, found, gaps=gaps, observed=observed)
    return PlannedFleet(shown, found.workloads, found.hosts)


class Deviation(msgspec.Struct, frozen=True):
    """A field of an expectation that does not hold.

    Attributes:
        field: the name of the field, as the file has it.
        expected, found: the values, as JSON.
        workloads: the workloads that the difference is about.
    """

    field: str
    expected: Any
    found: Any
    workloads: list[str] = []


def deviations(expectation: Expectation, outcome: PlannedFleet) -> Iterator[Deviation]:
    """Yield what differs from an expectation. It names workloads and clusters that exist."""
    chosen = outcome.chosen(expectation)
    for field, expected in expectation.states.items():
        found, workloads = _FINDERS[field](chosen, outcome)
        if not _accepts(expected, found):
            yield Deviation(field, msgspec.to_builtins(expected), found, [each.resource for each in workloads])


_Found = tuple[Any, Sequence[PlannedWorkload]]


def _accepts(expected: object, found: Any) -> bool:  # noqa: ANN401 - a JSON value
    match expected:
        case AmountRange() | ClusterRule():
            return expected.accepts(found)
        case tuple():
            return set(expected) == set(found)
        case _:
            return bool(expected == found)


def _group(chosen: Sequence[PlannedWorkload], _: PlannedFleet) -> _Found:
    return chosen[0].after.group, chosen


def _clusters(chosen: Sequence[PlannedWorkload], outcome: PlannedFleet) -> _Found:
    return sorted(running_after(chosen[0], outcome.hosts)), chosen


def _replicas(chosen: Sequence[PlannedWorkload], outcome: PlannedFleet) -> _Found:
    return sum(running_after(chosen[0], outcome.hosts).values()), chosen


def _nowhere(chosen: Sequence[PlannedWorkload], outcome: PlannedFleet) -> _Found:
    found = [each for each in chosen if outcome.lack(each) is Lack.EVERYTHING]
    return len(found), found


def _short(chosen: Sequence[PlannedWorkload], outcome: PlannedFleet) -> _Found:
    found = [each for each in chosen if outcome.lack(each) is Lack.REPLICAS]
    return len(found), found


def _moves(chosen: Sequence[PlannedWorkload], outcome: PlannedFleet) -> _Found:
    found = [each for each in chosen if each.resource in outcome.moving]
    return len(found), found


def _overcommitted(_: Sequence[PlannedWorkload], outcome: PlannedFleet) -> _Found:
    return sorted(outcome.plan.overcommitted), ()


_FINDERS: Final[Mapping[str, Callable[[Sequence[PlannedWorkload], PlannedFleet], _Found]]] = {
    "group": _group,
    "clusters": _clusters,
    "replicas": _replicas,
    "nowhere": _nowhere,
    "short": _short,
    "moves": _moves,
    "overcommitted": _overcommitted,
}
"""What a plan has for each field of an expectation, and the workloads that it is about."""
