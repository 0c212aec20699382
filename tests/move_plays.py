"""A workload on a stage, watched while it moves: for tests of moves on the model of Karmada."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from decisions import DUPLICATED
from faults import Fault
from karmada_model.model import Settings
from karmada_model.stage import Stage
from karmada_plane import cluster, deployment, policy, selector
from kube_store import JSON

from berthmaster.controllers.settings import ControllerSettings
from berthmaster.deciding.config import MovesConfig
from berthmaster.deciding.move_settings import MoveSettings, SourceSettings
from berthmaster.kube.requests import APIRequest
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import ApiError
from berthmaster.model.move import MOVE, MovePhase, MoveState, MoveStrategy

REPLICAS = 4
WEB = deployment("web", REPLICAS)
STATEFUL = {**WEB, "kind": "StatefulSet"}
AFTER_S = 600
TOLERATION_S = 30.0
STAYS = ControllerSettings()
"""Without failover: a lost cluster keeps its copies."""
LIMIT = 1000
"""The most steps until a move is in a phase."""
SETTINGS = ControllerSettings(failover="not-ready", failover_toleration_s=TOLERATION_S)
ON = MovesConfig(
    defaults=MoveSettings(failback=SourceSettings("On", AFTER_S, 10), drain=SourceSettings("On", 0, 0), soak_s=60)
)
STATIC = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}


class Play:
    """A stage with one workload, watched while time passes.

    Attributes:
        stage: the control plane.
        lowest: the smallest number of healthy replicas since ``watch``.
        phases: the phases of moves that were seen, each once in a row.
    """

    def __init__(
        self,
        groups: dict[str, list[str]],
        strategy: JSON,
        *,
        moves: MovesConfig = ON,
        template: JSON = WEB,
        claim: JSON | None = None,
        karmada: Settings | None = None,
        sends: bool = True,
        settings: ControllerSettings = SETTINGS,
        **spec: Any,
    ) -> None:
        """Place the workload.

        ``claim``: a PersistentVolumeClaim that exists from the start. ``sends``: whether Karmada writes Works, from the
        start.
        """
        self.template = template
        names = sorted({name for each in groups.values() for name in each})
        held = policy(
            "p",
            selector(template["kind"], template["apiVersion"], name="web"),
            schedulerName="berthmaster",
            placement={"clusterAffinities": terms_of(groups), "replicaScheduling": strategy},
            **spec,
        )
        self.policy = held
        stored = [*(cluster(name) for name in names), held, *([] if claim is None else [claim]), self.template]
        self.stage = Stage(*stored, settings=settings, moves=moves, karmada=karmada)
        self.stage.model.hold(*([] if sends else ["bindings"]))
        self.lowest = REPLICAS
        self.phases: list[str] = []
        self.run(60)
        starts = REPLICAS if sends else 0
        assert self.healthy == starts * (len(self.clusters) if strategy is DUPLICATED else 1)

    @property
    def clusters(self) -> dict[str, int]:
        return self.stage.assignment(self.template)

    @property
    def healthy(self) -> int:
        return sum(self.stage.model.members.healthy(self.template).values())

    @property
    def move(self) -> MoveState | None:
        text = (self.stage.binding(self.template) or {})["metadata"]["annotations"].get(MOVE)
        return None if text is None else decode_json(MoveState, text)

    @property
    def events(self) -> list[str]:
        recorded = self.stage.scheduler.recorder.events
        kind = self.template["kind"]
        return [each.reason for each in recorded if each.reason.startswith("Move") and each.regarding.kind != kind]

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

    def until(self, phase: MovePhase, step_s: float = 1.0) -> None:
        for _ in range(LIMIT):
            if self.move is not None and self.move.phase is phase:
                return
            self.run(step_s)
        raise AssertionError(self.move)

    def drain(self, name: str) -> None:
        taint = {"key": "policy.berthmaster.io/draining", "effect": "NoSchedule"}
        self.stage.edit(cluster(name), spec={"taints": [taint]})

    def place(self, groups: dict[str, list[str]], **more: Any) -> None:
        """Edit the groups of the policy, and more of its placement."""
        placement = {**self.policy["spec"]["placement"], "clusterAffinities": terms_of(groups), **more}
        self.stage.apply({**self.policy, "spec": {**self.policy["spec"], "placement": placement}})

    def amend(self, **spec: Any) -> None:
        """Edit the policy; None removes a field."""
        changed = {**self.policy["spec"], **spec}
        self.policy = {**self.policy, "spec": {key: each for key, each in changed.items() if each is not None}}
        self.stage.apply(self.policy)

    def fill(self, name: str) -> None:
        """Let a cluster have no room for further replicas."""
        self.stage.edit(cluster(name), status={"resourceSummary": {"allocatable": {"cpu": "0", "pods": "0"}}})

    def fail_over_and_back(self, name: str) -> None:
        """Lose a cluster until its workload has left, and bring it back."""
        self.stage.model.members.lose(name)
        self.run(150)
        self.stage.model.members.recover(name)
        self.run(30)
        self.watch()


def terms_of(groups: dict[str, list[str]]) -> list[JSON]:
    return [{"affinityName": name, "clusterNames": clusters} for name, clusters in groups.items()]


def refuse_if(refused: Callable[[dict[str, int]], bool]) -> Fault:
    """Return a fault that refuses such assignments, as a quota does."""

    def before(request: APIRequest) -> None:
        body = json.loads(request.body) if request.body else {}
        clusters = (body.get("spec") or {}).get("clusters") or ()
        if refused({each["name"]: each.get("replicas", 0) for each in clusters}):
            raise ApiError(403, "QuotaExceeded", "exceeds the quota")

    return before


def draining(until: MovePhase | None = None, **config: Any) -> Play:
    """Return a play whose workload leaves its cluster m1 for m2, in a phase of its move."""
    play = Play({"g": ["m1"], "next": ["m2"]}, STATIC, **config)
    play.watch()
    play.drain("m1")
    if until is not None:
        play.until(until)
    return play


BREAK = replace(ON, defaults=replace(ON.defaults, strategy=MoveStrategy.BREAK_BEFORE_MAKE))


class Twice:
    """Records whether a workload ever ran in two clusters."""

    def __init__(self, play: Play) -> None:
        self.play = play
        self.seen = False

    def run(self, seconds: float) -> None:
        while seconds > 0:
            self.play.run(1.0)
            seconds -= 1.0
            self.seen |= len(self.play.stage.model.members.running(self.play.template)) > 1
