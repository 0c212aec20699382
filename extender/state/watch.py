"""A source that watches an API server: clusters or nodes, and optionally policies, bindings and resource templates.

The first update of the state contains every collection. Templates are of kinds that bindings and policies name, so
their watches start later; the first update waits for them, too. An object that cannot be decoded is skipped, and its
last valid version stays. While the server cannot be reached, or does not return current objects, the state is stale.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any

from berthmaster.kube.client import APIClient
from berthmaster.kube.informer import Informer
from berthmaster.kube.kinds import KARMADA_BINDINGS, KARMADA_POLICIES, Watched
from berthmaster.kube.source_check import SourceCheck
from berthmaster.kube.watch_options import BINDINGS, CLUSTER_KINDS, POLICIES, WORKLOADS, WatchOptions
from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import encode_json
from berthmaster.model.errors import InputError
from berthmaster.model.gaps import Gap, unread_object
from berthmaster.model.meta import Key
from berthmaster.model.policy import Policy
from berthmaster.runtime.clock import Clock
from extender.state.controllers_lease import LeasePoll
from extender.state.events import read_events
from extender.state.fingerprint import Fingerprint, difference_of, digest
from extender.state.state import FleetCache, State
from extender.state.templates import TemplateWatches
from extender.state.workloads import PLAIN_BINDINGS, BindingOptions, KindCounts, ObservedWorkloads

Apply = Callable[[FleetCache, dict[Key, None]], None]
"""Apply the changed objects with these keys to the cache, and remove the keys."""


def watch_source(options: WatchOptions, clock: Clock, bindings: BindingOptions = PLAIN_BINDINGS) -> "WatchSource":
    """Return the source that options describe. Raises ``InputError`` unless they select one kind of cluster."""
    kinds = options.all_kinds
    clusters = [kind for kind in kinds if kind in CLUSTER_KINDS]
    if len(clusters) != 1:
        found = " and ".join(clusters) or "none"
        implied = f"; {BINDINGS} and {WORKLOADS} are those of Karmada and need clusters" if BINDINGS in kinds else ""
        known = ", ".join(CLUSTER_KINDS)
        raise InputError(f"--watch needs one kind of cluster: {found} given; known are {known}{implied}")

    def client() -> APIClient:
        from berthmaster.kube.http_client import load_client  # noqa: PLC0415 - a large library that only a watch needs

        return load_client(options.kubeconfig, options.context)

    return WatchSource(
        client,
        CLUSTER_KINDS[clusters[0]],
        KARMADA_POLICIES if POLICIES in kinds else (),
        bindings._replace(templates=WORKLOADS in kinds) if BINDINGS in kinds else None,
        clock=clock,
    )


class WatchSource:
    """Updates a state from an API server, with one informer for each collection."""

    def __init__(
        self,
        connect: Callable[[], APIClient],
        clusters: Watched[Cluster],
        policies: Sequence[Watched[Policy]] = (),
        bindings: BindingOptions | None = None,
        *,
        clock: Clock,
    ) -> None:
        """Prepare the source. ``start`` makes the client, in the process that watches."""
        self._connect = connect
        self._watched = [clusters.collection.plural, *([POLICIES] if policies else [])]
        self._clock = clock
        self._state: State | None = None
        self._synced = False
        self._lock = threading.Lock()
        self._clusters = Informer(clusters.collection, clusters.read, clock)
        self._policies = [Informer(each.collection, each.read, clock) for each in policies]
        self._feeds = [_Feed(self._clusters, self._apply_clusters, self._lock)]
        self._feeds += [_Feed(each, self._apply_policies, self._lock) for each in self._policies]
        self._kinds = KindCounts()
        self._templates: TemplateWatches | None = None
        self._observed = self._observe(bindings) if bindings is not None else None
        self._lease = LeasePoll(bindings.lease) if bindings is not None else None
        self._check = SourceCheck([feed.informer.collection for feed in self._feeds], clock, self._follow)
        for feed in self._feeds:
            feed.informer.on_contact(partial(self._follow, feed))

    def _observe(self, options: BindingOptions) -> ObservedWorkloads:
        self._watched.append(BINDINGS)
        informers = [Informer(each.collection, each.read, self._clock) for each in KARMADA_BINDINGS]
        apply = _apply_peers if options.workload_affinity else _apply_nothing
        self._feeds += [_Feed(each, partial(apply, each), self._lock) for each in informers]
        if options.templates:
            self._watched.append(WORKLOADS)
            self._templates = TemplateWatches(self._clock, self._follow, options.owner)
            named: list[Informer[Any]] = [*self._policies, *informers]
            for each in named:
                each.subscribe(self._kinds.update)
        return ObservedWorkloads(informers, self._templates, options)

    def prepare(self) -> None:
        self._connect()

    def start(self, state: State) -> None:
        state.watched, state.observed, state.unread = self._watched, self._observed, self._unread
        state.fingerprints.append(self._unread_fingerprint)
        if self._templates is not None:
            state.fingerprints.append(self._templates.fingerprint)
        self._state = state
        client = self._connect()
        state.events = partial(read_events, client)
        if self._lease is not None:
            lease = self._lease
            state.lease = lambda: lease.reading
            state.fingerprints.append(lambda: lease.fingerprint.value)
            lease.start(client)
        if self._templates is not None:
            self._templates.start(client)
        for feed in self._feeds:
            feed.informer.start(client)
        self._check.start(client)

    def stop(self) -> None:
        for each in (self._check, *(feed.informer for feed in self._feeds), self._lease, self._templates):
            if each is not None:
                each.stop()

    def _unread(self) -> list[Gap]:
        """Return the objects whose present state is not read, in a fixed order."""
        found = [
            unread_object(feed.informer.collection.plural, *each)
            for feed in self._feeds
            for each in feed.informer.unread()
        ]
        return found + ([gap for _, _, gap in self._templates.unread()] if self._templates is not None else [])

    def _unread_fingerprint(self) -> int:
        unread = (each for feed in self._feeds for each in feed.informer.unread())
        return sum(digest(encode_json(each)) for each in unread)

    def _follow(self, feed: "_Feed | None" = None) -> None:
        """Update the state after a collection, the watches of templates or the check of the server changed."""
        with self._lock:
            if self._state is None:
                return
            if not self._synced if feed is None else not feed.informer.problem:
                self._update(self._state, feed)
            self._mark(self._state)

    def _update(self, state: State, changed: "_Feed | None" = None) -> None:
        """Apply the changes of one feed; of all feeds once, when every collection is listed."""
        if not all(feed.informer.listed for feed in self._feeds):
            return
        if self._templates is not None:
            self._templates.want(self._kinds.kinds())
        if changed is not None and self._synced and not changed.pending:
            return
        if not self._synced and self._templates is not None and not self._templates.settled:
            return
        with (
            suppress(InputError),
            state.updating(self._clock.now(), stays_stale=True) as cache,
        ):  # the feed has the error
            for feed in [changed] if self._synced and changed is not None else self._feeds:
                feed.apply(cache, state.fingerprint)
            self._synced = True

    def _mark(self, state: State) -> None:
        now = self._clock.now()
        problems = [problem for feed in self._feeds for problem in feed.problems(now)]
        problems += self._templates.problems() if self._templates is not None else ()
        problem, since = self._check.problem, self._check.stale_since
        if problem and since is not None:
            problems.append((problem, since))
        if problems:
            text, since = "; ".join(text for text, _ in problems), min(since for _, since in problems)
            state.mark_stale(text, since, by_objects=any(feed.informer.unlistable for feed in self._feeds))
        elif self._synced:
            state.mark_current(now)

    def _apply_clusters(self, cache: FleetCache, pending: dict[Key, None]) -> None:
        """Apply changed clusters. If the fleet is full, the others stay pending, and it raises ``InputError``."""
        full: InputError | None = None
        for key in sorted(pending, key=lambda key: self._clusters.get(key) is not None):  # removals first
            pending[key] = pending.pop(key)  # move to the end: after a crash, other clusters come first
            cluster = self._clusters.get(key)
            try:
                if cluster is None:
                    cache.remove_cluster(key[1])
                else:
                    cache.apply_cluster(cluster)
            except InputError as error:
                full = error
            else:
                del pending[key]
        if full is not None:
            raise full

    def _apply_policies(self, cache: FleetCache, pending: dict[Key, None]) -> None:
        if pending:
            cache.replace_policies(tuple(policy for informer in self._policies for _, policy in informer.items()))
            pending.clear()


def _apply_peers(informer: Informer[Binding], cache: FleetCache, pending: dict[Key, None]) -> None:
    for key in pending:
        cache.apply_binding(key, informer.get(key))
    pending.clear()


def _apply_nothing(_informer: Informer[Binding], _cache: FleetCache, pending: dict[Key, None]) -> None:
    """Forget the changes: ``ObservedWorkloads`` reads the informer, and without workload affinity nothing else does."""
    pending.clear()


class _Feed:
    """An informer, and the keys of its changes that are not applied yet, in order; guarded by the lock."""

    def __init__(self, informer: Informer[Any], apply: Apply, lock: threading.Lock) -> None:
        self.informer = informer
        self.pending: dict[Key, None] = {}
        self._apply = apply
        self._difference = 0
        self._error = ""
        self._lock = lock
        informer.subscribe(self._changed)

    def apply(self, cache: FleetCache, fingerprint: Fingerprint) -> None:
        """Apply the pending changes, and then change the version: no new version must name the state before."""
        try:
            self._apply(cache, self.pending)
        except InputError as error:
            self._error = str(error)
            raise
        finally:
            fingerprint.add(self._difference)
            self._difference = 0
        self._error = ""

    def problems(self, now: datetime) -> Iterator[tuple[str, datetime]]:
        # Another thread may reach the server again between these reads. It then updates the state itself.
        problem, since = self.informer.problem, self.informer.stale_since
        if problem and since is not None:
            yield f"{self.informer.collection.plural}: {problem}", since
        if self._error:
            yield self._error, now

    def _changed(self, key: Key, before: object, after: object) -> None:
        difference = difference_of(before, after)
        with self._lock:
            self.pending[key] = None
            self._difference += difference
