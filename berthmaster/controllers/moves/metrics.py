"""The metrics of moves."""

from collections.abc import Mapping
from typing import Final

from prometheus_client import Counter, Gauge, Histogram

from berthmaster.deciding.storm_brake import BrakeState
from berthmaster.model.move import MovePhase, MoveReason

_BUCKETS: Final = (1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 21600.0, 86400.0)
_CAUSES: Final = ("paused", "window", "limit", "starting", "brake", "stabilising")

PHASE_SECONDS: Final = Histogram(
    "berthmaster_moves_phase_duration_seconds", "How long moves were in a phase, by the reason of the move.",
    ("reason", "phase"), buckets=_BUCKETS,
)  # fmt: skip
ENDED: Final = Counter("berthmaster_moves_ended", "Moves that ended, by reason and result.", ("reason", "result"))
BINDINGS: Final = Gauge(
    "berthmaster_moves_bindings", "Bindings with a move, by the reason of the move and its phase.", ("reason", "phase")
)
WAITING: Final = Gauge(
    "berthmaster_moves_waiting",
    "Bindings that wait for their move, by cause: paused, window, limit, starting, brake, stabilising.",
    ("cause",),
)
HELD_DOWN: Final = Gauge("berthmaster_moves_held_down", "Bindings that may not move for some time.")
BELOW_WANTED: Final = Counter(
    "berthmaster_moves_replica_seconds_below_wanted",
    "Replicas of moving workloads that are not on a healthy cluster, times seconds.",
)
BRAKE: Final = Gauge("berthmaster_moves_storm_brake_engaged", "1 while the storm brake stops all moves.")
BRAKE_UNREADY: Final = Gauge("berthmaster_moves_storm_brake_unready_clusters", "Unready clusters that it counts.")
CONFIG_VALID: Final = Gauge(
    "berthmaster_moves_config_valid", "1 if the configuration of moves is in use, 0 if an earlier one stays in use."
)
CONFIG_VALID.set(1)


class MoveMetrics:
    """Counts what moves do."""

    def phase_ended(self, reason: MoveReason, phase: MovePhase, seconds: float) -> None:
        PHASE_SECONDS.labels(reason.value, phase.value).observe(max(0.0, seconds))

    def ended(self, reason: MoveReason, result: str) -> None:
        """Count the end of a move; ``result`` is ``Released``, ``RolledBack``, ``HeldDown`` or ``Abandoned``.

        ``HeldDown`` counts moves that were refused or abandoned, ``Abandoned`` those with an invalid annotation.
        """
        ENDED.labels(reason.value, result).inc()

    def bindings(self, counts: Mapping[tuple[MoveReason, MovePhase], int], held_down: int) -> None:
        """Set how many bindings have a move in each phase, and how many are held down."""
        for reason in MoveReason:
            for phase in MovePhase:
                BINDINGS.labels(reason.value, phase.value).set(counts.get((reason, phase), 0))
        HELD_DOWN.set(held_down)

    def waiting(self, causes: Mapping[str, int]) -> None:
        for cause in _CAUSES:
            WAITING.labels(cause).set(causes.get(cause, 0))

    def below_wanted(self, replica_seconds: float) -> None:
        """Count replicas of moving workloads that no healthy cluster runs."""
        BELOW_WANTED.inc(replica_seconds)

    def brake(self, state: BrakeState) -> None:
        BRAKE.set(bool(state.reason))
        BRAKE_UNREADY.set(state.unready)

    def config_problem(self, problem: str) -> None:
        """Set whether the latest content of the configuration file is in use: whether it has no problem."""
        CONFIG_VALID.set(not problem)
