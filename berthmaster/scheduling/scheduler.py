"""The one function that all of Berthmaster calls: where a workload goes on a fleet."""

from collections import Counter
from collections.abc import Mapping
from functools import reduce
from typing import Final

import numpy as np

from berthmaster.model.decode import encode_json
from berthmaster.model.placement import Placement
from berthmaster.scheduling.candidates import Candidates
from berthmaster.scheduling.columns import IntArray
from berthmaster.scheduling.context import Context, Peers
from berthmaster.scheduling.decision import Attempt, Decision, Failure, FailureKind, Mode
from berthmaster.scheduling.feasible import Feasible
from berthmaster.scheduling.filters import PlacementFilter
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.group import Affinities, Group
from berthmaster.scheduling.karmada import KARMADA
from berthmaster.scheduling.plan import Plan
from berthmaster.scheduling.plugins import built_in
from berthmaster.scheduling.profile import Profile
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scores import UnscorableError

__all__ = ["Profile", "Scheduler"]

_PLANS_KEPT: Final = 4096
_PLAN_HIT: Final = ("plan", "hit")
_PLAN_MISS: Final = ("plan", "miss")
_FILTER_HIT: Final = ("filter", "hit")
_FILTER_MISS: Final = ("filter", "miss")


class Scheduler:
    """Decides on one fleet, by one profile. It keeps what placements mean there; it is not safe for several threads.

    The engine is the same for every profile: groups are tried in order, and for each of them the clusters that fit are
    found, scored, selected among and assigned replicas. What each step does is the profile's.

    Attributes:
        fleet: the clusters.
        profile: Karmada's, with its built-in plugins, unless another one was given.
        stages: the profile's.
        filters: all filters in the order in which their reasons are told; the first cannot be switched off.
        peers: where the workloads of each group of workload affinity are.
    """

    def __init__(self, fleet: Fleet, profile: Profile | None = None, peers: Peers | None = None) -> None:
        self.fleet = fleet
        self.profile = profile or Profile(built_in())
        self.stages = self.profile.stages or KARMADA
        self.filters = (self.stages.members, *self.profile.plugins.filters)
        self.peers = peers or Peers()
        self._request_filters = [plugin for plugin in self.filters if not isinstance(plugin, PlacementFilter)]
        self._affinities = Affinities(fleet)
        self._plans: dict[bytes, Plan] = {}
        self._plan_of: dict[int, tuple[Placement, Plan]] = {}
        self._feasible: dict[tuple[Group, str, str, bool], Feasible] = {}
        self._lookups: Counter[tuple[str, str]] = Counter()

    def take_lookups(self) -> Mapping[tuple[str, str], int]:
        """How often caches were asked since this was asked last: counts by cache and ``hit`` or ``miss``."""
        taken, self._lookups = self._lookups, Counter()
        return taken

    def schedule(self, request: Request) -> Decision:
        """Try one group of clusters after the other; the first that satisfies everything wins.

        The walk goes on with the group that the current assignment came from, and starts at the first group if a
        rescheduling was asked for, or that group is gone. If all groups fail, the first failure is told.
        """
        plan = self.plan(request.placement)
        mode = Mode.FRESH if request.fresh else Mode.STEADY
        start = 0 if request.fresh else plan.group_index(request.observed_group)
        attempts: list[Attempt] = []
        for group in plan.groups[start:]:
            attempt = self._attempt(Context(self.fleet, request, plan, group, self.peers))
            attempts.append(attempt)
            if attempt.failure is None and attempt.assignment is not None:
                return Decision(group.name, attempt.assignment, None, mode, attempts)
        if not attempts:
            # An empty list of groups is a success that changes nothing: in Karmada as written, and in KubeAdmiral
            # where a workload is not to be moved.
            return Decision(None, dict(request.current), None, mode)
        return Decision(None, {}, attempts[0].failure, mode, attempts)

    def plan(self, placement: Placement) -> Plan:
        """A placement taken apart for this fleet; equal content shares one plan."""
        known = self._plan_of.get(id(placement))
        if known is not None:
            self._lookups[_PLAN_HIT] += 1
            return known[1]
        plan = self._plan_by_content(placement)
        if len(self._plan_of) >= _PLANS_KEPT:
            self._plan_of.clear()
        # The placement is kept with its plan: as long as it is, no other has its identity.
        self._plan_of[id(placement)] = placement, plan
        return plan

    def _plan_by_content(self, placement: Placement) -> Plan:
        key = encode_json(placement)
        plan = self._plans.get(key)
        self._lookups[_PLAN_HIT if plan is not None else _PLAN_MISS] += 1
        if plan is None:
            if len(self._plans) >= _PLANS_KEPT:
                self._plans.clear()
                self._plan_of.clear()
                self._feasible.clear()
            plan = self._plans[key] = self.stages.plan(placement, self.fleet, self._affinities)
        return plan

    def fitting(self, request: Request, group: Group) -> IntArray:
        """The rows that pass all filters in one group's turn; not to be kept or written to."""
        return self._filter(Context(self.fleet, request, self.plan(request.placement), group, self.peers))

    def _attempt(self, context: Context) -> Attempt:
        """One group's turn, in four steps; each may fail, which leaves the group."""
        stages = self.stages
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
        selected = stages.select(context, attempt.candidates)
        if isinstance(selected, Failure):
            attempt.failure = selected
            return attempt
        attempt.selected = selected
        # 4. Assign.
        assigned = stages.assign(context, selected)
        if isinstance(assigned, Failure):
            attempt.failure = assigned
            return attempt
        if self.profile.keep_empty:
            assigned = {**dict.fromkeys(selected.names(), 0), **assigned}
        attempt.assignment = assigned
        return attempt

    def rejected(self, request: Request, attempt: Attempt) -> Mapping[str, int]:
        """How many clusters each filter that looks at placement and kind ruled out in an attempt just made."""
        feasible = self._feasible.get((attempt.group, request.api_version, request.kind, request.is_workload))
        return feasible.rejected() if feasible is not None else {}

    def _no_fit(self) -> str:
        return f"none of {len(self.fleet)} clusters fits" if len(self.fleet) else "there are no clusters"

    def _filter(self, context: Context) -> IntArray:
        """The rows that pass all filters."""
        request = context.request
        rows = self._feasible_for(context).rows_for(request)
        for plugin in self._request_filters:
            rows = plugin.prune(context, rows)
        return rows

    def _feasible_for(self, context: Context) -> Feasible:
        request = context.request
        key = (context.group, request.api_version, request.kind, request.is_workload)
        feasible = self._feasible.get(key)
        self._lookups[_FILTER_HIT if feasible is not None else _FILTER_MISS] += 1
        if feasible is None:
            if len(self._feasible) >= _PLANS_KEPT:
                self._feasible.clear()
            feasible = self._feasible[key] = Feasible(context, self.filters)
        return feasible

    def _score(self, context: Context, rows: IntArray) -> Candidates:
        """The clusters that fit, with scores and capacity."""
        given = [
            scores for plugin in self.profile.plugins.scores if (scores := plugin.scores(context, rows)) is not None
        ]
        total = reduce(np.add, given) if given else None
        return self.stages.candidates(context, rows, total)
