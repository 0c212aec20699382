"""Answers from the ledger: history and replay."""

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest
from builders import cluster
from decisions import AGGREGATED, asked
from fake_clock import FakeClock
from ledger_histories import (
    CONFIGURATION,
    FAILOVER_AFTER_S,
    MOVES,
    Scheduling,
    all_times,
    filled,
    of_shop,
    opened,
    recorder_at,
    sqlite_url,
    wanted,
)
from tables import cases

from berthmaster.controllers.moves.drift_looks import ROUND_S
from berthmaster.deciding.config import MovesConfig
from berthmaster.deciding.move_settings import RebalanceSettings
from berthmaster.ledger import history
from berthmaster.ledger.reader import LedgerReader
from berthmaster.ledger.records import Query, RecordId
from berthmaster.ledger.replay import replay
from berthmaster.model.binding import WorkloadAffinityGroups
from berthmaster.model.cluster import AllocatableModeling
from berthmaster.model.errors import InputError, NotRecordedError
from berthmaster.model.meta import with_metadata, with_spec, with_status
from berthmaster.model.move import MOVE, MoveStrategy, annotation_of, move_of
from berthmaster.model.note import Note
from berthmaster.model.unsupported_placement import UnsupportedPlacement

GROUPS = [{"affinityName": "a", "clusterNames": ["a"]}, {"affinityName": "b", "clusterNames": ["b"]}]
KEY = "shop", "web-deployment"


class History:
    """A recorded history. ``check`` ends it and replays it.

    Attributes:
        url: the ledger.
        bounds: the answers of estimators; None asks none.
    """

    def __init__(
        self, url: str, config: MovesConfig = MOVES, failover_after_s: float | None = FAILOVER_AFTER_S
    ) -> None:
        self.clock = FakeClock()
        self.bounds: dict[str, int] | None = None
        self.url = url
        configuration = msgspec.structs.replace(CONFIGURATION, failover_after_s=failover_after_s)
        self._recorder = recorder_at(url, self.clock, configuration=configuration)
        self.scheduling = Scheduling(
            self._recorder, self.clock, lambda _query: self.bounds, config, failover_after_s=failover_after_s
        )

    def up(self, **cpu: int) -> None:
        for name, cores in cpu.items():
            self.scheduling.clusters.update_cluster(cluster(name, cpu=cores, pods=110))

    def begin_a_failback(self) -> None:
        """Place a workload in its second group, and give its first group room for it."""
        self.up(a=1, b=20)
        self.scheduling.put(
            of_shop("web", asked(groups=GROUPS, requests={"cpu": 1}, replicas=4, scheduling=AGGREGATED))
        )
        self.up(a=20)

    def pass_by(self, seconds: int) -> None:
        """Let time pass. Members report every five seconds, and the scheduler looks."""
        for _ in range(seconds // 5):
            self.clock.pass_by(5)
            self.scheduling.report(*KEY)
            self.scheduling.reconcile(*KEY)

    def check(self, decisions: int) -> list:
        self._recorder.finish()
        store = opened(self.url)
        replayed = list(replay(store, *all_times()))
        store.close()
        assert [each.same for each in replayed] == [True] * decisions
        return [each.past for each in replayed]


@pytest.fixture
def run(tmp_path) -> History:
    return History(sqlite_url(tmp_path))


@cases("failover_after_s", {"with-failover": FAILOVER_AFTER_S, "without-failover": None})
@pytest.mark.parametrize("strategy", MoveStrategy)
def test_a_move_that_ends(tmp_path, strategy, failover_after_s):
    config = replace(MOVES, defaults=replace(MOVES.defaults, strategy=strategy, deadline_s=120))
    history = History(sqlite_url(tmp_path), config, failover_after_s)
    history.begin_a_failback()
    history.pass_by(120)
    assert history.scheduling.bindings[KEY].assignment == {"a": 4}
    found = history.check(len(history.scheduling.recorded))
    steps = [each.outcome.event.partition(" ")[0].removesuffix(":") for each in found if each.outcome.event]
    assert (steps[0], steps[-1]) == ("MoveStarted", "MoveReleased")
    assert any(each.entry.moves.admissions for each in found)
    reader = LedgerReader(history.url)
    for row in reader.page(Query(decisions_only=True), 500).rows:
        explained = reader.explain(RecordId(*map(int, row.id.split(".")))).explanation
        assert explained.present == row.after, "both copies of a move under way, and none before the new ones start"


@cases("failover_after_s", {"with-failover": FAILOVER_AFTER_S, "without-failover": None})
def test_a_move_that_fails_because_its_cluster_is_not_ready(tmp_path, failover_after_s):
    history = History(sqlite_url(tmp_path), failover_after_s=failover_after_s)
    history.begin_a_failback()
    history.pass_by(10)
    history.scheduling.clusters.update_cluster(cluster("a", cpu=20, pods=110, ready=False))
    history.pass_by(45)
    found = history.check(len(history.scheduling.recorded))
    assert any("its cluster is not ready" in each.outcome.event for each in found)


def test_a_rebalance_of_replicas_that_do_not_run(tmp_path):
    config = replace(MOVES, defaults=replace(MOVES.defaults, rebalance=RebalanceSettings("On", 0)))
    replayed = History(sqlite_url(tmp_path), config)
    replayed.up(a=10, b=9)
    replayed.scheduling.put(wanted("web", replicas=4))
    replayed.scheduling.report(*KEY)
    binding = replayed.scheduling.bindings[KEY]
    [item] = binding.status.aggregated_status
    three = msgspec.structs.replace(item, status={"replicas": 4, "readyReplicas": 3})
    replayed.scheduling.bindings[KEY] = with_status(binding, aggregated_status=(three,))
    replayed.bounds = {"a": 1}
    for _ in range(2):
        replayed.clock.pass_by(ROUND_S)
        replayed.scheduling.moves.looks.next(lambda: [KEY], lambda _: True)
    replayed.scheduling.reconcile(*KEY)
    found = replayed.check(2)[-1]
    assert found.entry.moves.stuck == {"a": 1}
    assert found.outcome.event == "MoveStarted: Rebalance: a:4 -> a:3, b:1"


def test_a_decision_that_needs_works_which_are_not_on_record_differs(run):
    """The move that waited then begins in another version, or with another binding."""
    run.begin_a_failback()
    run.pass_by(10)
    begun = run.check(len(run.scheduling.recorded))[-1].binding
    move = move_of(begun)
    annotation = annotation_of(msgspec.structs.replace(move, since=move.since - timedelta(hours=1)))
    waited_long = with_metadata(begun, annotations={**begun.metadata.annotations, MOVE: annotation})
    store = opened(run.url)
    replayed = list(replay(store, *all_times(), rewrite=lambda past: waited_long if past.binding.assignment else None))
    store.close()
    assert [each.same for each in replayed] == [False, True]


def test_a_decision_without_a_move_records_no_status_of_members(run):
    run.up(a=10)
    run.scheduling.put(wanted("web", replicas=2))
    run.pass_by(5)
    binding = run.scheduling.bindings[KEY]
    run.scheduling.put(with_spec(binding, replicas=3))
    assert run.scheduling.recorded[-1].binding.status.aggregated_status
    assert not run.check(2)[-1].binding.status.aggregated_status


def test_a_decision_is_explained_from_the_group_of_its_assignment_although_the_status_was_stale(run):
    run.up(a=1, b=20)
    run.scheduling.put(of_shop("web", asked(groups=GROUPS, requests={"cpu": 1}, replicas=4, scheduling=AGGREGATED)))
    stale = with_status(run.scheduling.bindings[KEY], scheduler_observing_affinity_name="")
    run.scheduling.put(with_spec(stale, replicas=5))
    last = run.check(2)[-1]
    explained = LedgerReader(run.url).explain(RecordId(last.segment, last.entry.sequence))
    assert [each.group for each in explained.explanation.diagnosis.groups] == ["b"]


def test_answers_of_estimators(run):
    run.up(a=10, b=10)
    run.bounds = {"a": 1, "b": 3, "unknown": 7}
    run.scheduling.put(wanted("web", replicas=4))
    [past] = run.check(1)
    assert past.outcome.clusters == {"a": 1, "b": 3}
    assert past.bounds == run.bounds


def test_peers_of_an_affinity_group(run):
    run.up(a=10, b=10)
    for name in ("one", "two"):
        run.scheduling.put(with_spec(wanted(name), workload_affinity_groups=WorkloadAffinityGroups("", "app=x")))
    found = run.check(2)
    assert found[1].peers == {("anti-affinity", "app=x"): {"one-deployment": frozenset(found[0].outcome.clusters)}}
    assert found[0].outcome.clusters.keys() != found[1].outcome.clusters.keys()


def test_failover(run):
    run.up(a=10, b=9)
    run.scheduling.put(wanted("web", replicas=2))
    run.scheduling.clusters.update_cluster(cluster("a", cpu=10, pods=110, ready=False))
    run.clock.pass_by(61)
    run.scheduling.reconcile("shop", "web-deployment")
    found = run.check(2)
    assert found[1].outcome.clusters == {"b": 2}
    assert found[1].unready_since_s.keys() == {"a"}


def test_a_placement_with_unknown_parts(run):
    run.up(a=10)
    binding = wanted("web")
    fields = {name: getattr(binding.spec.placement, name) for name in binding.spec.placement.__struct_fields__}
    placement = UnsupportedPlacement(**fields, unsupported=("spec.placement.new: unknown field",))
    run.scheduling.put(with_spec(binding, placement=placement))
    [past] = run.check(1)
    assert past.outcome.reason == "UnsupportedPlacement"


def test_clusters_with_resource_models(run):
    models = [{"cpu": 1, "memory": "1Gi"}, {"cpu": 8, "memory": "32Gi"}]
    modeled = cluster("a", cpu=100, memory="400Gi", pods=500, models=models)
    counts = (AllocatableModeling(0, 3), AllocatableModeling(1, 2))
    summary = msgspec.structs.replace(modeled.status.resource_summary, allocatable_modelings=counts)
    run.scheduling.clusters.update_cluster(with_status(modeled, resource_summary=summary))
    for number in range(3):
        run.scheduling.put(wanted(f"w{number}", replicas=3))
    assert [each.outcome.clusters for each in run.check(3)] == [{"a": 3}] * 3


WEB = Query("shop", "Deployment", "web")


@pytest.fixture(scope="module")
def ledger(tmp_path_factory) -> LedgerReader:
    """Decision 1.1 places web on m1; m1 fails, and decision 1.2 moves it to m2."""
    url, clock = sqlite_url(tmp_path_factory.mktemp("ledger")), FakeClock()
    recorder = recorder_at(url, clock)
    scheduling = Scheduling(recorder, clock)
    for name, cpu in (("m1", 9), ("m2", 8), ("m3", 5)):
        scheduling.clusters.update_cluster(cluster(name, cpu=cpu))
    scheduling.put(wanted("web", replicas=4))
    scheduling.clusters.update_cluster(cluster("m1", cpu=9, ready=False))
    clock.pass_by(FAILOVER_AFTER_S + 1)
    scheduling.reconcile("shop", "web-deployment")
    recorder.finish()
    return LedgerReader(url)


@pytest.mark.parametrize("which", [RecordId(1, 2), WEB])
def test_a_decision_is_explained_by_its_id_and_as_the_latest_of_a_workload(ledger, which):
    found = ledger.explain(which, difference=True)
    assert (found.record.id, found.record.trigger, found.reproduced) == ("1.2", "Failover", True)
    assert (found.record.before, found.record.after) == ({"m1": 4}, {"m2": 4})
    assert ("m1", "conditions") in {(each.subject, each.aspect) for each in found.difference.changes}


def test_the_first_decision_on_a_binding_has_no_difference(ledger):
    assert ledger.explain(RecordId(1, 1), difference=True).difference is None


def test_why_not_answers_for_a_failover_without_the_cluster_that_failed(ledger):
    answer = ledger.why_not(RecordId(1, 2), "m3")
    assert (["add 4 cpu to m3"] in answer.alternatives, answer.clusters) == (True, {"m2": 2, "m3": 2})
    assert ledger.why_not(RecordId(1, 2), "m2").taken


@pytest.mark.parametrize("which", [RecordId(1, 9), RecordId(9, 1), RecordId(1, 0), WEB._replace(name="other")])
def test_a_decision_that_is_not_recorded_is_named_as_such(ledger, which):
    for ask in (ledger.explain, lambda which: ledger.why_not(which, "m1")):
        with pytest.raises(NotRecordedError, match="the ledger has no"):
            ask(which)


def test_a_cluster_that_the_fleet_did_not_have_is_refused(ledger):
    with pytest.raises(InputError, match="there is no cluster 'm9'; known are m1, m2, m3"):
        ledger.why_not(WEB, "m9")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    url = sqlite_url(tmp_path_factory.mktemp("ledger"))
    filled(url, segments=2, decisions=15)
    store = opened(url)
    yield store
    store.close()


@cases("rare", {"in many batches": 0, "in few batches": 500})
@pytest.mark.parametrize("cluster", ["m1", "m2", "none"])
def test_pages_of_a_cluster_hold_each_record_that_changes_it_once(store, monkeypatch, cluster, rare):
    monkeypatch.setattr(history, "_RARE_BATCHES", rare)
    everything = history.page(store, Query(), 1000).rows
    expected = [
        row.id for row in everything
        if row.after is not None and row.after.get(cluster) != (row.before or {}).get(cluster)
    ]  # fmt: skip
    found, after = [], None
    while True:
        page = history.page(store, Query(cluster=cluster), 3, after)
        found += [row.id for row in page.rows]
        if page.after is None:
            break
        after = RecordId.parse(found[-1])
    assert found == expected
    assert bool(expected) is (cluster != "none")


def test_pages_of_what_moved_go_on_after_many_records_that_moved_nothing(store, monkeypatch):
    monkeypatch.setattr(history, "_MOST_SKIPPED", 1)
    rows = history.page(store, Query(), 1000).rows
    expected = [row.id for row in rows if row.kind == "decision" and (row.before != row.after or row.evicted_from)]
    found, after, pages = [], None, 0
    while True:
        page = history.page(store, Query(moves_only=True), 4, after)
        found += [row.id for row in page.rows]
        pages += 1
        if page.after is None:
            break
        after = page.after
    assert found == expected
    assert 0 < len(expected) < len(rows)
    assert pages > len(expected) / 4


@pytest.mark.parametrize("namespaces", [frozenset({"shop"}), frozenset({"-"}), frozenset()])
def test_records_of_some_namespaces(store, namespaces):
    rows = history.page(store, Query(), 1000).rows
    expected = [row.id for row in rows if (row.namespace or "-") in namespaces]
    assert [row.id for row in history.page(store, Query(namespaces=namespaces), 1000).rows] == expected


def test_written_records_are_found_once_whatever_times_they_have(tmp_path, monkeypatch):
    monkeypatch.setattr(history, "_MOST_WRITTEN", 2)
    clock, url = FakeClock(), sqlite_url(tmp_path)
    first, other = (recorder_at(url, clock, writer=writer, alone=False) for writer in ("first", "other"))
    store = opened(url)
    known = history.written(store)
    found = []

    def poll():
        nonlocal known
        rows, known = history.written_since(store, Query(trigger="gap"), known)
        found.append([row.message for row in rows])

    for recorder, names in ((first, ["a"]), (first, ["b", "before a"]), (other, ["of another process"])):
        for name in names:
            clock.skew_s = -60 if name.startswith("before") else 0
            recorder.noted(Note("gap", name))
        recorder.flush()
        poll()
    for _ in range(3):
        poll()
    store.close()
    assert sorted(message for rows in found for message in rows) == ["a", "b", "before a", "of another process"]
    assert found[-1] == []
