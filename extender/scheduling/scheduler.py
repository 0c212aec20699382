"""The one function that all of Berthmaster calls: where a workload goes on a fleet."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Final

import numpy as np

from extender.scheduling.assignment import assign
from extender.scheduling.candidates import Candidates, candidates_of
from extender.scheduling.columns import BoolArray, Column, IntArray
from extender.scheduling.context import Context, Peers
from extender.scheduling.decision import Attempt, Decision, Failure, FailureKind, Mode
from extender.scheduling.filters import PlacementFilter
from extender.scheduling.fleet import Fleet
from extender.scheduling.group import Affinities, Group
from extender.scheduling.plan import Plan
from extender.scheduling.plugins import Plugins, built_in
from extender.scheduling.request import Request
from extender.scheduling.selection import select
from fleet.model.decode import encode_json
from fleet.model.placement import Placement

_PLANS_KEPT: Final = 4096
_PLAN_HIT: Final = ("plan", "hit")
_PLAN_MISS: Final = ("plan", "miss")
_FILTER_HIT: Final = ("filter", "hit")
_FILTER_MISS: Final = ("filter", "miss")


@dataclass(frozen=True, slots=True)
class Profile:
    """How a scheduler decides.

    Attributes:
        plugins: the filters and scores that take part.
        keep_empty: a workload's selected clusters stay in its assignment even with no replicas (Karmada's
            ``--enable-empty-workload-propagation``).
    """

    plugins: Plugins
    keep_empty: bool = False


class Scheduler:
    """Decides on one fleet. It keeps what placements mean there; it is not safe for several threads."""

    def __init__(self, fleet: Fleet, profile: Profile | None = None, peers: Peers | None = None) -> None:
        self.fleet = fleet
        self.profile = profile or Profile(built_in())
        self.peers = peers or Peers()
        self._request_filters = [
            plugin for plugin in self.profile.plugins.filters if not isinstance(plugin, PlacementFilter)
        ]
        self._affinities = Affinities(fleet)
        self._plans: dict[bytes, Plan] = {}
        self._plan_of: dict[int, tuple[Placement, Plan]] = {}
        self._feasible: dict[tuple[Group, str, str, bool], _Feasible] = {}
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
            # An empty list of groups is a success that changes nothing, as in Karmada.
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
            plan = self._plans[key] = Plan(placement, self.fleet, self._affinities)
        return plan

    def fitting(self, request: Request, group: Group) -> IntArray:
        """The rows that pass all filters in one group's turn; not to be kept or written to."""
        return self._filter(Context(self.fleet, request, self.plan(request.placement), group, self.peers))

    def _attempt(self, context: Context) -> Attempt:
        """One group: filter, score, select, assign."""
        request, plan, group = context.request, context.plan, context.group
        attempt = Attempt(group, self._filter(context))
        if not len(attempt.rows):
            attempt.failure = Failure(FailureKind.NO_FIT, self._no_fit())
            return attempt
        attempt.candidates = self._score(context, attempt.rows)
        selected = select(plan, request, attempt.candidates)
        if isinstance(selected, Failure):
            attempt.failure = selected
            return attempt
        attempt.selected = selected
        assigned = assign(plan, group, request, selected)
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

    def _feasible_for(self, context: Context) -> "_Feasible":
        request = context.request
        key = (context.group, request.api_version, request.kind, request.is_workload)
        feasible = self._feasible.get(key)
        self._lookups[_FILTER_HIT if feasible is not None else _FILTER_MISS] += 1
        if feasible is None:
            if len(self._feasible) >= _PLANS_KEPT:
                self._feasible.clear()
            feasible = self._feasible[key] = _Feasible(context, self.profile.plugins)
        return feasible

    def _score(self, context: Context, rows: IntArray) -> Candidates:
        """The clusters that fit, with scores and capacity."""
        given = [
            scores for plugin in self.profile.plugins.scores if (scores := plugin.scores(context, rows)) is not None
        ]
        total = reduce(np.add, given) if given else None
        return candidates_of(self.fleet, context.request, rows, total, context.group.tiers(rows))


class _Feasible:
    """The rows that pass all filters that look only at the placement and the workload's kind."""

    def __init__(self, context: Context, plugins: Plugins) -> None:
        self._fleet = context.fleet
        self._strict: list[Column[np.bool_]] = []
        self._sparing_current: list[Column[np.bool_]] = []
        self._in_order: list[tuple[str, Column[np.bool_]]] = []
        for plugin in plugins.filters:
            column = plugin.column(context) if isinstance(plugin, PlacementFilter) else None
            if column is not None:
                self._in_order.append((plugin.name, column))
                (self._sparing_current if plugin.exempts_current else self._strict).append(column)
        self._journals = {context.fleet.structure, *(each.journal for each in (*self._strict, *self._sparing_current))}
        self._version = -1
        self._rows: IntArray = np.zeros(0, dtype=np.int64)
        self._mask: BoolArray = np.zeros(0, dtype=np.bool_)
        self._rejected: Mapping[str, int] | None = None

    def rows_for(self, request: Request) -> IntArray:
        """The rows for a workload; its current clusters are spared the filters that exempt them. Not to be kept."""
        fleet = self._fleet
        # Versions only grow, so that their sum stands still only if all of them do.
        version = sum([journal.version for journal in self._journals])
        if self._version != version:
            mask = fleet.schedulable.copy()
            for column in (*self._strict, *self._sparing_current):
                mask &= column.current()
            self._mask, self._rows, self._version = mask, mask.nonzero()[0], version
            self._rejected = None
        spared = [row for name in request.current if (row := fleet.row_of.get(name)) is not None and self._spares(row)]
        return np.sort(np.append(self._rows, spared)) if spared else self._rows

    def rejected(self) -> Mapping[str, int]:
        """How many clusters each filter rules out that none before it does; as of the last ``rows_for``."""
        if self._rejected is None:
            mask, counts = self._fleet.schedulable.copy(), {}
            for name, column in self._in_order:
                left = mask & column.current()
                counts[name] = int(mask.sum() - left.sum())
                mask = left
            self._rejected = {name: count for name, count in counts.items() if count}
        return self._rejected

    def _spares(self, row: int) -> bool:
        """Whether a current cluster passes although the mask says no."""
        return (
            not self._mask[row]
            and bool(self._fleet.schedulable[row])
            and all(column.current()[row] for column in self._strict)
        )
