"""The three verbs: the bytes of a request in, the bytes of an answer out.

The state between calls: how often a pod was held, and the nodes that requests contained.

kube-scheduler offers a sample of a large fleet, or the one node that it nominated before; see docs/kube-scheduler.md.
The extender holds a pod until kube-scheduler offers the nodes of earlier groups. A request does not show whether these
nodes can still take the pod, so the number of holds is limited.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from berthmaster.model.cluster import Cluster
from berthmaster.model.cluster_node import Node, NodeIdentity, cluster_of_node
from berthmaster.model.decode import encode_json
from berthmaster.model.errors import FieldError
from berthmaster.model.placement_limits import DEFAULT_LIMITS, PlacementLimits
from berthmaster.model.selector import LabelSelector
from berthmaster.runtime.logs import fields
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.steps import TooLargeError, Work
from extender.protocols.kube_scheduler import wire
from extender.protocols.kube_scheduler.nodes import (
    MEMBERS,
    REJECTED,
    CachedNodes,
    NodeScore,
    RankedNodes,
    RequestNodes,
    members_of,
)
from extender.protocols.kube_scheduler.placements import PlacementFinder, PodPlacement, request_of
from extender.protocols.kube_scheduler.verbs import (
    FilteredNodes,
    best_candidates,
    filter_nodes,
    hold_message,
    host_scores,
)
from extender.protocols.route import Reply
from extender.protocols.services import Call, Services
from extender.state.state import NO_SOURCE, FleetCache

PROTOCOL: Final = "kube-scheduler"
EVERYTHING: Final = LabelSelector()
_NAMES_LOGGED: Final = 10
_WARNING_INTERVAL_S: Final = 60.0
SAMPLE_FLOOR: Final = 100
"""kube-scheduler offers all nodes of a fleet that has fewer nodes (kube-scheduler ``minFeasibleNodesToFind``)."""

# After the rejection of a nominated node, kube-scheduler searches all nodes within milliseconds. It retries a rejected
# pod within seconds, or after five minutes without any event.
_NOMINATED_FOR_S: Final = 10.0
_SAMPLED_FOR_S: Final = 600.0
_MAX_PODS: Final = 16_384
_MAX_CLUSTERS: Final = 16_384


class _Holds(NamedTuple):
    nominated: bool
    times: int
    last_s: float


class HoldCounter:
    """Counts holds by pod. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holds: dict[str, _Holds] = {}

    def try_hold(self, pod: str, *, offered: int, known: int, nominated: bool, now_s: float) -> bool:
        """Return whether to hold a pod once more, and count the hold.

        If the only offered node is the ``nominated`` one, the scheduler asks at once again with all nodes. An equal
        request that follows is that search, so one hold is enough.
        """
        limit = 1 if nominated else -(-known // max(1, offered))
        expires_after_s = _NOMINATED_FOR_S if nominated else _SAMPLED_FOR_S
        with self._lock:
            last = self._holds.pop(pod, None)
            is_new = last is None or last.nominated != nominated or now_s - last.last_s > expires_after_s
            count = 0 if last is None or is_new else last.times
            if count >= limit:
                return False
            if len(self._holds) >= _MAX_PODS:
                del self._holds[next(iter(self._holds))]
            self._holds[pod] = _Holds(nominated, count + 1, now_s)
            return True

    def forget(self, pod: str) -> None:
        with self._lock:
            self._holds.pop(pod, None)


@dataclass(frozen=True, slots=True)
class KubeSchedulerOptions:
    """The configuration of this protocol.

    Attributes:
        members: selects the nodes that are member clusters; all by default. Other nodes take only pods without a
            placement.
        lists_are_complete: the scheduler has ``percentageOfNodesToScore: 100``, so its lists are never samples.
    """

    members: LabelSelector = EVERYTHING
    lists_are_complete: bool = False
    limits: PlacementLimits = DEFAULT_LIMITS


class _Filtering(NamedTuple):
    args: wire.Args
    request: Request
    placement: PodPlacement
    work: Work


class _Filtered(NamedTuple):
    """The answer to filter, its result for metrics and logs, and the group whose nodes remain."""

    answer: wire.FilterResult
    result: str
    group: str = ""


class _Preemption(NamedTuple):
    """The candidates that remain, the result for metrics and logs, and the node that a held pod waits for."""

    candidates: dict[str, wire.MetaVictims]
    result: str
    preferred: str = ""


class Extender:
    """The verbs and their memory. Safe for several threads."""

    def __init__(self, options: KubeSchedulerOptions) -> None:
        self._options = options
        self._profile = karmada_profile(limits=options.limits)  # placements are Karmada's
        self._members = members_of(options.members)
        self._placements = PlacementFinder(options.limits)
        self._placements_lock = threading.Lock()
        self._cached: CachedNodes | None = None
        self._holds = HoldCounter()
        self._warns_again_s = float("-inf")
        self._recent: dict[str, Cluster] = {}  # of recent requests: a preempt request contains only names

    def filter(self, services: Services, call: Call) -> Reply:
        """``filterVerb``: the nodes of the first group that accepts the pod, and the reasons of the others."""
        begun_s = services.clock.monotonic_s()
        args = _decode(services, call)
        try:
            filtered = self._filter(services, args, self._work(services, call))
        except (FieldError, TooLargeError) as error:
            # An answer without the placement could place the pod on a forbidden node. kube-scheduler retries the pod.
            log_fields = fields(workload=str(args.pod), request_id=call.request_id)
            services.log.warning("invalid placement: %s", error, extra=log_fields)
            filtered = _Filtered(wire.FilterResult(error=f"berthmaster: {error}"), "unreadable")
        services.metrics.decided(PROTOCOL, "filter", filtered.result)
        services.decisions.write(
            call, PROTOCOL, "filter", begun_s, lambda: {"workload": str(args.pod), **_logged(filtered)}
        )
        return Reply(encode_json(filtered.answer))

    def prioritize(self, services: Services, call: Call) -> Reply:
        """``prioritizeVerb``: a score for each node. An invalid placement gives 0: there is no field for an error."""
        begun_s = services.clock.monotonic_s()
        args = _decode(services, call)
        clusters = _decode_nodes(services, Node, args)
        names = args.names if args.names is not None else [cluster.name for cluster in clusters]
        try:
            scores = self._scores(services, args, clusters, self._work(services, call))
        except (FieldError, TooLargeError):
            services.metrics.doubted(PROTOCOL, "unreadable")
            scores = None
        if scores is None:
            return Reply(wire.encode_priorities(dict.fromkeys(names, 0)))
        found = dict(zip(names, host_scores(scores), strict=True))
        services.metrics.decided(PROTOCOL, "prioritize", "graded")

        def details() -> Mapping[str, Any]:
            best = sorted(found.items(), key=lambda each: -each[1])[:_NAMES_LOGGED]
            return {"workload": str(args.pod), "scores": dict(best)}

        services.decisions.write(call, PROTOCOL, "prioritize", begun_s, details)
        return Reply(wire.encode_priorities(found))

    def preempt(self, services: Services, call: Call) -> Reply:
        """``preemptVerb``: the candidates of the first group that has any; all for a pod without a placement.

        kube-scheduler stops to look for candidates once it has enough, so its list may be a sample.
        """
        begun_s = services.clock.monotonic_s()
        args = wire.decode_preemption_args(call.body)
        try:
            found = self._placement(services, args.pod)
            if found.placement is None:
                done = _Preemption(args.candidates, "allowed" if args.candidates else "nowhere")
            else:
                request = request_of(args.pod, found.placement)
                done = self._best_candidates(services, args, request, self._work(services, call))
        except (FieldError, TooLargeError):
            done = _Preemption({}, "unreadable")  # no pod is evicted for a pod that cannot be placed
        services.metrics.decided(PROTOCOL, "preempt", done.result)
        services.decisions.write(
            call, PROTOCOL, "preempt", begun_s,
            lambda: {
                "workload": str(args.pod), "result": done.result, "nodes": list(done.candidates)[:_NAMES_LOGGED],
                **({"preferred": done.preferred} if done.preferred else {}),
            },
        )  # fmt: skip
        return Reply(wire.encode_preemption_result(done.candidates))

    def _work(self, services: Services, call: Call) -> Work:
        return Work(self._options.limits.steps, partial(services.check_deadline, call))

    def _scores(
        self, services: Services, args: wire.Args, clusters: Sequence[Cluster], work: Work
    ) -> Sequence[NodeScore] | None:
        placement = self._placement(services, args.pod).placement
        if placement is None:
            return None
        request = request_of(args.pod, placement)
        if args.names is None:
            nodes = RequestNodes(clusters, self._profile, self._members)
            return nodes.scores(request, nodes.ranked(request, work))
        with services.state.reading() as cache:
            cached = self._cached_nodes(cache)
            return cached.scores(request, cached.ranked(request, args.names, work))

    def _filter(self, services: Services, args: wire.Args, work: Work) -> _Filtered:
        found = self._placement(services, args.pod)
        if found.placement is None:
            positions = range(len(args.nodes if args.names is None else args.names))
            return _Filtered(_answer(args, positions), "passed")
        filtering = _Filtering(args, request_of(args.pod, found.placement), found, work)
        if args.names is None:
            return self._filter_nodes(services, filtering)
        return self._filter_names(services, filtering)

    def _filter_names(self, services: Services, filtering: _Filtering) -> _Filtered:
        with services.state.reading() as cache:
            cached = self._cached_nodes(cache)
            nodes = cached.ranked(filtering.request, filtering.args.names or [], filtering.work)
            result = filter_nodes(nodes, cached.rejection, filtering.placement.source)
            better = self._better_nodes(filtering, cached, nodes)
            known = len(cached.fleet)
        if not result.kept and result.failed:
            return _Filtered(wire.FilterResult(error=_unknown_nodes(services, result, filtering.placement)), "unknown")
        return self._settle(services, filtering, nodes, result, better, known)

    def _filter_nodes(self, services: Services, filtering: _Filtering) -> _Filtered:
        clusters = _decode_nodes(services, NodeIdentity, filtering.args)
        if len(self._recent) + len(clusters) > _MAX_CLUSTERS:
            self._recent = {}
        self._recent.update((cluster.name, cluster) for cluster in clusters[:_MAX_CLUSTERS])
        request_nodes = RequestNodes(clusters, self._profile, self._members)
        nodes = request_nodes.ranked(filtering.request, filtering.work)
        result = filter_nodes(nodes, request_nodes.rejection, filtering.placement.source)
        better: tuple[str, ...] = ()
        with services.state.reading() as cache:
            # A fleet that does not contain these nodes cannot name better ones.
            if clusters and all(cluster.name in cache.fleet.row_of for cluster in clusters):
                better = self._better_nodes(filtering, self._cached_nodes(cache), nodes)
            known = len(cache.fleet)
        return self._settle(services, filtering, nodes, result, better, known)

    def _settle(
        self, services: Services, filtering: _Filtering, nodes: RankedNodes, result: FilteredNodes,
        better: tuple[str, ...], known: int,
    ) -> _Filtered:  # fmt: skip
        """Answer with the remaining nodes, or hold the pod if better nodes were not offered."""
        args, source = filtering.args, filtering.placement.source
        pod = _identity(args.pod)
        if better:
            held = self._holds.try_hold(
                pod, offered=len(nodes.names), known=known, nominated=_is_nominated(args.pod, nodes.names),
                now_s=services.clock.monotonic_s(),
            )  # fmt: skip
            if held:
                error = f"berthmaster: {hold_message(nodes, better, known, source)}"
                return _Filtered(wire.FilterResult(error=error), "held")
        elif result.kept:
            self._holds.forget(pod)
        for plugin, count in result.rejected.items():
            services.metrics.rejected(plugin, count)
        answer = _answer(args, result.kept, result.failed, result.unresolvable)
        if nodes.names and result.rejected[MEMBERS] == len(nodes.names):
            self._warn_of_members(services, len(nodes.names))
            return _Filtered(answer, "no-members")
        if not result.kept:
            return _Filtered(answer, "nowhere")
        return _Filtered(answer, "placed", nodes.groups.group_name(nodes.best))

    def _warn_of_members(self, services: Services, count: int) -> None:
        """Warn that the selector of members matches no node: it is probably that of another product."""
        now_s = services.clock.monotonic_s()
        if now_s >= self._warns_again_s:
            self._warns_again_s = now_s + _WARNING_INTERVAL_S
            services.log.warning("--kube-scheduler-members matches none of the %d nodes of a request", count)

    def _better_nodes(self, filtering: _Filtering, cached: CachedNodes, nodes: RankedNodes) -> tuple[str, ...]:
        """Return the nodes of a lower rank than all offered nodes, if the offered nodes may be a sample."""
        pod, request = filtering.args.pod, filtering.request
        if _is_nominated(pod, nodes.names):
            # After the rejection of a nominated node, kube-scheduler searches all nodes anyway.
            is_sample = nodes.best < REJECTED
        else:
            is_sample = not self._options.lists_are_complete and SAMPLE_FLOOR <= len(nodes.names) < len(cached.fleet)
        if not is_sample:
            return ()
        return cached.better_than(request, nodes, nodes.best, pod.spec, filtering.work)

    def _best_candidates(
        self, services: Services, args: wire.PreemptionArgs, request: Request, work: Work
    ) -> _Preemption:
        """Return the candidates of the first group that has one, or none if kube-scheduler has to look for more."""
        candidates, names = args.candidates, list(args.candidates)
        with services.state.reading() as cache:
            if any(name in cache.fleet.row_of for name in names):
                cached = self._cached_nodes(cache)
                nodes = cached.ranked(request, names, work)
                known = len(cached.fleet)
                is_sample = not self._options.lists_are_complete and SAMPLE_FLOOR <= len(names) < known
                accepted = is_sample and nodes.best < REJECTED
                better = cached.better_than(request, nodes, nodes.best, args.pod.spec, work) if accepted else ()
                if better and self._holds.try_hold(
                    f"preempt {_identity(args.pod)}", offered=len(names), known=known, nominated=False,
                    now_s=services.clock.monotonic_s(),
                ):  # fmt: skip
                    return _Preemption({}, "held", better[0])
                found = best_candidates(candidates, nodes)
                return _Preemption(found, "allowed" if found else "nowhere")
        recent = [cluster for name in names if (cluster := self._recent.get(name)) is not None]
        nodes = RequestNodes(recent, self._profile, self._members).ranked(request, work)
        # Without a fleet, a full node is known only if it was offered before. kube-scheduler then has to choose.
        unknown = {name: victims for name, victims in candidates.items() if name not in self._recent}
        found = best_candidates(candidates, nodes) or unknown
        return _Preemption(found, "allowed" if found else "nowhere")

    def _placement(self, services: Services, pod: wire.Pod) -> PodPlacement:
        with services.state.reading() as cache:
            policies = cache.policies
        with self._placements_lock:
            found = self._placements.find(pod, policies)
            doubtful = self._placements.take_doubtful()
        for each in doubtful[:_NAMES_LOGGED]:
            services.log.warning(
                "%s: it applies only to pods whose own controller is one; otherwise annotate the pod template", each
            )
        return found

    def _cached_nodes(self, cache: FleetCache) -> CachedNodes:
        """Return the shared fleet as nodes. The caller holds the lock of the state."""
        if self._cached is None or self._cached.fleet is not cache.fleet:
            self._cached = CachedNodes(cache.fleet, self._profile, self._members)
        return self._cached


def _decode(services: Services, call: Call) -> wire.Args:
    begun_s = services.clock.monotonic_s()
    args = wire.decode_args(call.body)
    services.metrics.took(PROTOCOL, "decode", services.clock.monotonic_s() - begun_s)
    services.check_deadline(call)
    return args


def _decode_nodes(services: Services, kind: type[NodeIdentity], args: wire.Args) -> list[Cluster]:
    begun_s = services.clock.monotonic_s()
    nodes = [wire.decode_node(kind, raw, index) for index, raw in enumerate(args.nodes)]
    services.metrics.took(PROTOCOL, "decode nodes", services.clock.monotonic_s() - begun_s)
    return list(map(cluster_of_node, nodes))


def _identity(pod: wire.Pod) -> str:
    return pod.metadata.uid or str(pod)


def _is_nominated(pod: wire.Pod, names: Sequence[str]) -> bool:
    return len(names) == 1 and names[0] == pod.status.nominated_node_name


def _answer(
    args: wire.Args,
    kept: Sequence[int],
    failed: dict[str, str] | None = None,
    unresolvable: dict[str, str] | None = None,
) -> wire.FilterResult:
    names = None if args.names is None else [args.names[position] for position in kept]
    nodes = wire.NodeList([args.nodes[position] for position in kept]) if names is None else None
    return wire.FilterResult(nodes, names, failed or {}, unresolvable or {})


def _unknown_nodes(services: Services, result: FilteredNodes, placement: PodPlacement) -> str:
    """Return why no decision is possible: some nodes are unknown, and every other node is rejected."""
    if not services.state.has_source:
        return f"berthmaster: {NO_SOURCE}; names of nodes (nodeCacheCapable) need --watch nodes"
    if not services.state.staleness.synced:
        return "berthmaster: no nodes are known yet; /readyz says why"
    first = next(iter(result.failed))
    return f"berthmaster: {len(result.failed)} of the nodes are not known yet ({first}), for {placement.source}"


def _logged(filtered: _Filtered) -> Mapping[str, Any]:
    answer = filtered.answer
    kept = answer.node_names if answer.nodes is None else answer.nodes.items
    return {
        "result": filtered.result,
        "group": filtered.group,
        "nodes": len(kept or ()),
        "rejected": len(answer.failed_nodes or ()) + len(answer.failed_and_unresolvable_nodes or ()),
        "error": answer.error,
    }
