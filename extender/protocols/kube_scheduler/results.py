"""The results of the three verbs: the nodes that remain, the scores of nodes, and the candidates for preemption."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from extender.protocols.kube_scheduler.nodes import (
    NOT_A_MEMBER,
    REJECTED,
    UNKNOWN,
    WHY_NOT_A_MEMBER,
    WHY_UNKNOWN,
    NodeScore,
    RankedNodes,
)
from extender.protocols.kube_scheduler.wire import MetaVictims

GROUP_ORDER: Final = "GroupOrder"
"""The name under which metrics count nodes of later groups."""
MAX_SCORE: Final = 10
_LOWEST: Final = 1  # 0 is the score of nodes that may not take the pod
_MAX_REASON: Final = 256

Rejection = Callable[[RankedNodes, int], tuple[str, str]]


class FilteredNodes(NamedTuple):
    """The result of filter.

    Attributes:
        kept: the positions of the nodes that remain: all nodes of the lowest rank.
        failed: the reasons of nodes that may pass later: those of a later group, and unknown nodes.
        unresolvable: the reasons of nodes that neither more resources nor the eviction of pods helps.
    """

    kept: list[int]
    failed: dict[str, str]
    unresolvable: dict[str, str]
    rejected: Counter[str]


def filter_nodes(nodes: RankedNodes, rejection: Rejection, source: str) -> FilteredNodes:
    """Filter ranked nodes."""
    names, ranks, best = nodes.names, nodes.ranks, nodes.best
    kept = [position for position, rank in enumerate(ranks) if rank == best] if best < REJECTED else []
    later = {rank: _later_group(nodes, rank, best, source) for rank in set(ranks) if best < rank < REJECTED}
    failed = {name: later[rank] for name, rank in zip(names, ranks, strict=True) if rank in later}
    rejected = Counter({GROUP_ORDER: len(failed)} if failed else {})
    unresolvable: dict[str, str] = {}
    for position in [position for position, rank in enumerate(ranks) if rank >= REJECTED]:
        plugin, reason = _rejection_of(nodes, rejection, position)
        reasons = failed if ranks[position] == UNKNOWN else unresolvable
        reasons[names[position]] = f"node(s) {reason}, for {source}"[:_MAX_REASON]
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
    """Return the first of score, weight and available replicas that differs; zeros if all are equal."""
    for values in zip(*((each.score, each.weight, each.available) for each in scores), strict=True):
        if len(set(values)) > 1:
            return [max(0, value) for value in values]
    return [0] * len(scores)


def best_candidates(candidates: Mapping[str, MetaVictims], nodes: RankedNodes) -> dict[str, MetaVictims]:
    """Return the candidates of the lowest rank, with their victims.

    A node that is rejected or unknown is not a candidate: the eviction of its pods would not help.
    """
    best = nodes.best
    if best >= REJECTED:
        return {}
    return {name: candidates[name] for name, rank in zip(nodes.names, nodes.ranks, strict=True) if rank == best}


def _rejection_of(nodes: RankedNodes, rejection: Rejection, position: int) -> tuple[str, str]:
    rank = nodes.ranks[position]
    if rank == NOT_A_MEMBER:
        return WHY_NOT_A_MEMBER
    if rank == UNKNOWN:
        return WHY_UNKNOWN
    plugin, reason = rejection(nodes, position)
    return plugin, f"rejected: {reason}"


def _later_group(nodes: RankedNodes, rank: int, best: int, source: str) -> str:
    groups = nodes.groups
    reason = f"node(s) of cluster group {groups.group_name(rank)}, after {groups.group_name(best)}, for {source}"
    return reason[:_MAX_REASON]
