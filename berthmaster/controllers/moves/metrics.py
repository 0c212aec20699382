"""The metrics of moves: how many there are, what they wait for, and how long they take."""

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

_PHASE_BUCKETS: Final = (1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 21600.0, 86400.0)
CAUSES: Final = ("paused", "window", "limit", "starting", "brake", "stabilising")
PHASE_SECONDS: Final = Histogram(
    "berthmaster_moves_phase_duration_seconds", "How long moves were in a phase, by the reason of the move.",
    ("reason", "phase"), buckets=_PHASE_BUCKETS,
)  # fmt: skip
ENDED: Final = Counter("berthmaster_moves_ended", "Moves that ended, by reason and result.", ("reason", "result"))
"""``HeldDown`` counts moves that were refused or abandoned, ``Abandoned`` those with an invalid annotation."""
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
