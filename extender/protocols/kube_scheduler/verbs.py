"""The results of the verbs on ranked nodes: which pass the filter, their scores, and the candidates of a preemption."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from extender.protocols.kube_scheduler.nodes import (
    MEMBERS,
    NOT_A_MEMBER,
    REJECTED,
    UNKNOWN,
    WHY_UNKNOWN,
    NodeScore,
    RankedNodes,
)
from extender.protocols.kube_scheduler.wire import MetaVictims

_FIXED: Final = {NOT_A_MEMBER: (MEMBERS, "not member clusters"), UNKNOWN: WHY_UNKNOWN}
"""The reasons that follow from a rank alone."""
_MAX_PHRASES: Final = 8
"""The most different reasons of rejected nodes in one answer. Filters of third parties may name values."""
GROUP_ORDER: Final = "GroupOrder"
"""The name under which metrics count nodes of later groups."""
MAX_SCORE: Final = 10
_LOWEST: Final = 1  # 0 is the score of nodes that may not take the pod
_MAX_REASON_SENT: Final = 256
Rejection = Callable[[RankedNodes, int], tuple[str, str]]


class FilteredNodes(NamedTuple):
    """The result of filter.

    Attributes:
        kept: the positions of the nodes that remain: all nodes of the lowest rank.
        failed: the reasons of nodes that are not known yet.
        unresolvable: the reasons of nodes on which an eviction cannot help: rejected nodes, and those of a later group.
            If another extender rejects the nodes that remain, kube-scheduler would try to evict pods in later groups,
            and this extender would reject these nodes again.
    """

    kept: list[int]
    failed: dict[str, str]
    unresolvable: dict[str, str]
    rejected: Counter[str]


def filter_nodes(nodes: RankedNodes, rejection: Rejection, source: str) -> FilteredNodes:
    """Filter ranked nodes."""
    names, ranks, best = nodes.names, nodes.ranks, nodes.best
    kept = [position for position, rank in enumerate(ranks) if rank == best] if best < REJECTED else []
    name_of = nodes.groups.group_name
    later = {
        rank: f"node(s) of cluster group {name_of(rank)}, after {name_of(best)}, for {source}"[:_MAX_REASON_SENT]
        for rank in set(ranks)
        if best < rank < REJECTED
    }
    unresolvable = {name: later[rank] for name, rank in zip(names, ranks, strict=True) if rank in later}
    rejected = Counter({GROUP_ORDER: len(unresolvable)} if unresolvable else {})
    failed: dict[str, str] = {}
    phrases: set[str] = set()
    for position in [position for position, rank in enumerate(ranks) if rank >= REJECTED]:
        plugin, reason = _FIXED.get(ranks[position]) or rejection(nodes, position)
        if ranks[position] not in _FIXED:
            phrases.add(reason)
            reason = f"rejected: {reason}" if len(phrases) <= _MAX_PHRASES else f"rejected by {plugin}"
        reasons = failed if ranks[position] == UNKNOWN else unresolvable
        reasons[names[position]] = f"node(s) {reason}, for {source}"[:_MAX_REASON_SENT]
        rejected[plugin] += 1
    return FilteredNodes(kept, failed, unresolvable, rejected)


def hold_message(nodes: RankedNodes, better: tuple[str, ...], known: int, source: str) -> str:
    """Return why a pod is held instead of placed in a later group. kube-scheduler writes it into the pod's event."""
    rank = nodes.best
    group = nodes.groups.group_name(rank) if rank < REJECTED else ""
    offered = f"only nodes of cluster group {group}" if group else "no node that may take the pod"
    more = f" and {len(better) - 1} more are" if len(better) > 1 else " is"
    return (
        f"{len(nodes.names)} of {known} nodes were offered, with {offered}; {better[0]}{more} preferred "
        f"and may have enough resources, for {source}; the pod is retried"
    )


def host_scores(scores: Sequence[NodeScore]) -> list[int]:
    """Return the score of each node, from 0 to 10; a higher score is better.

    With up to ten ranks, nodes of a lower rank score higher than all nodes of a higher rank. Inside a rank, the first
    of score, weight and available replicas that differs decides, in proportion. Equal nodes get the best score of their
    rank. A rejected node gets 0.
    """
    of_rank: dict[int, list[int]] = {}
    for position, each in enumerate(scores):
        if each.rank < REJECTED:
            of_rank.setdefault(each.rank, []).append(position)
    ranks = sorted(of_rank)
    found = [0] * len(scores)
    for index, rank in enumerate(ranks):
        positions = of_rank[rank]
        best = max(_LOWEST, MAX_SCORE - MAX_SCORE * index // len(ranks))
        worst = max(_LOWEST, min(best, MAX_SCORE - MAX_SCORE * (index + 1) // len(ranks) + 1))
        values = _deciding_values([scores[position] for position in positions])
        top = max(values)
        for position, value in zip(positions, values, strict=True):
            found[position] = worst + (best - worst) * value // top if top else best
    return found


def _deciding_values(scores: Sequence[NodeScore]) -> list[int]:
    for values in zip(*((each.score, each.weight, each.available) for each in scores), strict=True):
        if len(set(values)) > 1:
            return [max(0, value) for value in values]
    return [0] * len(scores)


def best_candidates(candidates: Mapping[str, MetaVictims], nodes: RankedNodes) -> dict[str, MetaVictims]:
    """Return the candidates of the lowest rank, with their victims.

    A node that is rejected or unknown is not a candidate: the eviction of its pods would not help. A node without
    victims needs no eviction. kube-scheduler 1.36 refuses a whole answer with such a node, so these nodes remain only
    if no other one does.
    """
    best = nodes.best
    if best >= REJECTED:
        return {}
    found = {name: candidates[name] for name, rank in zip(nodes.names, nodes.ranks, strict=True) if rank == best}
    return {name: victims for name, victims in found.items() if victims.pods} or found
