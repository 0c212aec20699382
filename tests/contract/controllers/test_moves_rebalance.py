"""Rebalancing under the modelled Karmada: drift is repaired with few moves, and healthy replicas never drop."""

from dataclasses import replace
from typing import Any

import pytest
from decisions import AGGREGATED, DYNAMIC
from karmada_model.members import Delays
from karmada_model.model import Settings
from karmada_model.stage import Stage
from karmada_plane import cluster, deployment, policy, selector
from kube_store import JSON
from move_plays import ON, SETTINGS, STATIC, WEB, Play

from berthmaster.controllers.estimators.messages import unschedulable_question
from berthmaster.controllers.estimators.queries import EstimatorQuery
from berthmaster.deciding.budgets import Budget
from berthmaster.deciding.config import MovesConfig
from berthmaster.deciding.move_settings import RebalanceSettings
from berthmaster.model.binding import REBALANCE
from berthmaster.model.decode import decode_json
from berthmaster.model.move import MOVE, MovePhase, MoveReason, MoveState

HOUR_S = 3600
BOTH = {"g": ["m1", "m2"]}
REPORTING = Settings(reports_resources=True, delays=Delays(terminate_s=25.0))


def rebalancing(mode: Any = "On", after_s: int = 0, **settings: Any) -> MovesConfig:
    return replace(ON, defaults=replace(ON.defaults, rebalance=RebalanceSettings(mode, after_s, **settings)))


def resize(stage: Stage, name: str, cpu: int) -> None:
    stage.edit(cluster(name), status={"resourceSummary": {"allocatable": {"cpu": str(cpu)}}})


def starts(stage: Stage) -> list[str]:
    """Return the workloads of the moves that have begun, in order."""
    events = stage.scheduler.recorder.events
    return [
        each.regarding.name for each in events if each.reason == "MoveStarted" and each.regarding.kind != "Deployment"
    ]


def drifting(moves: MovesConfig, strategy: JSON = DYNAMIC) -> Play:
    """Return a workload with 2 of 4 replicas on a cluster that has almost no capacity left."""
    play = Play(BOTH, strategy, moves=moves)
    resize(play.stage, "m2", 2)
    play.watch()
    return play


def test_drift_that_lasts_is_repaired_and_healthy_replicas_never_drop():
    play = drifting(rebalancing(after_s=600))
    play.run(540)
    assert (play.clusters, play.move.phase, play.move.reason) == (
        {"m1": 2, "m2": 2}, MovePhase.STABILISING, MoveReason.REBALANCE,
    )  # fmt: skip
    play.phases.clear()
    play.run(240)
    assert play.phases == ["Stabilising", "Surging", "Soaking", "Released"]
    assert (play.clusters, play.lowest) == ({"m1": 3, "m2": 1}, 4)
    play.run(HOUR_S)
    assert (play.move, len(starts(play.stage))) == (None, 1), "the record is removed, and nothing else moves"


@pytest.mark.parametrize(
    ("moves", "phase"),
    [
        pytest.param(ON, None, id="Off is the default"),
        pytest.param(rebalancing("DryRun"), MovePhase.ELIGIBLE, id="DryRun only reports"),
        pytest.param(rebalancing(min_gain_percent=51), None, id="a move that gains too little"),
        pytest.param(rebalancing(tolerance_percent=1000), None, id="shares within the tolerance"),
    ],
)
def test_a_workload_that_must_stay_stays(moves: MovesConfig, phase: MovePhase | None):
    play = drifting(moves)
    play.run(HOUR_S)
    assert (play.clusters, starts(play.stage)) == ({"m1": 2, "m2": 2}, [])
    assert (play.move.phase if play.move is not None else None) is phase


def test_drift_that_does_not_last_moves_nothing():
    play = Play(BOTH, DYNAMIC, moves=rebalancing(after_s=600))
    for _ in range(12):
        resize(play.stage, "m2", 2)
        play.run(300)
        resize(play.stage, "m2", 100)
        play.run(60)
    assert (play.clusters, starts(play.stage)) == ({"m1": 2, "m2": 2}, [])


def several(
    count: int, replicas: int, strategy: JSON, *clusters: str, moves: MovesConfig, karmada: Settings | None = None
) -> tuple[Stage, list[JSON]]:
    """Return a stage with several workloads after a minute, and these workloads."""
    policies = [policy(f"p{i}", selector("Deployment", name=f"w{i}"), schedulerName="berthmaster",
                       placement={"replicaScheduling": strategy}) for i in range(count)]  # fmt: skip
    workloads = [deployment(f"w{i}", replicas) for i in range(count)]
    stage = Stage(*map(cluster, clusters), *policies, *workloads, settings=SETTINGS, moves=moves, karmada=karmada)
    stage.run(60)
    return stage, workloads


def test_capacities_that_swing_every_minute_cause_at_most_two_moves_of_a_workload_in_an_hour():
    stage, _ = several(4, 8, DYNAMIC, "m1", "m2", moves=replace(rebalancing(), budgets=()))
    begun: list[tuple[str, int]] = []
    for minute in range(3 * 60):
        resize(stage, "m1", 100 if minute % 2 else 10)
        resize(stage, "m2", 10 if minute % 2 else 100)
        stage.run(60)
        begun += [(name, minute) for name in starts(stage)[len(begun) :]]
        lately = [name for name, at in begun if at > minute - 60]
        assert max(map(lately.count, lately), default=0) <= 2, begun
    assert begun, "the capacities swing enough to move something"


def test_a_cluster_that_joins_is_filled_within_the_budget():
    moves = replace(rebalancing(tolerance_percent=0), budgets=(Budget("one", max_moves=1),))
    stage, workloads = several(3, 4, STATIC, "m1", moves=moves)
    stage.put(cluster("m2"))
    for _ in range(120):
        stage.run(10)
        under_way = [move for each in workloads if (move := _move(stage, each)) is not None and move.under_way]
        assert len(under_way) <= 1
        assert all(sum(stage.model.members.healthy(each).values()) >= 4 for each in workloads)
    assert [stage.assignment(each) for each in workloads] == [{"m1": 2, "m2": 2}] * 3


@pytest.mark.parametrize("terminate_s", [0.0, 25.0])
@pytest.mark.parametrize("limit", [1, 3, 9])
@pytest.mark.parametrize(
    ("replicas", "cpus", "wanted"),
    [
        pytest.param(4, {"m1": 20, "m2": 20}, range(15, 19), id="another cluster joins"),
        pytest.param(4, {"m1": 20, "m2": 6}, range(6, 8), id="seven replicas are needed in a small cluster"),
        pytest.param(4, {"m1": 20, "m2": 5}, range(4, 8), id="a small cluster joins"),
        pytest.param(2, {"m1": 9, "m2": 5}, range(3, 7), id="a small cluster joins a full one"),
    ],
)
def test_workloads_that_move_together_take_no_more_than_they_need(
    replicas: int, cpus: dict[str, int], wanted: range, limit: int, terminate_s: float
):
    """What leaves a cluster uses it until the end of its pods. The next workload counts on its end."""
    moves = replace(rebalancing(), budgets=(Budget("few", max_moves=limit),))
    reporting = Settings(reports_resources=True, delays=Delays(terminate_s=terminate_s))
    stage, workloads = several(9, replicas, DYNAMIC, "m1", moves=moves, karmada=reporting)
    resize(stage, "m1", cpus["m1"])
    stage.put(cluster("m2", cpu=cpus["m2"]))
    most = 0
    for _ in range(240):
        stage.run(30)
        most = max(most, sum(stage.assignment(each).get("m2", 0) for each in workloads))
    begun = starts(stage)
    assert most in wanted, most
    assert len(begun) == len(set(begun)), "no workload has moved twice"


def _move(stage: Stage, template: JSON) -> MoveState | None:
    text = (stage.binding(template) or {})["metadata"]["annotations"].get(MOVE)
    return None if text is None else decode_json(MoveState, text)


class Crowd:
    """A workload of which one of four replicas does not run on a cluster, and the estimators that say so.

    Attributes:
        asked: the clusters that were asked for unschedulable replicas.
    """

    def __init__(self, strategy: JSON = AGGREGATED, *, moves: MovesConfig | None = None, elsewhere: int = 100) -> None:
        self.play = play = Play(BOTH, strategy, moves=moves or rebalancing(after_s=300))
        self.asked: list[str] = []
        self.here = max(play.clusters, key=lambda name: (play.clusters[name], name))
        play.stage.scheduler.estimate(self._answer)
        resize(play.stage, "m1" if self.here == "m2" else "m2", elsewhere)
        members = play.stage.model.members
        members.crowd(self.here, "web", play.clusters[self.here] - 1)
        members.lose_pods(self.here, WEB, 1)
        play.run(10)
        play.watch()

    def _answer(self, query: EstimatorQuery) -> dict[str, int]:
        members = self.play.stage.model.members
        if query.encode is unschedulable_question:
            self.asked += query.clusters
            assert query.content[1] == 300
            return {name: members.unschedulable(WEB).get(name, 0) for name in query.clusters}
        return {name: room for name in query.clusters if (room := members.room(name, WEB)) is not None}


@pytest.mark.parametrize("strategy", [AGGREGATED, DYNAMIC], ids=["Aggregated", "by available replicas"])
def test_replicas_that_do_not_run_leave_their_cluster(strategy: JSON):
    crowd = Crowd(strategy)
    before, play = crowd.play.clusters, crowd.play
    play.run(300)
    assert (play.healthy, play.lowest) == (4, 3)
    assert play.clusters[crowd.here] == before[crowd.here] - 1
    assert (sum(play.clusters.values()), set(crowd.asked)) == (4, {crowd.here})
    play.run(3 * HOUR_S)
    assert (play.move, len(starts(play.stage))) == (None, 1), "they do not return"


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"strategy": STATIC}, id="static weights name the cluster"),
        pytest.param({"moves": ON}, id="rebalancing is off"),
        pytest.param({"moves": rebalancing("DryRun", 300)}, id="DryRun"),
        pytest.param({"elsewhere": 0}, id="they fit nowhere else"),
    ],
)
def test_replicas_that_do_not_run_stay(options: Any):
    crowd = Crowd(**options)
    before = crowd.play.clusters
    crowd.play.run(HOUR_S)
    assert (crowd.play.clusters, starts(crowd.play.stage)) == (before, [])


@pytest.mark.parametrize("karmada", [None, REPORTING], ids=["", "members report what pods use"])
@pytest.mark.parametrize("stuck", ["m1", "m2"])
def test_no_move_for_weights_counts_on_replicas_that_do_not_run(stuck: str, karmada: Settings | None):
    """It could not end: its new copies would never be healthy. The replica that does not run may leave."""
    play = Play(BOTH, DYNAMIC, moves=rebalancing(), karmada=karmada)
    play.stage.model.members.crowd(stuck, "web", 1)
    play.stage.model.members.lose_pods(stuck, WEB, 1)
    play.run(60)
    play.watch()
    resize(play.stage, "m2", 2)
    play.run(HOUR_S)
    if stuck == "m1":
        assert (play.clusters, starts(play.stage)) == ({"m1": 2, "m2": 2}, [])
    else:
        assert (play.clusters, play.healthy, len(starts(play.stage))) == ({"m1": 3, "m2": 1}, 4, 1)
    assert play.lowest == 3


def test_beside_a_descheduler_that_acts_first_a_workload_comes_to_rest():
    """karmada-descheduler lowers the number of replicas of a cluster to those that run."""
    crowd = Crowd()
    play, binding = crowd.play, crowd.play.stage.binding(WEB)
    assert binding is not None
    play.run(45)
    assert play.move.under_way
    lowered = [{**each, "replicas": 3} if each["name"] == crowd.here else each
               for each in (play.stage.binding(WEB) or {})["spec"]["clusters"]]  # fmt: skip
    play.stage.edit(binding, spec={"clusters": lowered})
    play.run(2 * HOUR_S)
    assert (play.healthy, play.lowest, sum(play.clusters.values())) == (4, 3, 4)
    assert (play.move, play.events.count("MoveAbandoned")) == (None, 1)


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        pytest.param({}, {"m1": 4}, id="as Karmada does"),
        pytest.param({REBALANCE: "minimal@2026-01-01T00:17:30Z"}, {"m1": 3, "m2": 1}, id="with the fewest moves"),
        pytest.param({REBALANCE: "minimal@2026-01-01T00:00:00Z"}, {"m1": 4}, id="a mark that is not the last"),
    ],
)
def test_a_requested_rescheduling(annotations: dict[str, str], expected: dict[str, int]):
    play = drifting(ON)
    binding = play.stage.binding(WEB)
    assert binding is not None
    marked = {"rescheduleTriggeredAt": "2026-01-01T00:17:30Z"}
    play.stage.edit(binding, metadata={"annotations": annotations}, spec=marked)
    play.run(30)
    assert (play.clusters, play.healthy) == (expected, 4)
