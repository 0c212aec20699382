"""Why a binding at rest should move, and when its estimators are asked."""

from datetime import timedelta
from typing import Any

import msgspec.structs
import pytest
from builders import binding, cluster, placement
from fake_clock import FakeClock
from fixed_control import FixedControl

from berthmaster.controllers.binding_scheduler.cluster_cache import ClusterCache
from berthmaster.controllers.estimators.estimators import EstimatorQuery
from berthmaster.controllers.moves.supervisor import MoveSupervisor
from berthmaster.deciding.admissions import Admissions
from berthmaster.deciding.budgets import Budgets
from berthmaster.deciding.config import MovesConfig, MoveSettings, SourceSettings
from berthmaster.deciding.failover import FailoverOptions
from berthmaster.deciding.writes import applied_placement
from berthmaster.model.binding import APPLIED_PLACEMENT, Binding, BindingStatus
from berthmaster.model.claims import MANAGED_BY
from berthmaster.model.move import DRAINING, MOVE, MovePhase, MoveReason, MoveState, annotation_of, move_of
from berthmaster.model.work import Copies
from berthmaster.scheduling.karmada.profile import karmada_profile

KEY = ("default", "nginx-deployment")
ON = MovesConfig(defaults=MoveSettings(failback=SourceSettings("On", 600, 10), drain=SourceSettings("On", 0, 0)))
PLACEMENT = placement(
    clusterAffinities=[
        {"affinityName": "g1", "clusterNames": ["a"]},
        {"affinityName": "g2", "clusterNames": ["b"]},
    ],
    replicaScheduling={
        "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted",
        "weightPreference": {"dynamicWeight": "AvailableReplicas"},
    },
)


class Bench:
    """A cache of clusters whose estimators report what a test says.

    Attributes:
        asked: the clusters of each query.
    """

    def __init__(self, *, drained: str = "", reported: dict[str, int] | None = None) -> None:
        self.clock = FakeClock()
        self.asked: list[list[str]] = []
        self._reported = reported or {}
        control = FixedControl(Admissions(Budgets(ON), -3600.0), ON)
        moves = MoveSupervisor(control, self.clock, "berthmaster")
        self.clusters = ClusterCache(
            karmada_profile(), self.clock, FailoverOptions(), self._ask, moves=moves, read_copies=lambda _: Copies()
        )
        for name in "ab":
            taints = [f"{DRAINING}:NoSchedule"] if name == drained else []
            self.clusters.update_cluster(cluster(name, cpu=100, taints=taints))

    def _ask(self, query: EstimatorQuery) -> dict[str, int]:
        self.asked.append(list(query.clusters))
        return self._reported

    def decide(self, given: Binding) -> MoveState | None:
        """Decide, and return the state of the move after the decision."""
        decision = self.clusters.decide_and_assume(KEY, given)
        text = None if decision.write is None else decision.write.annotations.get(MOVE)
        return move_of(binding(annotations={MOVE: text})) if text else None

    def away(self, record: MoveState | None = None) -> Binding:
        annotations = {APPLIED_PLACEMENT: applied_placement(PLACEMENT)}
        if record is not None:
            annotations[MOVE] = annotation_of(record)
        made = binding(
            replicas=4,
            requests={"cpu": 1},
            placement=PLACEMENT,
            clusters={"b": 4},
            annotations=annotations,
            status=BindingStatus(scheduler_observing_affinity_name="g2"),
        )
        metadata = msgspec.structs.replace(made.metadata, labels={MANAGED_BY[0]: "policy"})
        return msgspec.structs.replace(made, metadata=metadata)

    def stable(self, since_s: float) -> MoveState:
        since = (self.clock.now() - timedelta(seconds=since_s)).replace(microsecond=0)
        return MoveState(
            MoveReason.FAILBACK,
            MovePhase.STABILISING,
            source={"b": 4},
            target={"a": 4},
            source_group="g2",
            target_group="g1",
            started_at=since,
            since=since,
            until=since + timedelta(seconds=600),
        )


def phase(state: MoveState | None) -> str:
    return state.phase.value if state is not None else ""


@pytest.mark.parametrize(
    ("since_s", "asked"),
    [
        pytest.param(None, [], id="a workload that has just become eligible"),
        pytest.param(300.0, [], id="a workload whose target must stay longer"),
        pytest.param(600.0, [["a", "b"]], id="a workload that is about to move"),
    ],
)
def test_estimators_are_asked_when_a_move_is_about_to_begin(since_s: float | None, asked: list[list[str]]):
    bench = Bench()
    bench.decide(bench.away(None if since_s is None else bench.stable(since_s)))
    assert bench.asked == asked


@pytest.mark.parametrize(
    ("reported", "expected"),
    [pytest.param({"a": 9}, "Surging", id="enough"), pytest.param({"a": 3}, "Eligible", id="too few")],
)
def test_what_estimators_report_bounds_a_failback(reported: dict[str, int], expected: str):
    bench = Bench(reported=reported)
    assert phase(bench.decide(bench.away(bench.stable(600.0)))) == expected


def test_a_drain_asks_estimators_too():
    bench = Bench(drained="b", reported={"a": 3})
    assert phase(bench.decide(bench.away())) == "Eligible"
    assert bench.asked


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        pytest.param({}, "Surging", id="nothing has changed"),
        pytest.param({"last_transition_time": "2026-01-01T00:15:00Z"}, "Stabilising", id="a cluster was not ready"),
        pytest.param({"last_transition_time": "yesterday"}, "Surging", id="a time that cannot be read does not count"),
    ],
)
def test_a_break_of_readiness_starts_the_stabilisation_again(changed: dict[str, Any], expected: str):
    bench = Bench()
    given = cluster("a", cpu=100)
    ready = msgspec.structs.replace(given.status.conditions[0], **changed)
    status = msgspec.structs.replace(given.status, conditions=(ready,))
    bench.clusters.update_cluster(msgspec.structs.replace(given, status=status))
    assert phase(bench.decide(bench.away(bench.stable(600.0)))) == expected


def test_a_binding_at_rest_costs_no_write():
    bench = Bench()
    record = bench.stable(300.0)
    assert bench.decide(bench.away(record)) is None, "the record says the same"
