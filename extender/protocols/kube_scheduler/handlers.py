"""The three verbs: a request's bytes in, an answer's bytes out."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from berthmaster.model.cluster import Cluster, Node, NodeIdentity, cluster_of_node
from berthmaster.model.errors import FieldError
from berthmaster.model.selector import LabelSelector
from berthmaster.runtime.logs import fields
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.profile import Profile
from berthmaster.scheduling.request import Request
from extender.protocols.kube_scheduler.codec import (
    decode_args,
    decode_node,
    decode_preemption_args,
    encode_filter_result,
    encode_preemption_result,
    encode_priorities,
)
from extender.protocols.kube_scheduler.grades import grades
from extender.protocols.kube_scheduler.nodes import KnownNodes, ShownNodes, Stand, members_of
from extender.protocols.kube_scheduler.patience import SAMPLE_FLOOR, Patience
from extender.protocols.kube_scheduler.placing import Placing, Placings
from extender.protocols.kube_scheduler.pods import request_of
from extender.protocols.kube_scheduler.preemption import SeenNodes, allowed
from extender.protocols.kube_scheduler.steps import NEVER
from extender.protocols.kube_scheduler.verdict import Verdict, held, judge
from extender.protocols.kube_scheduler.wire import Args, FilterResult, MetaVictims, NodeList, Pod
from extender.protocols.route import Call, Reply
from extender.protocols.services import Services
from extender.state.state import Memory

PROTOCOL: Final = "kube-scheduler"
EVERYTHING: Final = LabelSelector()


@dataclass(frozen=True, slots=True)
class Options:
    """How this protocol is configured.

    Attributes:
        members: which nodes are member clusters; all by default. The others take pods without a placement only.
        lists_are_complete: the scheduler has ``percentageOfNodesToScore: 100``, so that its lists are no samples.
    """

    members: LabelSelector = EVERYTHING
    lists_are_complete: bool = False


class Extender:
    """The verbs and what they remember. Safe for several threads."""

    def __init__(self, options: Options, profile: Profile | None = None) -> None:
        self._options = options
        self._profile = profile or karmada_profile()
        self._members = members_of(options.members)
        self._placings = Placings()
        self._known: KnownNodes | None = None
        self._placings_lock = threading.Lock()
        self._patience = Patience()
        self._seen = SeenNodes()

    def filter(self, services: Services, call: Call) -> Reply:
        """``filterVerb``: the nodes of the first group that can take the pod, and why not the others."""
        args = _decoded_args(services, call)
        try:
            result = self._filtered(services, args)
        except FieldError as error:
            # Not by accident: to go on without it could place the pod where it must never be. It is tried again.
            services.meter.decided(PROTOCOL, "filter", "unreadable")
            services.log.warning("placement not readable: %s", error, extra=fields(pod=str(args.pod)))
            result = FilterResult(error=f"berthmaster: {error}")
        return Reply(encode_filter_result(result))

    def prioritize(self, services: Services, call: Call) -> Reply:
        """``prioritizeVerb``: a grade for each node. What cannot be judged gets 0: there is no field for an error."""
        args = _decoded_args(services, call)
        clusters = _decoded(services, Node, args)
        names = args.names if args.names is not None else [cluster.name for cluster in clusters]
        try:
            placing = self._placing(services, args.pod)
        except FieldError:
            services.meter.doubted(PROTOCOL, "unreadable")
            placing = Placing(None, "")
        if placing.placement is None:
            return Reply(encode_priorities(dict.fromkeys(names, 0)))
        request = request_of(args.pod, placing.placement)
        if args.names is None:
            nodes = ShownNodes(clusters, self._profile, self._members)
            merits = nodes.merits(request, nodes.stand(request))
        else:
            with services.state.reading() as memory:
                known = self._known_nodes(memory)
                merits = known.merits(request, known.stand(request, names))
        services.meter.decided(PROTOCOL, "prioritize", "graded")
        return Reply(encode_priorities(dict(zip(names, grades(merits), strict=True))))

    def preempt(self, services: Services, call: Call) -> Reply:
        """``preemptVerb``: the candidates of the first group that has any; for a pod without placement all of them."""
        args = decode_preemption_args(call.body)
        try:
            placing = self._placing(services, args.pod)
        except FieldError:
            services.meter.decided(PROTOCOL, "preempt", "unreadable")
            return Reply(encode_preemption_result({}))  # nothing is evicted for a pod that cannot be placed
        remaining = args.candidates
        if placing.placement is not None:
            remaining = self._allowed(services, request_of(args.pod, placing.placement), args.candidates)
        services.meter.decided(PROTOCOL, "preempt", "allowed" if remaining else "nowhere")
        return Reply(encode_preemption_result(remaining))

    def _filtered(self, services: Services, args: Args) -> FilterResult:
        placing = self._placing(services, args.pod)
        if placing.placement is None:
            services.meter.decided(PROTOCOL, "filter", "passed")
            positions = range(len(args.nodes if args.names is None else args.names))
            return _answer(args, positions)
        request = request_of(args.pod, placing.placement)
        filter_ = self._filtered_nodes if args.names is None else self._filtered_names
        return filter_(services, args, request, placing)

    def _filtered_names(self, services: Services, args: Args, request: Request, placing: Placing) -> FilterResult:
        names = args.names or []
        with services.state.reading() as memory:
            known = self._known_nodes(memory)
            stand = known.stand(request, names)
            verdict = judge(stand, known.why, placing.source)
            waiting = self._waiting(args.pod, known, request, stand)
            known_count = len(known.fleet)
        if not verdict.kept and verdict.failed:
            services.meter.decided(PROTOCOL, "filter", "unknown")
            return FilterResult(error=_unknown(services, verdict, placing))
        return self._settled(services, args, stand, verdict, waiting, known_count, placing)

    def _filtered_nodes(self, services: Services, args: Args, request: Request, placing: Placing) -> FilterResult:
        clusters = _decoded(services, NodeIdentity, args)
        self._seen.remember(clusters)
        shown = ShownNodes(clusters, self._profile, self._members)
        stand = shown.stand(request)
        verdict = judge(stand, shown.why, placing.source)
        waiting: tuple[str, ...] = ()
        with services.state.reading() as memory:
            # A fleet of something else than nodes says nothing about them.
            if clusters and all(cluster.name in memory.fleet.row_of for cluster in clusters):
                waiting = self._waiting(args.pod, self._known_nodes(memory), request, stand)
            known_count = len(memory.fleet)
        return self._settled(services, args, stand, verdict, waiting, known_count, placing)

    def _settled(
        self,
        services: Services,
        args: Args,
        stand: Stand,
        verdict: Verdict,
        waiting: tuple[str, ...],
        known: int,
        placing: Placing,
    ) -> FilterResult:
        """The answer, unless the pod is held back for nodes that come first and were not offered."""
        pod = args.pod.metadata.uid or str(args.pod)
        if waiting:
            offered, nominated = len(stand.names), _is_nominated(args.pod, stand.names)
            now_s = services.clock.monotonic_s()
            if self._patience.holds(pod, offered=offered, known=known, nominated=nominated, now_s=now_s):
                services.meter.decided(PROTOCOL, "filter", "held")
                return FilterResult(error=f"berthmaster: {held(stand, waiting, known, placing.source)}")
        elif verdict.kept:
            self._patience.forget(pod)
        services.meter.decided(PROTOCOL, "filter", "placed" if verdict.kept else "nowhere")
        for plugin, nodes in verdict.rejected.items():
            services.meter.rejected(plugin, nodes)
        return _answer(args, verdict.kept, verdict.failed, verdict.unresolvable)

    def _waiting(self, pod: Pod, known: KnownNodes, request: Request, stand: Stand) -> tuple[str, ...]:
        """The nodes that come before all that were offered, if more may be to come than was offered."""
        best, names, node_selector = stand.best, stand.names, pod.spec.node_selector or {}
        if _is_nominated(pod, names):
            # A refused nominated node is followed by a search among all nodes anyway.
            return known.before(request, stand, best, node_selector) if best < NEVER else ()
        if self._options.lists_are_complete or not SAMPLE_FLOOR <= len(names) < len(known.fleet):
            return ()
        return known.before(request, stand, best, node_selector)

    def _allowed(
        self, services: Services, request: Request, candidates: dict[str, MetaVictims]
    ) -> dict[str, MetaVictims]:
        names = list(candidates)
        with services.state.reading() as memory:
            if any(name in memory.fleet.row_of for name in names):
                return allowed(candidates, self._known_nodes(memory).stand(request, names))
        seen = [cluster for name in names if (cluster := self._seen.get(name)) is not None]
        return allowed(candidates, ShownNodes(seen, self._profile, self._members).stand(request))

    def _placing(self, services: Services, pod: Pod) -> Placing:
        with services.state.reading() as memory:
            policies = memory.policies
        with self._placings_lock:
            return self._placings.of(pod, policies)

    def _known_nodes(self, memory: Memory) -> KnownNodes:
        """The shared fleet as nodes; to be called while the state's lock is held."""
        if self._known is None or self._known.fleet is not memory.fleet:
            self._known = KnownNodes(memory.fleet, self._profile, self._members)
        return self._known


def _decoded_args(services: Services, call: Call) -> Args:
    """The request, its nodes still as they came."""
    begun_s = services.clock.monotonic_s()
    args = decode_args(call.body)
    services.meter.took(PROTOCOL, "decode", services.clock.monotonic_s() - begun_s)
    services.check_deadline(call)
    return args


def _decoded(services: Services, kind: type[NodeIdentity], args: Args) -> list[Cluster]:
    """The nodes of a request as clusters."""
    begun_s = services.clock.monotonic_s()
    nodes = [decode_node(kind, raw, index) for index, raw in enumerate(args.nodes)]
    services.meter.took(PROTOCOL, "decode nodes", services.clock.monotonic_s() - begun_s)
    return list(map(cluster_of_node, nodes))


def _is_nominated(pod: Pod, names: Sequence[str]) -> bool:
    """Whether the only node offered is the one that the pod was nominated for."""
    return len(names) == 1 and names[0] == pod.status.nominated_node_name


def _answer(
    args: Args,
    kept: Sequence[int],
    failed: dict[str, str] | None = None,
    unresolvable: dict[str, str] | None = None,
) -> FilterResult:
    """An answer of the shape that was asked."""
    if args.names is not None:
        return FilterResult(None, [args.names[position] for position in kept], failed or {}, unresolvable or {})
    return FilterResult(NodeList([args.nodes[position] for position in kept]), None, failed or {}, unresolvable or {})


def _unknown(services: Services, verdict: Verdict, placing: Placing) -> str:
    """Why nothing can be said: nodes are not known, and the others may not take the pod."""
    if not services.state.freshness.synced:
        return "berthmaster: no nodes are known yet; is its state a watched API server or a folder of nodes?"
    first = next(iter(verdict.failed))
    return f"berthmaster: {len(verdict.failed)} of the nodes are not known yet ({first}), for {placing.source}"
