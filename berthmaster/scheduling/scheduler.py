"""The scheduling engine: decide where a workload goes on a fleet."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Final

import numpy as np

from berthmaster.model.decode import encode_json
from berthmaster.model.errors import InputError
from berthmaster.model.limits import placement_excess
from berthmaster.model.placement import Placement
from berthmaster.scheduling.candidates import Candidates
from berthmaster.scheduling.columns import BoolArray, Column, IntArray
from berthmaster.scheduling.compiled_placement import Affinities, CompiledPlacement, Group
from berthmaster.scheduling.context import Context, Peers
from berthmaster.scheduling.decision import Attempt, Decision, Failure, FailureKind, Mode
from berthmaster.scheduling.filters import Filter, PlacementFilter
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.profile import Profile
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scores import UnscorableError

_PLACEMENTS_KEPT: Final = 4096
# The names of the caches are label values of a metric.
_PLACEMENT_HIT: Final = ("plan", "hit")
_PLACEMENT_MISS: Final = ("plan", "miss")
_FILTER_HIT: Final = ("filter", "hit")
_FILTER_MISS: Final = ("filter", "miss")


class TooLargeError(InputError):
    """A placement exceeds the limits of the profile."""


class Scheduler:
    """Decide on one fleet, by one profile.

    The scheduler tries the groups of a placement in order. In each group it filters the clusters, scores those that
    fit, selects among them and assigns replicas. The profile says what each stage does.

    A scheduler caches compiled placements and filter results. It is not safe for use by several threads.

    Attributes:
        fleet: the clusters.
        profile: the plugins and stages.
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
        self._compiled: dict[bytes, CompiledPlacement] = {}
        self._compiled_of: dict[int, tuple[Placement, CompiledPlacement]] = {}
        self._feasible: dict[tuple[Group, str, str, bool], _Feasible] = {}
        self._lookups: Counter[tuple[str, str]] = Counter()

    def take_lookups(self) -> Mapping[tuple[str, str], int]:
        """Return the cache lookups since the last call: counts by cache and ``hit`` or ``miss``."""
        taken, self._lookups = self._lookups, Counter()
        return taken

    def schedule(self, request: Request) -> Decision:
        """Try the groups in order. The first group that satisfies everything wins.

        The scheduler starts with the group that the current assignment came from. It starts with the first group if
        the request asks for a rescheduling, or if that group no longer exists. If all groups fail, the decision
        carries the first failure. A placement above the limits of the profile is not tried at all.
        """
        mode = Mode.FRESH if request.fresh else Mode.STEADY
        try:
            compiled = self.compile(request.placement)
        except TooLargeError as error:
            return Decision(None, {}, Failure(FailureKind.TOO_LARGE, str(error)), mode)
        start = 0 if request.fresh else compiled.group_index(request.observed_group)
        attempts: list[Attempt] = []
        for group in compiled.groups[start:]:
            attempt = self._attempt(Context(self.fleet, request, compiled, group, self.peers))
            attempts.append(attempt)
            if attempt.failure is None and attempt.assignment is not None:
                return Decision(group.name, attempt.assignment, None, mode, attempts)
        if not attempts:
            # An empty list of groups is a success that changes nothing: in Karmada by its code, and in KubeAdmiral
            # for a workload that must not move.
            return Decision(None, dict(request.current), None, mode)
        return Decision(None, {}, attempts[0].failure, mode, attempts)

    def compile(self, placement: Placement) -> CompiledPlacement:
        """Compile a placement for this fleet. Placements of equal content share one result.

        Raises:
            TooLargeError: the placement exceeds the limits of the profile.
        """
        known = self._compiled_of.get(id(placement))
        if known is not None:
            self._lookups[_PLACEMENT_HIT] += 1
            return known[1]
        compiled = self._compile_by_content(placement)
        if len(self._compiled_of) >= _PLACEMENTS_KEPT:
            self._compiled_of.clear()
        # The entry keeps the placement alive, so that no other placement can get its id.
        self._compiled_of[id(placement)] = placement, compiled
        return compiled

    def fitting(self, request: Request, group: Group) -> IntArray:
        """Return the rows that pass all filters in one group. The caller must not keep or change the array."""
        return self._filter(Context(self.fleet, request, self.compile(request.placement), group, self.peers))

    def rejected(self, request: Request, attempt: Attempt) -> Mapping[str, int]:
        """Return how many clusters each placement filter rejected in the attempt that was just made."""
        feasible = self._feasible.get((attempt.group, request.api_version, request.kind, request.is_workload))
        return feasible.rejected() if feasible is not None else {}

    def _compile_by_content(self, placement: Placement) -> CompiledPlacement:
        key = encode_json(placement)
        compiled = self._compiled.get(key)
        self._lookups[_PLACEMENT_HIT if compiled is not None else _PLACEMENT_MISS] += 1
        if compiled is None:
            excess = placement_excess(placement, self.profile.limits)
            if excess:
                raise TooLargeError(str(excess[0].below("placement")))
            if len(self._compiled) >= _PLACEMENTS_KEPT:
                self._compiled.clear()
                self._compiled_of.clear()
                self._feasible.clear()
            compiled = self._compiled[key] = self._stages.compile(placement, self.fleet, self._affinities)
        return compiled

    def _attempt(self, context: Context) -> Attempt:
        """Try one group, in four steps. A step that fails ends the attempt."""
        stages = self._stages
        # 1. Filter.
        attempt = Attempt(context.group, self._filter(context))
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
        rows = self._feasible_for(context).rows_for(context.request)
        for plugin in self._request_filters:
            rows = plugin.prune(context, rows)
        return rows

    def _feasible_for(self, context: Context) -> "_Feasible":
        request = context.request
        key = (context.group, request.api_version, request.kind, request.is_workload)
        feasible = self._feasible.get(key)
        self._lookups[_FILTER_HIT if feasible is not None else _FILTER_MISS] += 1
        if feasible is None:
            if len(self._feasible) >= _PLACEMENTS_KEPT:
                self._feasible.clear()
            feasible = self._feasible[key] = _Feasible(context, self.filters)
        return feasible

    def _score(self, context: Context, rows: IntArray) -> Candidates:
        """Return the clusters that fit, with scores and available replicas."""
        given = [
            scores for plugin in self.profile.plugins.scores if (scores := plugin.scores(context, rows)) is not None
        ]
        total = reduce(np.add, given) if given else None
        return self._stages.candidates(context, rows, total)


class _Feasible:
    """The rows that pass all placement filters, for one group and one kind of workload, kept up to date."""

    def __init__(self, context: Context, filters: Sequence[Filter]) -> None:
        self._fleet = context.fleet
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
        self._journals = {context.fleet.structure, *(each.journal for each in columns)}
        self._version = -1
        self._rows: IntArray = np.zeros(0, dtype=np.int64)
        self._mask: BoolArray = np.zeros(0, dtype=np.bool_)
        self._rejected: Mapping[str, int] | None = None

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
        if not request.current:
            return self._rows
        kept = [row for name in request.current if (row := fleet.row_of.get(name)) is not None and self._may_stay(row)]
        return np.sort(np.append(self._rows, kept)) if kept else self._rows

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

    def _may_stay(self, row: int) -> bool:
        """Return whether a cluster may keep the workload but could not get it now."""
        return not self._mask[row] and all(column.current()[row] for column in self._staying)
