"""The storm brake: nothing is moved while many clusters turn unready at once.

Many clusters that turn unready together are more likely a fault of the network or of the control plane than the loss of
all of them. A failover would then move the workloads of healthy clusters onto the few that are still visible. The brake
engages in two cases:

- More than ``unhealthy_percent`` of the clusters that were ready, and at least ``min_clusters``, turn unready within
  ``window_s``. It ends when so many of them are back that the rest would not engage it, for ``settle_s``.
- The API server was out of reach for at least ``MIN_OUTAGE_S``. It ends ``settle_s`` after the server is back, because
  the conditions of clusters are stale until then. A leader exits when it cannot renew its lease, so a process that
  takes a lease which was not renewed for that long, beyond its duration, counts that as an outage.

A user can end it (``resume``). The clusters that are unready at that time count as lost from then on, and engage the
brake again only after they were ready.

A process that starts does not know what happened before. It reads the times of the clusters' conditions: clusters that
turned unready together, at most a day ago, engage the brake as if the process had seen it. The record of the previous
leader says whether the brake was engaged, and when a user last ended it. A cluster that was never ready does not count.

All times are monotonic, so a step of the wall clock changes nothing. Only the state at the start depends on the
wall clock, because the times of conditions do.
"""

from bisect import bisect_right
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec

from berthmaster.deciding.config_values import PositiveSeconds, Seconds, Share, duration_meta
from berthmaster.model.meta import Value

MIN_OUTAGE_S: Final = 10.0
"""Shorter outages happen in every rolling restart of an API server."""
MAX_AGE_S: Final = 86400.0
"""At the start of a process without a record, clusters that turned unready earlier count as lost."""
_NEVER_S: Final = float("-inf")


class BrakeLimits(Value, frozen=True):
    """How many clusters that turn unready at once engage the storm brake.

    Attributes:
        unhealthy_percent: more than this share of the clusters that were ready.
        min_clusters: and at least so many.
    """

    enabled: bool = True
    unhealthy_percent: Share = 30
    min_clusters: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 3

    def exceeded(self, unready: int, ready: int) -> bool:
        """Return whether so many clusters turned unready, and so many stayed ready, that the brake engages."""
        enough = unready >= self.min_clusters
        return self.enabled and enough and unready * 100 > self.unhealthy_percent * (unready + ready)


DEFAULT_BRAKE: Final = BrakeLimits()


class BrakeSettings(BrakeLimits, frozen=True):
    """When the storm brake stops all moves.

    Attributes:
        window_s: the time within which the clusters turn unready.
        settle_s: how long the clusters must be back, or the API server in reach, before the brake ends.
    """

    window_s: Annotated[PositiveSeconds, duration_meta("5m")] = msgspec.field(
        default_factory=lambda: PositiveSeconds(300), name="window"
    )
    settle_s: Annotated[Seconds, duration_meta("2m")] = msgspec.field(
        default_factory=lambda: Seconds(120), name="settle"
    )


@dataclass(frozen=True, slots=True)
class BrakeState:
    """The state of the brake, for the record, metrics and messages.

    Attributes:
        unready: the number of clusters that count as part of the storm.
    """

    reason: str = ""
    unready: int = 0


@dataclass(slots=True)
class _ObservedCluster:
    """A cluster.

    Attributes:
        turned_s: when it turned unready; None if it is ready.
        counts: whether it can be part of a storm: it was ready before, and no user has accepted its loss.
    """

    turned_s: float | None
    counts: bool = True


class StormBrake:
    """Decides whether moves must stop. One thread at a time."""

    def __init__(self, settings: BrakeSettings) -> None:
        self._settings = settings
        self._clusters: dict[str, _ObservedCluster] = {}
        self._begun = False
        self._storm: set[str] = set()
        self._storm_text = ""
        self._calm_since_s: float | None = None
        self._unreachable_since_s: float | None = None
        self._settled_s = _NEVER_S
        self._outage_text = ""

    def configure(self, settings: BrakeSettings) -> None:
        """Replace the settings. A brake that is disabled ends at once."""
        self._settings = settings
        if not settings.enabled:
            self._end_storm()
            self._settled_s = _NEVER_S

    def observe(self, cluster: str, now_s: float, *, ready: bool, unready_since_s: float | None = None) -> None:
        """Record whether a cluster is ready.

        Args:
            unready_since_s: for the first observation of a cluster: since when it is unready; None if it was never
                ready.
        """
        known = self._clusters.get(cluster)
        if ready:
            self._clusters[cluster] = _ObservedCluster(None)
        elif known is None:
            self._clusters[cluster] = _ObservedCluster(
                now_s if unready_since_s is None else min(unready_since_s, now_s), unready_since_s is not None
            )
        elif known.turned_s is None:
            self._clusters[cluster] = _ObservedCluster(now_s)
            self._engage_if_many(now_s)
        self._judge_calm(now_s)

    def remove(self, cluster: str, now_s: float) -> None:
        self._clusters.pop(cluster, None)
        self._storm.discard(cluster)
        self._judge_calm(now_s)

    def begin(
        self, now_s: float, *, engaged: bool = False, resumed_s: float | None = None, outage_s: float = 0.0
    ) -> None:
        """Judge the clusters that were observed so far. Until then, ``engaged`` reports that the process starts.

        Args:
            engaged: whether the previous leader left the brake engaged.
            outage_s: how long no process led, although the previous leader had not released its lease.
        """
        self._begun = True
        for name, turned_s in self._unready().items():
            if resumed_s is not None and turned_s <= resumed_s:
                self._clusters[name].counts = False
        if not self._settings.enabled:
            return
        unready = self._unready()
        if self._turned_together(sorted(unready.values()), now_s):
            self._engage(set(unready), f"{len(unready)} clusters turned unready together before the process started")
        elif engaged and self._settings.exceeded(len(unready), self._ready()):
            self._engage(
                set(unready), f"{len(unready)} clusters are unready, and the previous leader stopped all moves"
            )
        elif engaged or outage_s >= MIN_OUTAGE_S:
            self._settled_s = now_s + self._settings.settle_s
            self._outage_text = (
                "the previous leader had stopped all moves" if engaged else f"no controller led for {outage_s:.0f} s"
            )

    def _turned_together(self, times_s: list[float], now_s: float) -> bool:
        """Whether too many of the unready clusters turned unready within one window, at most a day ago."""
        for index, until_s in enumerate(times_s):
            turned = index + 1 - bisect_right(times_s, until_s - self._settings.window_s)
            ready_then = self._ready() + len(times_s) - index - 1
            if until_s >= now_s - MAX_AGE_S and self._settings.exceeded(turned, ready_then):
                return True
        return False

    def out_of_reach(self, now_s: float) -> None:
        """Record that the API server cannot be reached."""
        if self._unreachable_since_s is None:
            self._unreachable_since_s = now_s

    def in_reach(self, now_s: float) -> None:
        """Record that the API server can be reached."""
        since_s, self._unreachable_since_s = self._unreachable_since_s, None
        if since_s is not None and now_s - since_s >= MIN_OUTAGE_S and self._settings.enabled:
            self._settled_s = now_s + self._settings.settle_s
            self._outage_text = f"the API server was out of reach for {now_s - since_s:.0f} s"

    def engaged(self, now_s: float) -> str | None:
        """Return why no move may begin or end now; None if moves may."""
        if not self._settings.enabled:
            return None
        if not self._begun:
            return "the process starts"
        if self._calm_since_s is not None and now_s - self._calm_since_s >= self._settings.settle_s:
            self._end_storm()
        if self._storm_text:
            return self._storm_text
        if self._unreachable_since_s is not None and now_s - self._unreachable_since_s >= MIN_OUTAGE_S:
            return "the API server is out of reach"
        return self._outage_text if now_s < self._settled_s else None

    def resume(self) -> int:
        """End the brake, and accept the loss of all clusters that are unready now. Return their number."""
        unready = self._unready()
        for name in unready:
            self._clusters[name].counts = False
        self._end_storm()
        self._settled_s = _NEVER_S
        return len(unready)

    def state(self, now_s: float) -> BrakeState:
        return BrakeState(self.engaged(now_s) or "", len(self._storm & self._unready().keys()))

    def _unready(self) -> dict[str, float]:
        """Return the clusters that can be part of a storm, with the times when they turned unready."""
        return {
            name: each.turned_s for name, each in self._clusters.items() if each.counts and each.turned_s is not None
        }

    def _engage_if_many(self, now_s: float) -> None:
        settings = self._settings
        if not settings.enabled or not self._begun:
            return
        turned = {name for name, at_s in self._unready().items() if at_s > now_s - settings.window_s}
        if self._storm_text:
            self._storm |= turned
        elif self._settings.exceeded(len(turned), ready := self._ready()):
            total = len(turned) + ready
            self._engage(turned, f"{len(turned)} of {total} ready clusters turned unready within {settings.window_s} s")

    def _engage(self, clusters: set[str], text: str) -> None:
        self._storm, self._storm_text, self._calm_since_s = clusters, text, None

    def _judge_calm(self, now_s: float) -> None:
        """Note since when too few clusters of the storm are unready to engage the brake."""
        if not self._storm_text:
            return
        left = self._storm & self._unready().keys()
        if self._settings.exceeded(len(left), self._ready()):
            self._calm_since_s = None
        elif self._calm_since_s is None:
            self._calm_since_s = now_s

    def _ready(self) -> int:
        return sum(each.turned_s is None for each in self._clusters.values())

    def _end_storm(self) -> None:
        self._storm, self._storm_text, self._calm_since_s = set(), "", None
