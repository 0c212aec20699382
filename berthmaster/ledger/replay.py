"""Decides recorded decisions again, on the fleet as it was."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

import msgspec
from msgspec.structs import replace
from sqlalchemy import select

from berthmaster.deciding.decide import ClusterState, outcome_of
from berthmaster.deciding.decision_recorder import DecisionOutcome, context_of
from berthmaster.deciding.failover import FailoverOptions
from berthmaster.deciding.move_targets import is_draining
from berthmaster.deciding.moves import decide_with_moves
from berthmaster.deciding.writes import effective
from berthmaster.ledger.entries import Configuration, DecisionEntry
from berthmaster.ledger.past import PastDecision, SegmentReader
from berthmaster.ledger.schema import batches, segments
from berthmaster.ledger.store import Store
from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.errors import InputError
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.profile import built_in, karmada_profile
from berthmaster.scheduling.peers import AFFINITY, Peers
from berthmaster.scheduling.profile import Plugins, Profile, with_third_parties
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler

_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")
Rewrite = Callable[[PastDecision], Binding | None]
"""Returns another binding for a decision; None leaves the decision out."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """A decision that was taken again."""

    past: PastDecision
    outcome: DecisionOutcome

    @property
    def same(self) -> bool:
        return _ENCODER.encode(self.past.outcome) == _ENCODER.encode(self.outcome)


def profile_of(configuration: Configuration) -> Profile:
    """Return the profile that a process decided with. Raises ``InputError`` if a plugin is not installed."""
    known = _installed_plugins()
    missing = sorted(set(configuration.plugins) - set(known.names))
    if missing:
        raise InputError(f"the decision used the plugin {missing[0]}, which is not installed")
    return karmada_profile(
        known.selected(configuration.plugins), keep_empty=configuration.keep_empty, limits=configuration.limits
    )


@cache
def _installed_plugins() -> Plugins:
    """Return all plugins. Looking for those of third parties reads the metadata of every installed distribution."""
    return with_third_parties(built_in(workload_affinity=True))


class Scene:
    """A fleet as it was, and a scheduler on it. The clusters can change from decision to decision."""

    def __init__(self, profile: Profile, clusters: Iterable[Cluster] = ()) -> None:
        self.scheduler = Scheduler(Fleet(), profile)
        self._draining: set[str] = set()
        self.update(clusters, ())

    def update(self, clusters: Iterable[Cluster], gone: Iterable[str]) -> None:
        for name in gone:
            self.scheduler.fleet.remove(name)
            self._draining.discard(name)
        for cluster in clusters:
            self.scheduler.fleet.apply(cluster)
            (self._draining.add if is_draining(cluster) else self._draining.discard)(cluster.name)

    def decide(self, past: PastDecision, binding: Binding | None = None) -> DecisionOutcome:
        """Decide again on what a recorded decision read; ``binding`` replaces its binding."""
        self.scheduler.peers = peers_of(past)
        configuration = past.configuration
        failover = FailoverOptions(configuration.failover_after_s, configuration.producer)
        state = ClusterState(self.scheduler, past.unready_since_s, failover, self._draining)
        moves = None if past.entry.moves is None else context_of(past.entry.moves)
        return outcome_of(decide_with_moves(state, binding or past.binding, past.entry.now_s, past.bounds, moves))

    def request(self, past: PastDecision) -> Request:
        """Return the request of a recorded decision, and make its peers those of the scheduler."""
        self.scheduler.peers = peers_of(past)
        request = Request.of(effective(past.binding))
        return request if past.bounds is None else replace(request, bounds=past.bounds)


def peers_of(past: PastDecision) -> Peers:
    """Return where the other workloads of the affinity groups of a binding were."""
    affinity: dict[str, str] = {}
    anti_affinity: dict[str, str] = {}
    clusters: dict[str, frozenset[str]] = {}
    for (kind, group), members in past.peers.items():
        (affinity if kind == AFFINITY else anti_affinity).update(dict.fromkeys(members, group))
        clusters.update(members)
    peers, own = Peers(), Request.of(past.binding)
    for name, where in clusters.items():
        request = replace(
            own, name=name, affinity_group=affinity.get(name, ""), anti_affinity_group=anti_affinity.get(name, "")
        )
        peers.place(request, where)
    return peers


def replay(
    store: Store, since_us: int, until_us: int, profile: Profile | None = None, rewrite: Rewrite | None = None
) -> Iterator[Replayed]:
    """Decide everything of a time range again, in the order of the ledger."""
    numbers = (
        select(segments.c.segment)
        .where(segments.c.last_us >= since_us, segments.c.opened_us <= until_us)
        .order_by(segments.c.segment)
    )
    for number in store.values(numbers):
        yield from _replay_segment(store, number, (since_us, until_us), profile, rewrite)


def _replay_segment(
    store: Store, number: int, times_us: tuple[int, int], profile: Profile | None, rewrite: Rewrite | None
) -> Iterator[Replayed]:
    since_us, until_us = times_us
    start = store.value(
        select(batches.c.start)
        .where(batches.c.segment == number, batches.c.last_us >= since_us)
        .order_by(batches.c.number)
        .limit(1)
    )
    if start is None:
        return
    reader = SegmentReader(store, number)
    scene: Scene | None = None
    for entry in reader.entries(start):
        if not isinstance(entry, DecisionEntry) or not since_us <= entry.at_us <= until_us:
            continue
        clusters, gone = reader.fleet.changes()
        past = reader.past(entry)
        binding = past.binding if rewrite is None else rewrite(past)
        if scene is None:
            scene = Scene(profile or profile_of(past.configuration))
        scene.update(clusters, gone)
        if binding is not None:
            yield Replayed(past, scene.decide(past, binding))
