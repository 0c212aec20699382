"""The scheduling engine: decide where a workload goes on a fleet."""

from collections import Counter
from collections.abc import Mapping
from functools import reduce
from typing import Final

import numpy as np

from berthmaster.model.decode import encode_json
from berthmaster.model.placement import Placement
from berthmaster.scheduling.bounded_cache import BYTES_OF_JSON, BoundedCache
from berthmaster.scheduling.candidates import Candidates
from berthmaster.scheduling.columns import IntArray
from berthmaster.scheduling.compiled_placement import Affinities, CompiledPlacement, Group
from berthmaster.scheduling.context import Context, Peers
from berthmaster.scheduling.decision import Attempt, Decision, Failure, FailureKind, Mode
from berthmaster.scheduling.feasible import FeasibleRows, kind_of
from berthmaster.scheduling.filters import PlacementFilter
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.profile import Profile
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scores import UnscorableError
from berthmaster.scheduling.work import CANDIDATE_STEPS, TooLargeError, Work

_PLACEMENT_BYTES: Final = 48 * 2**20
"""The bytes of compiled placements, and again of the placements that are known by identity."""
# The names of the caches are label values of a metric.
_PLACEMENT_HIT: Final = ("plan", "hit")
_PLACEMENT_MISS: Final = ("plan", "miss")
_FILTER_HIT: Final = ("filter", "hit")
_FILTER_MISS: Final = ("filter", "miss")


class Scheduler:
    """Decide on one fleet, by one profile.

    The scheduler tries the groups of a placement in order. In each group it filters the clusters, scores those that
    fit, selects among them and assigns replicas. The profile says what each stage does.

    A scheduler caches compiled placements and filter results. It is not safe for use by several threads.

    Attributes:
        filters: all filters in the order in which a diagnosis lists their reasons. The first is the profile's
            ``members``, which no switch disables.
        peers: where the workloads of each workload affinity group are.
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
        self._lookups: Counter[tuple[str, str]] = Counter()

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
            request: the workload.
            limit: the most groups that are tried.
            work: counts the steps; by default up to the limit of the profile.

        Raises:
            TooLargeError: the placement exceeds a limit, or the attempts take too many steps.
        """
        compiled, work = self.compile(request.placement), work or Work(self.profile.limits.steps)
        work.spend(compiled.steps)
        groups = compiled.groups[:limit]
        return [self._attempt(Context(self.fleet, request, compiled, each, self.peers, work)) for each in groups]

    def compile(self, placement: Placement) -> CompiledPlacement:
        """Compile a placement for this fleet. Placements of equal content share one result.

        Raises:
            TooLargeError: the placement exceeds the limits of the profile.
        """
        known = self._compiled_of.get(id(placement))
        if known is not None:
            self._lookups[_PLACEMENT_HIT] += 1
            return known[1]
        key = encode_json(placement)
        compiled = self._compile_by_content(key, placement)
        # The entry keeps the placement alive, so that no other placement can get its id.
        self._compiled_of.add(id(placement), (placement, compiled), BYTES_OF_JSON * len(key))
        return compiled

    def fitting(self, request: Request, group: Group, work: Work | None = None) -> IntArray:
        """Return the rows that pass all filters in one group. The caller must not keep or change the array.

        Raises:
            TooLargeError: the placement exceeds a limit, or ``work`` exceeds its limit.
        """
        compiled, work = self.compile(request.placement), work or Work()
        work.begin_group()
        return self._filter(Context(self.fleet, request, compiled, group, self.peers, work))

    def rejected(self, request: Request, attempt: Attempt) -> Mapping[str, int]:
        """Return how many clusters each placement filter rejected in the attempt that was just made."""
        feasible: FeasibleRows | None = attempt.group.feasible.get(kind_of(request))
        return feasible.rejected() if feasible is not None else {}

    def _compile_by_content(self, key: bytes, placement: Placement) -> CompiledPlacement:
        compiled = self._compiled.get(key)
        self._lookups[_PLACEMENT_HIT if compiled is not None else _PLACEMENT_MISS] += 1
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
            attempt.failure = Failure(FailureKind.NO_FIT, self._no_fit())
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

    def _no_fit(self) -> str:
        return f"none of {len(self.fleet)} clusters fits" if len(self.fleet) else "there are no clusters"

    def _filter(self, context: Context) -> IntArray:
        feasible = self._feasible_for(context)
        context.work.spend(feasible.steps)
        rows = feasible.rows_for(context.request)
        for plugin in self._request_filters:
            rows = plugin.prune(context, rows)
        return rows

    def _feasible_for(self, context: Context) -> FeasibleRows:
        key = kind_of(context.request)
        feasible: FeasibleRows | None = context.group.feasible.get(key)
        self._lookups[_FILTER_HIT if feasible is not None else _FILTER_MISS] += 1
        if feasible is None:
            feasible = context.group.feasible[key] = FeasibleRows(context, self.filters)
        return feasible

    def _score(self, context: Context, rows: IntArray) -> Candidates:
        """Return the clusters that fit, with scores and available replicas."""
        given = [
            scores for plugin in self.profile.plugins.scores if (scores := plugin.scores(context, rows)) is not None
        ]
        total = reduce(np.add, given) if given else None
        return self._stages.candidates(context, rows, total)
