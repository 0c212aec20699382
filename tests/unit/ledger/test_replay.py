"""A recorded decision is decided again with all that it read: moves, estimators, peers, failover, unknown parts."""

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
    of_shop,
    opened,
    recorder_at,
    sqlite_url,
    wanted,
)

from berthmaster.deciding.config import MovesConfig
from berthmaster.ledger.reader import LedgerReader
from berthmaster.ledger.records import Query, RecordId
from berthmaster.ledger.replay import replay
from berthmaster.model.binding import WorkloadAffinityGroups
from berthmaster.model.cluster import AllocatableModeling
from berthmaster.model.move import MOVE, MoveStrategy, annotation_of, move_of
from berthmaster.model.unsupported import UnsupportedPlacement

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
def history(tmp_path) -> History:
    return History(sqlite_url(tmp_path))


@pytest.mark.parametrize("failover_after_s", [FAILOVER_AFTER_S, None], ids=["with-failover", "without-failover"])
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


@pytest.mark.parametrize("failover_after_s", [FAILOVER_AFTER_S, None], ids=["with-failover", "without-failover"])
def test_a_move_that_fails_because_its_cluster_is_not_ready(tmp_path, failover_after_s):
    history = History(sqlite_url(tmp_path), failover_after_s=failover_after_s)
    history.begin_a_failback()
    history.pass_by(10)
    history.scheduling.clusters.update_cluster(cluster("a", cpu=20, pods=110, ready=False))
    history.pass_by(45)
    found = history.check(len(history.scheduling.recorded))
    assert any("its cluster is not ready" in each.outcome.event for each in found)


def test_a_decision_that_needs_works_which_are_not_on_record_differs(history):
    """The move that waited then begins in another version, or with another binding."""
    history.begin_a_failback()
    history.pass_by(10)
    begun = history.check(len(history.scheduling.recorded))[-1].binding
    move = move_of(begun)
    annotation = annotation_of(msgspec.structs.replace(move, since=move.since - timedelta(hours=1)))
    annotations = {**begun.metadata.annotations, MOVE: annotation}
    metadata = msgspec.structs.replace(begun.metadata, annotations=annotations)
    waited_long = msgspec.structs.replace(begun, metadata=metadata)
    store = opened(history.url)
    replayed = list(replay(store, *all_times(), rewrite=lambda past: waited_long if past.binding.assignment else None))
    store.close()
    assert [each.same for each in replayed] == [False, True]


def test_a_decision_without_a_move_records_no_status_of_members(history):
    history.up(a=10)
    history.scheduling.put(wanted("web", replicas=2))
    history.pass_by(5)
    binding = history.scheduling.bindings[KEY]
    history.scheduling.put(msgspec.structs.replace(binding, spec=msgspec.structs.replace(binding.spec, replicas=3)))
    assert history.scheduling.recorded[-1].binding.status.aggregated_status
    assert not history.check(2)[-1].binding.status.aggregated_status


def test_answers_of_estimators(history):
    history.up(a=10, b=10)
    history.bounds = {"a": 1, "b": 3, "unknown": 7}
    history.scheduling.put(wanted("web", replicas=4))
    [past] = history.check(1)
    assert past.outcome.clusters == {"a": 1, "b": 3}
    assert past.bounds == history.bounds


def test_assumed_replicas(history):
    history.up(a=10, b=9)
    for number in range(4):
        history.scheduling.put(wanted(f"w{number}", replicas=4))
    found = history.check(4)
    assert [each.outcome.clusters for each in found] == [{"a": 4}, {"b": 4}, {"a": 4}, {"b": 4}]


def test_peers_of_an_affinity_group(history):
    history.up(a=10, b=10)
    for name in ("one", "two"):
        binding = wanted(name)
        spec = msgspec.structs.replace(binding.spec, workload_affinity_groups=WorkloadAffinityGroups("", "app=x"))
        history.scheduling.put(msgspec.structs.replace(binding, spec=spec))
    found = history.check(2)
    assert found[1].peers == {("anti-affinity", "app=x"): {"one-deployment": frozenset(found[0].outcome.clusters)}}
    assert found[0].outcome.clusters.keys() != found[1].outcome.clusters.keys()


def test_failover(history):
    history.up(a=10, b=9)
    history.scheduling.put(wanted("web", replicas=2))
    history.scheduling.clusters.update_cluster(cluster("a", cpu=10, pods=110, ready=False))
    history.clock.pass_by(61)
    history.scheduling.reconcile("shop", "web-deployment")
    found = history.check(2)
    assert found[1].outcome.clusters == {"b": 2}
    assert found[1].unready_since_s.keys() == {"a"}


def test_a_placement_with_unknown_parts(history):
    history.up(a=10)
    binding = wanted("web")
    fields = {name: getattr(binding.spec.placement, name) for name in binding.spec.placement.__struct_fields__}
    placement = UnsupportedPlacement(**fields, unsupported=("spec.placement.new: unknown field",))
    history.scheduling.put(
        msgspec.structs.replace(binding, spec=msgspec.structs.replace(binding.spec, placement=placement))
    )
    [past] = history.check(1)
    assert past.outcome.reason == "UnsupportedPlacement"


def test_clusters_with_resource_models(history):
    models = [{"cpu": 1, "memory": "1Gi"}, {"cpu": 8, "memory": "32Gi"}]
    modeled = cluster("a", cpu=100, memory="400Gi", pods=500, models=models)
    counts = [{"grade": 0, "count": 3}, {"grade": 1, "count": 2}]
    summary = modeled.status.resource_summary
    summary = msgspec.structs.replace(
        summary, allocatable_modelings=tuple(AllocatableModeling(**each) for each in counts)
    )
    status = msgspec.structs.replace(modeled.status, resource_summary=summary)
    history.scheduling.clusters.update_cluster(msgspec.structs.replace(modeled, status=status))
    for number in range(3):
        history.scheduling.put(wanted(f"w{number}", replicas=3))
    assert [each.outcome.clusters for each in history.check(3)] == [{"a": 3}] * 3


def test_clusters_that_come_and_go(history):
    history.up(a=10, b=9)
    history.scheduling.put(wanted("one"))
    history.scheduling.clusters.remove_cluster("a")
    history.up(c=30)
    history.scheduling.put(wanted("two"))
    history.scheduling.clusters.remove_cluster("b")
    history.scheduling.put(wanted("three"))
    assert [each.outcome.clusters for each in history.check(3)] == [{"a": 1}, {"c": 1}, {"c": 1}]
