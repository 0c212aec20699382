"""How many workloads had which problem of place at the end of each of the last days. Pure functions.

The present is what the bindings say. Before it, a workload was as its last decision on record left it, and before its
first one as that found it. A workload without a decision on record is as it is now since the time that its binding
says. ``placed_workload`` says what a binding is, for the present and for the past.
"""

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Final, NamedTuple

from berthmaster.ledger.outcomes import DecidedBinding, RecordOutcome
from berthmaster.ledger.times import microseconds
from berthmaster.model.applied_placement import decoded_placement
from berthmaster.model.binding import Binding
from berthmaster.model.meta import with_spec
from berthmaster.native_api.days import FleetDay
from berthmaster.native_api.fleet import Restriction, WorkloadState
from extender.state.placed_workload import PlacedWorkload, placed_workload, since_of

DAYS: Final = 7
_DAY_US: Final = 24 * 3600 * 1_000_000
_EPOCH: Final = date(1970, 1, 1)


class PlaceStep(NamedTuple):
    """A decision on a workload: what was wrong with its place before and after it.

    Attributes:
        key: names the binding, and changes if a binding of the same name is made anew.
    """

    at_us: int
    key: str
    namespace: str
    before: tuple[Restriction, ...]
    after: tuple[Restriction, ...]
    outcome: RecordOutcome


class WrongNow(NamedTuple):
    """A workload with something wrong now, and since when, in microseconds since 1970; None if that is not known."""

    key: str
    namespace: str
    wrong: tuple[Restriction, ...]
    since_us: int | None


def step_of(decided: DecidedBinding) -> PlaceStep:
    found, left = decided.before, wrong_with(placed_workload(decided.after))
    namespace = sys.intern(found.spec.resource.namespace)
    return PlaceStep(decided.at_us, sys.intern(key_of(found)), namespace, _wrong_until(found), left, decided.outcome)


def _wrong_until(found: Binding) -> tuple[Restriction, ...]:
    """Return what was wrong with a workload until a decision, from the binding that the decision found.

    An edit that the decision is made for is in that binding already: the groups are those of the placement before it,
    and replicas that are missing although the last decision succeeded are those that the edit asks for.
    """
    applied = decoded_placement(found.applied_placement)
    before = found if applied is None else with_spec(found, placement=applied)
    succeeded = found.scheduled is not None and found.scheduled.status == "True"
    wrong = wrong_with(placed_workload(before))
    return tuple(each for each in wrong if each is not Restriction.SHORT or not succeeded)


def wrong_with(placed: PlacedWorkload) -> tuple[Restriction, ...]:
    """Return the lists of workloads with a problem of place that a workload is on."""
    found = {
        Restriction.NOWHERE: placed.state is WorkloadState.NOWHERE,
        Restriction.SHORT: placed.state is WorkloadState.SHORT,
        Restriction.NOT_PREFERRED: bool(placed.group_index),
        Restriction.MOVING: placed.moving,
    }
    return tuple(each for each, holds in found.items() if holds)


def key_of(binding: Binding) -> str:
    meta = binding.metadata
    return f"{meta.namespace}/{meta.name}@{meta.uid}"


def wrong_now(rows: Iterable[PlacedWorkload]) -> list[WrongNow]:
    """Return the workloads of a fleet that have something wrong now."""
    found = []
    for placed in rows:
        if wrong := wrong_with(placed):
            since, namespace = since_of(placed), placed.binding.spec.resource.namespace
            since_us = None if since is None else microseconds(since)
            found.append(WrongNow(key_of(placed.binding), namespace, wrong, since_us))
    return found


def start_of(today: date) -> datetime:
    """Return when the first of the days begins."""
    return datetime.combine(today - timedelta(days=DAYS - 1), time.min, UTC)


def fleet_days(
    steps: Sequence[PlaceStep], present: Sequence[WrongNow], existing: frozenset[str], today: date, first_us: int
) -> list[FleetDay]:
    """Return the days of whose end something is on record, today first.

    Args:
        steps: those of the days, in the order of time.
        existing: the keys of the bindings that there are now. A workload that is gone counts up to its last step.
        first_us: since when decisions are on record, in microseconds since 1970.
    """
    outcomes, stepped = _outcomes(steps), {each.key for each in steps}
    unchanged = [each for each in present if each.key not in stepped]
    found = [_day(today, Counter(wrong for each in present for wrong in each.wrong), outcomes)]
    ends_us = [microseconds(start_of(today) + timedelta(days=number)) for number in range(1, DAYS)]
    counted = [*zip(ends_us, _counts(steps, existing, ends_us), strict=True)]
    for number, (end_us, counts) in enumerate(reversed(counted), start=1):
        if end_us <= first_us:
            break
        since = (each for each in unchanged if each.since_us is not None and each.since_us < end_us)
        counts.update(wrong for each in since for wrong in each.wrong)
        found.append(_day(today - timedelta(days=number), counts, outcomes))
    return found


def _day(day: date, counts: Counter[Restriction], outcomes: Mapping[date, Mapping[str, int]]) -> FleetDay:
    return FleetDay(
        day,
        nowhere=counts[Restriction.NOWHERE],
        short=counts[Restriction.SHORT],
        not_preferred=counts[Restriction.NOT_PREFERRED],
        moving=counts[Restriction.MOVING],
        outcomes=dict(outcomes.get(day, {})),
    )


def _outcomes(steps: Iterable[PlaceStep]) -> dict[date, Counter[str]]:
    found: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for each in steps:
        found[each.at_us // _DAY_US][each.outcome.value] += 1
    return {_EPOCH + timedelta(days=number): counts for number, counts in found.items()}


def _counts(
    steps: Sequence[PlaceStep], existing: frozenset[str], ends_us: Iterable[int]
) -> Iterator[Counter[Restriction]]:
    """Yield how many of the workloads with a step had what wrong before each time."""
    now = {each.key: each.before for each in reversed(steps)}  # as their first step found them
    last = {each.key: number for number, each in enumerate(steps)}
    counts, position = Counter(wrong for each in now.values() for wrong in each), 0
    for end_us in ends_us:
        while position < len(steps) and steps[position].at_us < end_us:
            step = steps[position]
            left = () if position == last[step.key] and step.key not in existing else step.after
            if left != now[step.key]:
                counts.subtract(now[step.key])
                counts.update(left)
                now[step.key] = left
            position += 1
        yield Counter(counts)
