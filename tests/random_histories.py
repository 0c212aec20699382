"""Random histories of fleets and bindings, and what their ledger must hold."""

from datetime import timedelta
from itertools import chain

import strategies as draws
from builders import cluster
from decisions import asked
from fake_clock import FakeClock
from hypothesis import strategies as st
from ledger_histories import Scheduling, all_times, of_shop, opened, recorder_at
from msgspec.structs import replace

from berthmaster.ledger.audit import audit
from berthmaster.ledger.decided import decided
from berthmaster.ledger.replay import replay
from berthmaster.ledger.times import microseconds
from berthmaster.model.binding import WorkloadAffinityGroups
from berthmaster.model.move import move_of
from berthmaster.native_api.fleet import WorkloadState
from extender.state.fleet_days import fleet_days, key_of, start_of, step_of, wrong_now
from extender.state.placed_workload import placed_workload

_NAMES = st.sampled_from(["web", "api", "cart", "search"])
_BOUNDS = st.none() | st.dictionaries(st.sampled_from([*draws.NAMES[:3], "gone"]), st.integers(0, 5))


_GROUPS = st.sampled_from([None, WorkloadAffinityGroups("app=a"), WorkloadAffinityGroups("", "app=a")])
_EASY = draws.easy_placements(st.sampled_from([draws.AGGREGATED, draws.DYNAMIC, draws.DUPLICATED]))
_BINDINGS = draws.bindings(placed=_EASY, replicas=st.integers(1, 6)) | draws.bindings()


@st.composite
def steps(draw):
    kind = draw(st.sampled_from(["cluster", "binding", "binding", "scale", "scale", "remove", "time", "flush"]))
    if kind == "cluster":
        return kind, draw(draws.fleets(min_size=1, max_size=3))
    if kind == "binding":
        binding = draw(_BINDINGS)
        spec = replace(binding.spec, workload_affinity_groups=draw(_GROUPS))
        return kind, of_shop(draw(_NAMES), replace(binding, spec=spec)), draw(_BOUNDS)
    if kind == "scale":
        return kind, draw(_NAMES), draw(st.integers(0, 9))
    if kind == "remove":
        return kind, draw(st.sampled_from(draws.NAMES))
    return kind, draw(st.sampled_from([1.0, 59.0, 90.0]))


def _run(scheduling, recorder, history, bounds):
    for kind, *values in history:
        match kind:
            case "cluster":
                for each in values[0]:
                    scheduling.clusters.update_cluster(each)
            case "binding":
                bounds["now"] = values[1]
                scheduling.put(values[0])
            case "scale":
                known = scheduling.bindings.get(("shop", f"{values[0]}-deployment"))
                if known is not None:
                    scheduling.put(replace(known, spec=replace(known.spec, replicas=values[1])))
            case "remove":
                scheduling.clusters.remove_cluster(values[0])
            case "time":
                scheduling.clock.pass_by(values[0])
                for key in list(scheduling.bindings):
                    scheduling.report(*key)
                    scheduling.reconcile(*key)
            case "flush":
                recorder.step()


_HOUR_S = 3600.0
_CHOICE = [{"affinityName": name, "clusterNames": [name]} for name in ("home", "spare")]
_CHOOSE = st.tuples(st.just("choose"), _NAMES, st.integers(1, 8))
_CAPACITY = st.tuples(
    st.just("capacity"), st.sampled_from(["home", "spare"]), st.sampled_from([0, 4, 100]), st.sampled_from([1, 1, 0])
)
_SCALES = st.tuples(st.just("scale"), _NAMES, st.integers(0, 9))
_PASSED = st.tuples(st.just("time"), st.sampled_from([2.0, 90.0, _HOUR_S, 10 * _HOUR_S, 30 * _HOUR_S]))
_OTHERS = st.sampled_from([("flush", 0), ("back",)])
DAYS = st.tuples(
    st.lists(_CHOOSE, min_size=2, max_size=4),
    st.lists(_CHOOSE | _CAPACITY | _CAPACITY | _SCALES | _PASSED | _PASSED | _OTHERS, min_size=10, max_size=30),
).map(lambda drawn: drawn[0] + drawn[1])


def _played(step):
    match step:
        case "choose", name, replicas:
            wanted = asked(groups=_CHOICE, scheduling=draws.AGGREGATED, requests={"cpu": 1}, replicas=replicas)
            return [("binding", of_shop(name, wanted), None)]
        case "capacity", name, cpu, ready:
            return [("cluster", [cluster(name, cpu=cpu, ready=bool(ready))])]
        case ("back",):  # workloads in the second group begin to move to the first one, and still do the next day
            return [("cluster", [cluster("home", cpu=100)]), *[("time", 2.0)] * 4, ("time", 30 * _HOUR_S)]
    return [step]


def check_days(url, history):
    """Record a history. The days that the ledger gives must be those of the bindings at the end of each day."""
    clock, seen, read = FakeClock(), {}, {}
    recorder, begun_us = recorder_at(url, clock), microseconds(clock.now())
    scheduling = Scheduling(recorder, clock)
    parts = []
    for step in chain.from_iterable(map(_played, history)):
        if step[0] == "time":
            today, later = clock.now().date(), (clock.now() + timedelta(seconds=step[1])).date()
            seen |= {today + timedelta(days=number): _wrong(scheduling) for number in range((later - today).days)}
        if step[0] == "flush":
            parts += _read(url, read)
        _run(scheduling, recorder, [step], {})
    recorder.finish()
    parts += _read(url, read)
    today = clock.now().date()
    placed = [placed_workload(each) for each in scheduling.bindings.values()]
    existing, start_us = frozenset(key_of(each.binding) for each in placed), microseconds(start_of(today))
    taken = sorted((step_of(each) for part in parts for each in part.decisions), key=lambda each: each.at_us)
    taken = [each for each in taken if each.at_us >= start_us]
    found = fleet_days(taken, wrong_now(placed), existing, today, begun_us)
    week = [today - timedelta(days=number) for number in range(7)]
    assert [each.date for each in found] == [each for each in week if each == today or each in seen]
    for day, expected in zip(found, [_wrong(scheduling), *(seen[each.date] for each in found[1:])], strict=True):
        assert (day.nowhere, day.short, day.not_preferred, day.moving) == expected, day.date
    assert sum(sum(day.outcomes.values()) for day in found) == len(taken)


def _read(url, read):
    store = opened(url)
    try:
        found = list(decided(store, 0, read))
    finally:
        store.close()
    read |= {each.segment: each.read for each in found}
    return found


def _wrong(scheduling):
    """Count the bindings as they are, without the ledger."""
    bindings = scheduling.bindings.values()
    rows = [placed_workload(each) for each in bindings]
    return (
        sum(each.state is WorkloadState.NOWHERE for each in rows),
        sum(each.state is WorkloadState.SHORT for each in rows),
        sum(each.preferred is False for each in rows),
        sum(move.under_way for move in map(move_of, bindings) if move is not None),
    )


FLEETS = draws.fleets(min_size=2, max_size=6)
HISTORIES = st.lists(steps(), min_size=3, max_size=25)


def check_replay(url, fleet, history):
    """Record a history in an empty ledger. A replay must give every decision, byte for byte."""
    clock, bounds = FakeClock(), {"now": None}
    recorder = recorder_at(url, clock)
    scheduling = Scheduling(recorder, clock, lambda _query: bounds["now"])
    _run(scheduling, recorder, [("cluster", fleet), *history], bounds)
    recorder.finish()
    if not scheduling.recorded:
        return
    store = opened(url)
    try:
        replayed = list(replay(store, *all_times()))
        problems = audit(store).problems
    finally:
        store.close()
    assert problems == []
    assert len(replayed) == len(scheduling.recorded)
    for one, record in zip(replayed, scheduling.recorded, strict=True):
        assert one.past.outcome == record.outcome
        assert one.same
