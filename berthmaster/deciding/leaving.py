"""What clusters get back when the moves under way have ended. Pure functions.

Pods that leave use their resources until they have ended. A rebalance that did not count these as free would judge each
workload by a state that does not last. Many workloads would leave a cluster together, and return.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Final, NamedTuple

from berthmaster.model.binding import Binding
from berthmaster.model.meta import Timestamp
from berthmaster.model.move import MovePhase, MoveState
from berthmaster.scheduling.component_sets import ComponentSet, pods_of
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.resources import Requests

_SHOWN_S: Final = 60.0
"""How long a cluster may report pods after a move has released them: the usual grace period, and two reports."""


class Leaving(NamedTuple):
    """The replicas, or sets of pods, of one workload that leave.

    Attributes:
        replicas: by cluster.
        until: from this time on the clusters report that they are gone; None while their move is under way.
    """

    replicas: Mapping[str, int]
    requests: Requests
    templates: ComponentSet = ()
    until: Timestamp | None = None


def leaving_of(binding: Binding, state: MoveState | None) -> Leaving | None:
    """Return what a move takes, or has just taken, from clusters; None if that is nothing."""
    if state is None or not (state.under_way or state.phase is MovePhase.RELEASED):
        return None
    request = Request.of(binding)
    before, after = request.occupied(state.source), request.occupied(state.target)
    fewer = {name: count - after.get(name, 0) for name, count in before.items() if count > after.get(name, 0)}
    if not fewer:
        return None
    until = None if state.under_way or state.since is None else state.since + timedelta(seconds=_SHOWN_S)
    return Leaving(fewer, request.requests or (), request.set_templates, until)


def room_after(leaving: Iterable[Leaving], requests: Requests | None, now: Timestamp) -> dict[str, int]:
    """Return how many more replicas with some requests fit when others have left, by cluster. It is never too much."""
    freed: dict[str, Counter[str]] = {}
    pods: Counter[str] = Counter()
    for each in leaving:
        if each.until is not None and each.until <= now:
            continue
        for cluster, replicas in each.replicas.items():
            for count, asked in pods_of(replicas, each.requests, each.templates):
                pods[cluster] += count
                for name, amount in asked:
                    freed.setdefault(cluster, Counter())[name] += amount * count
    if not requests:
        return dict(sorted(pods.items()))
    found = {cluster: min(freed.get(cluster, Counter())[name] // amount for name, amount in requests)
             for cluster in sorted(pods)}  # fmt: skip
    return {cluster: count for cluster, count in found.items() if count}
