"""Moves of the binding scheduler under the modelled Karmada: healthy replicas never drop, and every move ends."""

from typing import Any

import pytest
from karmada_model.stage import Stage
from karmada_plane import cluster, deployment, policy, selector
from kube_store import JSON

from berthmaster.controllers.moves.config import MovesConfig, MoveSettings, SourceSettings
from berthmaster.controllers.settings import ControllerSettings
from berthmaster.model.decode import decode_json
from berthmaster.model.move import MOVE, MovePhase, MoveState

REPLICAS = 4
WEB = deployment("web", REPLICAS)
AFTER_S = 600
TOLERATION_S = 30.0
SETTINGS = ControllerSettings(failover="not-ready", failover_toleration_s=TOLERATION_S)
ON = MovesConfig(
    defaults=MoveSettings(failback=SourceSettings("On", AFTER_S, 10), drain=SourceSettings("On", 0, 0), soak_s=60)
)
DYNAMIC = {
    "replicaSchedulingType": "Divided",
    "replicaDivisionPreference": "Weighted",
    "weightPreference": {"dynamicWeight": "AvailableReplicas"},
}
STATIC = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}
DUPLICATED = {"replicaSchedulingType": "Duplicated"}


class Play:
    """A stage with one workload, watched while time passes.

    Attributes:
        stage: the control plane.
        lowest: the smallest number of healthy replicas since ``watch``.
        phases: the phases of moves that were seen, each once in a row.
    """

    def __init__(self, groups: dict[str, list[str]], strategy: JSON, *, moves: MovesConfig = ON, **spec: Any) -> None:
        names = sorted({name for each in groups.values() for name in each})
        terms = [{"affinityName": name, "clusterNames": each} for name, each in groups.items()]
        held = policy(
            "p",
            selector(name="web"),
            schedulerName="berthmaster",
            placement={"clusterAffinities": terms, "replicaScheduling": strategy},
            **spec,
        )
        self.policy = held
        self.stage = Stage(*(cluster(name) for name in names), held, WEB, settings=SETTINGS, moves=moves)
        self.lowest = REPLICAS
        self.phases: list[str] = []
        self.run(60)
        assert self.healthy == REPLICAS * (len(self.clusters) if strategy is DUPLICATED else 1)

    @property
    def clusters(self) -> dict[str, int]:
        return self.stage.assignment(WEB)

    @property
    def healthy(self) -> int:
        return sum(self.stage.model.members.healthy(WEB).values())

    @property
    def move(self) -> MoveState | None:
        text = (self.stage.binding(WEB) or {})["metadata"]["annotations"].get(MOVE)
        return None if text is None else decode_json(MoveState, text)

    @property
    def events(self) -> list[str]:
        assert self.stage.scheduler is not None
        recorded = self.stage.scheduler.recorder.events
        return [
            each.reason for each in recorded if each.reason.startswith("Move") and each.regarding.kind != "Deployment"
        ]

    def watch(self) -> None:
        self.lowest = self.healthy

    def run(self, seconds: float) -> None:
        """Let time pass in steps of five seconds, and look after each."""
        while seconds > 0:
            self.stage.run(min(5.0, seconds))
            seconds -= 5.0
            self.lowest = min(self.lowest, self.healthy)
            phase = self.move.phase.value if self.move is not None else "-"
            if self.phases[-1:] != [phase]:
                self.phases.append(phase)

    def drain(self, name: str) -> None:
        taint = {"key": "policy.berthmaster.io/draining", "effect": "NoSchedule"}
        self.stage.edit(cluster(name), spec={"taints": [taint]})

    def fail_over_and_back(self, name: str) -> None:
        """Lose a cluster until its workload has left, and bring it back."""
        self.stage.model.members.lose(name)
        self.run(150)
        self.stage.model.members.recover(name)
        self.run(30)
        self.watch()


def test_a_workload_returns_to_its_first_group_and_is_never_short_of_healthy_replicas():
    play = Play({"primary": ["m1"], "dr": ["m2"]}, STATIC)
    play.fail_over_and_back("m1")
    assert (play.clusters, play.move.phase) == ({"m2": 4}, MovePhase.STABILISING)
    play.run(AFTER_S - 60)
    assert play.clusters == {"m2": 4}, "before its time"
    play.phases.clear()
    play.run(200)
    assert play.phases == ["Stabilising", "Surging", "Soaking", "Released"]
    assert (play.clusters, play.lowest) == ({"m1": 4}, 4)
    assert play.events == ["MoveStarted", "MoveHealthy", "MoveReleased"]
    play.run(AFTER_S + 30)
    assert play.move is None, "the record is removed"
    assert play.stage.condition(WEB, "Moving") == {}


@pytest.mark.parametrize(
    ("groups", "strategy", "expected"),
    [
        pytest.param({"g": ["m1", "m2"]}, STATIC, {"m2": 4}, id="a part of a divided workload"),
        pytest.param({"g": ["m1"], "next": ["m2"]}, STATIC, {"m2": 4}, id="to the next group"),
        pytest.param({"g": ["m1"], "next": ["m2"]}, DUPLICATED, {"m2": 4}, id="a duplicated workload"),
        pytest.param({"g": ["m1", "m2", "m3"]}, DYNAMIC, None, id="by available replicas"),
    ],
)
def test_a_drained_cluster_is_left_without_a_gap(groups: dict[str, list[str]], strategy: JSON, expected: Any):
    play = Play(groups, strategy)
    play.watch()
    play.drain("m1")
    play.run(400)
    assert "m1" not in play.clusters
    assert expected is None or play.clusters == expected
    assert play.lowest >= REPLICAS
    assert play.move is not None
    assert play.move.phase is MovePhase.RELEASED
