"""Build a plan from the workloads that changes concern, one after the other."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

from msgspec.structs import replace

from berthmaster.model.cluster import Cluster
from berthmaster.model.gaps import Gap, GapKind, texts
from berthmaster.model.readers import Reader
from berthmaster.model.taint import NO_EXECUTE
from berthmaster.scheduling.prices import Cost, change_of
from berthmaster.simulation import plan_answer, plan_rows
from berthmaster.simulation.change_set import ChangedWorkloads, ChangeSet, PlanIndex
from berthmaster.simulation.cluster_totals import ClusterTotals
from berthmaster.simulation.losses import is_hit, is_left, loss_of, overridden_changes
from berthmaster.simulation.plan_decider import PlanDecider
from berthmaster.simulation.plan_id import plan_id
from berthmaster.simulation.results import PlannedWorkload

_Place = tuple[bool, bool]
"""Where a workload stands among the others: those first that the change leaves, and of them those without a cluster."""


class PlanBuilder:
    """Builds a plan of one workload after the other, and keeps nothing but rows of them."""

    def __init__(
        self,
        index: PlanIndex,
        changed: ChangedWorkloads,
        decider: PlanDecider,
        reader: Reader,
        totals: ClusterTotals,
        *,
        lists_staying: bool,
    ) -> None:
        self._index, self._changed, self._decider, self._reader = index, changed, decider, reader
        self._concerned = self._new = 0
        self._effects = plan_rows.PolicyEffects(index, changed.edits)
        self._staying: list[plan_answer.StayingWorkload] | None = [] if lists_staying else None
        self._moves: defaultdict[_Place, list[plan_answer.PlannedMove]] = defaultdict(list)
        self._unplaced: defaultdict[_Place, list[plan_answer.UnplacedWorkload]] = defaultdict(list)
        self._hit: list[PlannedWorkload] = []
        self._unknown: list[Gap] = []
        self._costs: list[Cost] = []
        self._totals = totals
        self._moving: set[str] = set()
        self._changing: set[str] = set()
        """The clusters whose replicas change, or that get copies."""

    def add(self, concerned: Iterable[PlannedWorkload]) -> None:
        """Add workloads that the change concerns, in the order of the world."""
        for found in concerned:
            each = replace(found, dips=dips) if (dips := self._decider.dips(found)) else found
            self._concerned += 1
            self._new += each.is_new
            self._effects.add(each)
            if self._staying is not None and not each.moves and not each.is_deleted:
                self._staying.append(plan_rows.staying_of(each))
            self.add_row(each)

    def add_unconcerned(self, planned: PlannedWorkload) -> None:
        """List a workload that the change does not concern among those that stay, if these are listed."""
        if self._staying is not None:
            self._staying.append(plan_rows.unconcerned_of(planned))

    def add_row(self, planned: PlannedWorkload) -> None:
        """Add a concerned workload, a dependency that only follows one, or a workload that has no place in any case."""
        planned, hosts = plan_rows.seen_by(planned, self._reader), self._decider.hosts
        left = is_left(planned, hosts)
        place = not left, bool(planned.after.assignment)
        if planned.moves:
            self._moving.add(planned.resource)
            self._moves[place].append(plan_rows.move_of(planned, hosts))
            self._totals.add(planned)
            self._costs.append(plan_rows.cost_of(planned, self._decider.costs))
            self._changing.update(planned.moves)
            if not planned.is_deleted and planned.after.workload.dependencies is None:
                self._unknown.append(Gap(GapKind.DEPENDENCIES, (planned.resource,)))
        elif changed := overridden_changes(planned):
            self._totals.add(planned)
            self._changing.update(changed)
        if planned.after.workload.components_are_old and not planned.is_deleted:
            self._unknown.append(Gap(GapKind.COMPONENTS, (planned.resource,)))
        if left or planned.after.has_no_place:
            self._unplaced[place].append(plan_rows.unplaced_of(planned, hosts))
        if hosts.stopping and is_hit(planned, hosts):
            self._hit.append(planned)

    def moves(self, resource: str) -> bool:
        """Return whether a workload that was added moves."""
        return resource in self._moving

    def plan(self, changes: ChangeSet, gaps: Sequence[Gap]) -> plan_answer.Plan:
        changed, decider, hosts = self._changed, self._decider, self._decider.hosts
        unplaced = [
            row for place in sorted(self._unplaced) for row in sorted(self._unplaced[place], key=attrgetter("resource"))
        ]
        moves = [row for place in sorted(self._moves) for row in self._moves[place]]
        moves.sort(key=lambda each: (-each.replicas, -len(each.deleted), each.resource))
        totals = self._totals.results(self._changing)
        self._hit.sort(key=lambda each: (not is_left(each, hosts), bool(each.after.assignment), each.resource))
        all_gaps = sorted(texts([*gaps, *changed.gaps, *self._unknown], self._reader))
        blocked = changed.blocked.values() if self._staying is not None else ()
        answer = plan_answer.Plan(
            id="",
            summary=plan_rows.summary_of(
                len(self._index) + self._new,
                [(each.replicas, each.due) for each in moves],
                [(each.resource, each.nowhere, each.by_change, each.keeps) for each in unplaced],
                change_of(self._costs),
            ),
            concerned=self._concerned,
            deleted_copies=sum(len(each.deleted) for each in moves),
            complete=not all_gaps,
            gaps=all_gaps,
            policies=self._effects.results(),
            unplaced=unplaced,
            moves=moves,
            overcommitted=[each.cluster for each in totals if each.overcommitted],
            clusters=totals,
            staying=[
                *(self._staying or ()),
                *(
                    plan_answer.StayingWorkload(str(workload), str(policy), plan_answer.StayReason.HELD, reason)
                    for workload, policy, reason in blocked
                ),
            ],
            overrides=[*(each.name for each in changes.overrides), *changes.deleted_overrides],
            assumptions=decider.assumptions,
            preemption_matters=changed.preemption_matters,
            evicting_taints=_gains_no_execute(self._index.world.clusters, decider),
            loss=loss_of(self._hit, hosts) if hosts.stopping else None,
        )
        return replace(answer, id=plan_id(changes, answer))


def _gains_no_execute(before: Mapping[str, Cluster], decider: PlanDecider) -> bool:
    return any(
        taint.effect == NO_EXECUTE and (name not in before or taint not in before[name].spec.taints)
        for name, cluster in decider.clusters.items()
        if before.get(name) is not cluster and name not in decider.hosts.lost
        for taint in cluster.spec.taints
    )
