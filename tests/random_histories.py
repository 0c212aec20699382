"""Random histories of fleets and bindings, and what their ledger must hold."""

import strategies as draws
from fake_clock import FakeClock
from hypothesis import strategies as st
from ledger_histories import Scheduling, all_times, of_shop, opened, recorder_at
from msgspec.structs import replace

from berthmaster.ledger.audit import audit
from berthmaster.ledger.replay import replay
from berthmaster.model.binding import WorkloadAffinityGroups

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
