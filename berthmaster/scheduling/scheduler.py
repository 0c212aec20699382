"""The scheduling engine: decide where a workload goes on a fleet."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Final

import numpy as np

from berthmaster.model.decode import encode_json
from berthmaster.model.placement import Placement
from berthmaster.scheduling.bounded_cache import BYTES_OF_JSON, BoundedCache
from berthmaster.scheduling.candidates import Candidates
from berthmaster.scheduling.columns import BoolArray, Column, IntArray
from berthmaster.scheduling.compiled_placement import Affinities, CompiledPlacement, Group
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.decision import Attempt, Decision, Failure, FailureKind, Mode
from berthmaster.scheduling.filters import Filter, PlacementFilter, UnscorableError
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.peers import Peers
from berthmaster.scheduling.profile import Profile
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.steps import CANDIDATE_STEPS, TooLargeError, Work

_OBJECT_BYTES: Final = 4096
_NOTHING: Final[BoolArray] = np.zeros(0, dtype=np.bool_)
_NO_ROWS: Final[IntArray] = np.zeros(0, dtype=np.int64)
_PLACEMENT_BYTES: Final = 48 * 2**20
"""The bytes of compiled placements, and again of the placements that are known by identity."""


class FeasibleRows:
    """The rows that pass all placement filters, for one group and one kind of workload, kept up to date.

    Its arrays count in the budget of the fleet. If the budget is exceeded, the group forgets it. ``steps``: the steps
    of computing it, see ``Work``. A decision takes them even if the result is known already.
    """

    def __init__(self, context: Context, filters: Sequence[Filter]) -> None:
        self._fleet = context.fleet
        self._group = context.group
        self._key = kind_of(context.request)
        self._columns: list[tuple[str, Column[np.bool_]]] = []
        self._staying: list[Column[np.bool_]] = []
        for plugin in filters:
            if isinstance(plugin, PlacementFilter):
                column = plugin.column(context)
                staying = plugin.staying(context, column)
                if column is not None:
                    self._columns.append((plugin.name, column))
                if staying is not None:
                    self._staying.append(staying)
        columns = [*(column for _, column in self._columns), *self._staying]
        unique = set(columns)
        self._journals = {context.fleet.structure, *(each.journal for each in unique)}
        self._version = -1
        self._rows: IntArray = _NO_ROWS
        self._mask: BoolArray = _NOTHING
        self._rejected: Mapping[str, int] | None = None
        self.steps = sum(column.steps(context.fleet.capacity) for column in unique)

    def rows_for(self, request: Request) -> IntArray:
        """Return the rows for a request, including current clusters that may keep the workload.

        The caller must not keep or change the array.
        """
        fleet = self._fleet
        # Versions only grow. Their sum is therefore unchanged only if all of them are.
        version = 0
        for journal in self._journals:
            version += journal.version
        if self._version != version:
            mask = fleet.occupied.copy()
            for _, column in self._columns:
                mask &= column.current()
            self._mask, self._rows, self._version = mask, mask.nonzero()[0], version
            self._rejected = None
            fleet.structure.arrays.admit(self, _OBJECT_BYTES + mask.nbytes + self._rows.nbytes)
        if not request.current:
            return self._rows
        rows = [row for name in request.current if (row := fleet.row_of.get(name)) is not None and not self._mask[row]]
        for column in self._staying if rows else ():
            stays = column.current()
            rows = [row for row in rows if stays[row]]
        if not rows:
            return self._rows
        mask = self._mask.copy()
        mask[rows] = True
        return mask.nonzero()[0]

    def release(self) -> None:
        """Make the group forget this object, so that its arrays are freed."""
        if self._group.feasible.get(self._key) is self:
            del self._group.feasible[self._key]

    def rejected(self) -> Mapping[str, int]:
        """Return how many clusters each filter rejects that no earlier filter rejects, as of the last ``rows_for``."""
        if self._rejected is None:
            mask, counts = self._fleet.occupied.copy(), {}
            for name, column in self._columns:
                left = mask & column.current()
                counts[name] = int(mask.sum() - left.sum())
                mask = left
            self._rejected = {name: count for name, count in counts.items() if count}
        return self._rejected


def kind_of(request: Request) -> tuple[str, str, bool]:
    """Return what a placement filter reads of a workload, besides its placement and its current clusters.

    Returns the apiVersion and the kind of the workload, and whether it has replicas.
    """
    return request.api_version, request.kind, request.is_workload


class Scheduler:
    """Decide on one fleet, by one profile.

    The scheduler tries the groups of a placement in order. In each group it filters the clusters, scores those that
    fit, selects among them and assigns replicas. The profile says what each stage does.

    A scheduler caches compiled placements and filter results. It is not safe for use by several threads. ``filters``:
    all filters in the order in which a diagnosis lists their reasons. The first is the profile's ``members``, which no
    switch disables.
    """

    def __init__(self, fleet: Fleet, profile: Profile, peers: Peers | None = None) -> None:
        self.fleet = fleet
        self.profile = profile
        self.filters = (profile.stages.members, *profile.plugins.filters)
        self.peers = peers or Peers()
        self._stages = profile.stages
        self._request_filters = [plugin for plugin in self.filters if not isinstance(plugin, PlacementFilter)]
        self._affinities = Affinities(fleet)
        self._compiled: BoundedCache[bytes, CompiledPlacement] = BoundedCache(_PLACEMENT_BYTES)
        self._compiled_of: BoundedCache[int, tuple[Placement, CompiledPlacement]] = BoundedCache(_PLACEMENT_BYTES)
        self._lookups: Counter[tuple[str, str]] = Counter()  # label values of a metric

    def take_lookups(self) -> Mapping[tuple[str, str], int]:
        """Return the cache lookups since the last call: counts by cache and ``hit`` or ``miss``."""
        taken, self._lookups = self._lookups, Counter()
        return taken

    def schedule(self, request: Request, work: Work | None = None) -> Decision:
        """Try the groups in order. The first group that satisfies everything wins.

        The scheduler starts with the group that the current assignment came from. It starts with the first group if
        the request asks for a rescheduling, or if that group no longer exists. If all groups fail, the decision
        carries the first failure. A placement above the limits of the profile is not tried at all, and a decision that
        takes too many steps ends with a failure of its own.
        """
        try:
            return self._schedule(request, work or Work(self.profile.limits.steps))
        except TooLargeError as error:
            mode = Mode.FRESH if request.fresh else Mode.STEADY
            return Decision(None, {}, Failure(FailureKind.TOO_LARGE, str(error)), mode)

    def _schedule(self, request: Request, work: Work) -> Decision:
        compiled = self.compile(request.placement)
        work.spend(compiled.steps)
        mode = Mode.FRESH if request.fresh else Mode.STEADY
        start = 0 if request.fresh else compiled.group_index(request.observed_group)
        attempts: list[Attempt] = []
        for group in compiled.groups[start:]:
            attempt = self._attempt(Context(self.fleet, request, compiled, group, self.peers, work))
            attempts.append(attempt)
            if attempt.failure is None and attempt.assignment is not None:
                return Decision(group.name, attempt.assignment, None, mode, attempts)
        if not attempts:
            # An empty list of groups is a success that changes nothing: in Karmada by its code, and in KubeAdmiral
            # for a workload that must not move.
            return Decision(None, dict(request.current), None, mode)
        return Decision(None, {}, attempts[0].failure, mode, attempts)

    def attempts(self, request: Request, limit: int, work: Work | None = None) -> list[Attempt]:
        """Try the groups in order, also those after one that fits. For explanations; no decision comes of it.

        Args:
            work: counts the steps; by default up to the limit of the profile.

        Raises:
            TooLargeError: the placement exceeds a limit, or the attempts take too many steps.
        """
        compiled, work = self.compile(request.placement), work or Work(self.profile.limits.steps)
        work.spend(compiled.steps)
        groups = compiled.groups[:limit]
        return [self._attempt(Context(self.fleet, request, compiled, each, self.peers, work)) for each in groups]

    def compile(self, placement: Placement) -> CompiledPlacement:
        """Compile a placement for this fleet. Placements of equal content share one result."""
        known = self._compiled_of.get(id(placement))
        if known is not None:
            self._lookups["plan", "hit"] += 1
            return known[1]
        key = encode_json(placement)
        compiled = self._compile_by_content(key, placement)
        # The entry keeps the placement alive, so that no other placement can get its id.
        self._compiled_of.add(id(placement), (placement, compiled), BYTES_OF_JSON * len(key))
        return compiled

    def fitting(self, request: Request, group: Group, work: Work | None = None) -> IntArray:
        """Return the rows that pass all filters in one group. The caller must not keep or change the array."""
        compiled, work = self.compile(request.placement), work or Work()
        work.begin_group()
        return self._filter(Context(self.fleet, request, compiled, group, self.peers, work))

    def rejected(self, request: Request, attempt: Attempt) -> Mapping[str, int]:
        """Return how many clusters each placement filter rejected in the attempt that was just made."""
        feasible: FeasibleRows | None = attempt.group.feasible.get(kind_of(request))
        return feasible.rejected() if feasible is not None else {}

    def rejected_by_all(self, request: Request, attempt: Attempt) -> Mapping[str, int]:
        """Return what ``rejected`` returns, and how many of the other clusters each other filter rejected."""
        feasible: FeasibleRows | None = attempt.group.feasible.get(kind_of(request))
        if feasible is None:
            return {}
        context = Context(self.fleet, request, self.compile(request.placement), attempt.group, self.peers, Work())
        counts, rows = dict(feasible.rejected()), feasible.rows_for(request)
        for plugin in self._request_filters:
            left = plugin.prune(context, rows)
            if count := len(rows) - len(left):
                counts[plugin.name] = count
            rows = left
        return counts

    def _compile_by_content(self, key: bytes, placement: Placement) -> CompiledPlacement:
        compiled = self._compiled.get(key)
        self._lookups["plan", "hit" if compiled is not None else "miss"] += 1
        if compiled is None:
            excess = self._stages.excess(placement, self.profile.limits)
            if excess:
                raise TooLargeError(str(excess[0]))
            compiled = self._stages.compile(placement, self.fleet, self._affinities)
            self._compiled.add(key, compiled, BYTES_OF_JSON * len(key))
        return compiled

    def _attempt(self, context: Context) -> Attempt:
        """Try one group, in four steps. A step that fails ends the attempt."""
        stages, work = self._stages, context.work
        work.begin_group()
        # 1. Filter.
        attempt = Attempt(context.group, self._filter(context))
        work.spend(CANDIDATE_STEPS * len(attempt.rows) * (1 + len(context.group.overflow or ())))
        if not len(attempt.rows):
            clusters = len(self.fleet)
            message = f"none of {clusters} clusters fits" if clusters else "there are no clusters"
            attempt.failure = Failure(FailureKind.NO_FIT, message)
            return attempt
        # 2. Score.
        try:
            attempt.candidates = self._score(context, attempt.rows)
        except UnscorableError as error:
            attempt.failure = Failure(FailureKind.SELECT_FAILED, str(error))
            return attempt
        # 3. Select.
        selected = stages.select(context, context.compiled, attempt.candidates)
        if isinstance(selected, Failure):
            attempt.failure = selected
            return attempt
        attempt.selected = selected
        # 4. Assign.
        assigned = stages.assign(context, context.compiled, selected)
        if isinstance(assigned, Failure):
            attempt.failure = assigned
            return attempt
        if self.profile.keep_empty:
            assigned = {**dict.fromkeys(selected.names(), 0), **assigned}
        attempt.assignment = assigned
        return attempt

    def _filter(self, context: Context) -> IntArray:
        key = kind_of(context.request)
        feasible: FeasibleRows | None = context.group.feasible.get(key)
        self._lookups["filter", "hit" if feasible is not None else "miss"] += 1
        if feasible is None:
            feasible = context.group.feasible[key] = FeasibleRows(context, self.filters)
        context.work.spend(feasible.steps)
        rows = feasible.rows_for(context.request)
        for plugin in self._request_filters:
            rows = plugin.prune(context, rows)
        return rows

    def _score(self, context: Context, rows: IntArray) -> Candidates:
        """Return the clusters that fit, with scores and available replicas."""
        given = [
            scores for plugin in self.profile.plugins.scores if (scores := plugin.scores(context, rows)) is not None
        ]
        total = reduce(np.add, given) if given else None
        return self._stages.candidates(context, rows, total)
