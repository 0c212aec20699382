"""What Berthmaster answers as a scheduler webhook plugin of KubeAdmiral (payload version v1alpha1).

Its own filters have run before; this adds groups in order. An object without the annotation is left to KubeAdmiral:
every cluster passes, scores nothing, and selection only keeps to ``maxClusters``.

What KubeAdmiral makes of a failure decides what is answered (extender-protocols 1.9): a filter's failure rejects the
cluster and may drive the workload out, so that in doubt a cluster passes; a failure of score or select leaves
everything as it is and is tried again, so that these tell the error.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from berthmaster.model.decode import decode_json
from berthmaster.model.errors import FieldError
from berthmaster.scheduling.resources import Requests, requests_of
from extender.protocols.kubeadmiral.choice import Ranked, choose, room_of
from extender.protocols.kubeadmiral.groups import Group, groups_of, located, place_of
from extender.protocols.kubeadmiral.wire import (
    ClusterRequest,
    ClusterScore,
    FilterResponse,
    Placement,
    PlacementPreferences,
    SchedulingUnit,
    ScoreResponse,
    SelectRequest,
    SelectResponse,
)

R = TypeVar("R", FilterResponse, ScoreResponse, SelectResponse)


@dataclass(frozen=True, slots=True)
class Answered(Generic[R]):
    """An answer, what was decided in a word, and why nothing could be where that is so."""

    response: R
    verdict: str
    doubt: str = ""


def filter_cluster(body: bytes, *, pass_in_doubt: bool = True) -> Answered[FilterResponse]:
    """Whether some group means the cluster.

    Args:
        body: a filter request.
        pass_in_doubt: what cannot be understood passes; otherwise it is told as an error, which rejects the cluster.
    """
    try:
        asked = decode_json(ClusterRequest, body)
        groups = groups_of(asked.scheduling_unit.annotations)
    except FieldError as error:
        answer = FilterResponse(selected=True) if pass_in_doubt else FilterResponse(selected=False, error=str(error))
        return Answered(answer, "doubtful", str(error))
    selected = not groups or place_of(groups, located(asked.cluster)) is not None
    return Answered(FilterResponse(selected=selected), "passed" if selected else "rejected")


def score_cluster(body: bytes) -> Answered[ScoreResponse]:
    """The number of groups from the cluster's own to the last: earlier groups score higher.

    What widens a group counts as one more after it.
    """
    try:
        asked = decode_json(ClusterRequest, body)
        groups = groups_of(asked.scheduling_unit.annotations)
    except FieldError as error:
        return Answered(ScoreResponse(score=0, error=str(error)), "failed", str(error))
    place = place_of(groups, located(asked.cluster))
    score = sum(len(group.tiers) for group in groups) - place if place is not None else 0
    return Answered(ScoreResponse(score=score), "scored")


def select_clusters(body: bytes) -> Answered[SelectResponse]:
    """The clusters of the first group that can hold the workload.

    If no group can, that is an error: nothing moves, and it is tried again.
    """
    try:
        asked = decode_json(SelectRequest, body)
        groups = groups_of(asked.scheduling_unit.annotations)
    except FieldError as error:
        return _failed(str(error))
    unit = asked.scheduling_unit
    if unit.max_clusters is not None and unit.max_clusters < 0:
        return _failed(f"schedulingUnit.maxClusters: {unit.max_clusters} is negative; accepted are 0 and more")
    preferences = {each.cluster: each for each in unit.placements}
    requests = requests_of(unit.resource_request)
    ranked = [
        _ranked(unit, requests, each, preferences.get(each.cluster.metadata.name)) for each in asked.cluster_scores
    ]
    if not groups:
        limit = len(ranked) if unit.max_clusters is None else unit.max_clusters
        best = sorted(ranked, key=lambda each: (-each.score, each.cluster.name))[:limit]
        return Answered(SelectResponse([each.cluster.name for each in best]), "selected")
    reasons = []
    for group in groups:
        chosen = _chosen_of(group, unit, ranked)
        if not isinstance(chosen, str):
            return Answered(SelectResponse(chosen), "selected")
        reasons.append(f"{group.name}: {chosen}")
    return _failed(f"no group can hold the workload: {'; '.join(reasons)}")


def _chosen_of(group: Group, unit: SchedulingUnit, ranked: Sequence[Ranked]) -> list[str] | str:
    """The clusters of a group, widened as far as it takes, or why even all of them cannot hold the workload."""
    placed = [(each, tier) for each in ranked if (tier := group.tier(each.cluster)) is not None]
    chosen: list[str] | str = ""
    for last in range(len(group.tiers)):
        chosen = choose(unit, [each for each, tier in placed if tier <= last])
        if not isinstance(chosen, str):
            break
    return chosen


def _failed(error: str) -> Answered[SelectResponse]:
    return Answered(SelectResponse([], error), "failed", error)


def _ranked(unit: SchedulingUnit, requests: Requests, scored: ClusterScore, placement: Placement | None) -> Ranked:
    cluster = located(scored.cluster)
    preferences = placement.preferences if placement is not None else PlacementPreferences()
    minimum = preferences.min_replicas
    if preferences.max_replicas is not None:
        minimum = min(minimum, preferences.max_replicas)
    return Ranked(cluster, scored.score, minimum, room_of(unit, requests, cluster, preferences.max_replicas))
