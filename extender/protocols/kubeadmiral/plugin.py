"""Berthmaster as a scheduler webhook plugin of KubeAdmiral (payload version v1alpha1).

KubeAdmiral runs its own filters first. The plugin adds ordered groups. For an object without the annotation every
cluster passes with score 0, and select only applies ``maxClusters``.

KubeAdmiral's reaction to an error decides the answer (extender-protocols 1.9). An error of filter rejects the cluster
and may remove the workload from it, so by default a cluster passes if filter cannot decide. An error of score or select
changes nothing and KubeAdmiral retries, so these return the error.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Generic, NamedTuple, TypeVar

from berthmaster.model.decode import decode_json, encode_json
from berthmaster.model.errors import FieldError
from berthmaster.runtime.logs import fields
from berthmaster.scheduling.resources import Requests, requests_of
from extender.protocols.kubeadmiral.choice import CandidateCluster, capacity_of, choose
from extender.protocols.kubeadmiral.groups import AffinityGroup, cluster_of, group_of, groups_of
from extender.protocols.kubeadmiral.wire import (
    ClusterPlacement,
    ClusterRequest,
    ClusterScore,
    FilterResponse,
    PlacementPreferences,
    PluginSchedulingUnit,
    ScoreResponse,
    SelectRequest,
    SelectResponse,
)
from extender.protocols.problem import Problem
from extender.protocols.route import Handler, Refuser, Reply, Route, is_small, problem_reply
from extender.protocols.services import Call, Services

PROTOCOL: Final = "kubeadmiral"
PREFIX: Final = "/kubeadmiral/v1alpha1"
# KubeAdmiral reads every status except 200 as a failed call. With these statuses an authorized request was not
# understood, or not answered in time: the reply is 200 with a default answer. Other statuses are sent as they are.
_DEFAULTED: Final = frozenset({400, 408, 413, 500, 503})

R = TypeVar("R", FilterResponse, ScoreResponse, SelectResponse)


class PluginAnswer(NamedTuple, Generic[R]):
    """An answer, with what metrics and logs say about it.

    Attributes:
        response: the answer.
        result: the decision in one word.
        error: why no decision was possible; empty if there is one.
        unit: the object; None if it could not be decoded.
        cluster: the cluster of a filter or score request.
        group: the group of the cluster, or of the selected clusters.
    """

    response: R
    result: str
    error: str = ""
    unit: PluginSchedulingUnit | None = None
    cluster: str = ""
    group: str = ""


def routes(*, pass_in_doubt: bool = True) -> Sequence[Route]:
    """Return the routes of the protocol.

    Args:
        pass_in_doubt: a filter request that cannot be decided lets the cluster pass, because an error would remove the
            workload from it. Otherwise the answer is the error.
    """

    def filter_refusal(problem: Problem) -> Reply:
        response = FilterResponse(selected=pass_in_doubt, error="" if pass_in_doubt else problem.detail)
        return Reply(encode_json(response))

    def score_refusal(problem: Problem) -> Reply:
        return Reply(encode_json(ScoreResponse(score=0, error=problem.detail)))

    def select_refusal(problem: Problem) -> Reply:
        return Reply(encode_json(SelectResponse([], problem.detail)))

    verbs: tuple[tuple[str, Handler, Refuser], ...] = (
        ("filter", _handler("filter", partial(filter_cluster, pass_in_doubt=pass_in_doubt)), filter_refusal),
        ("score", _handler("score", score_cluster), score_refusal),
        ("select", _handler("select", select_clusters), select_refusal),
    )
    return [
        Route("POST", f"{PREFIX}/{verb}", handler, PROTOCOL, refuse=_refuser(refuse), cheap=is_small)
        for verb, handler, refuse in verbs
    ]


def _refuser(refuse: Refuser) -> Refuser:
    return lambda problem: refuse(problem) if problem.status in _DEFAULTED else problem_reply(problem)


def _handler(
    verb: str,
    decide: Callable[[bytes], PluginAnswer[FilterResponse]]
    | Callable[[bytes], PluginAnswer[ScoreResponse]]
    | Callable[[bytes], PluginAnswer[SelectResponse]],
) -> Handler:
    def handle(services: Services, call: Call) -> Reply:
        begun_s = services.clock.monotonic_s()
        answer = decide(call.body)
        services.metrics.decided(PROTOCOL, verb, answer.result)
        if answer.error:
            services.metrics.doubted(PROTOCOL, verb)
            services.log.warning(
                "%s: the request could not be decided: %s", verb, answer.error, extra=fields(request_id=call.request_id)
            )
        services.decisions.write(call, PROTOCOL, verb, begun_s, lambda: _logged(answer))
        return Reply(encode_json(answer.response))

    return handle


def _logged(
    answer: PluginAnswer[FilterResponse] | PluginAnswer[ScoreResponse] | PluginAnswer[SelectResponse],
) -> dict[str, object]:
    values: dict[str, object] = {
        "workload": str(answer.unit or ""), "result": answer.result, "group": answer.group, "error": answer.error,
    }  # fmt: skip
    if isinstance(answer.response, SelectResponse):
        return {**values, "clusters": answer.response.selected_cluster_names}
    return {**values, "cluster": answer.cluster}


def filter_cluster(body: bytes, *, pass_in_doubt: bool = True) -> PluginAnswer[FilterResponse]:
    """Decide whether a group matches the cluster.

    Args:
        body: a filter request.
        pass_in_doubt: a request that cannot be decided passes; otherwise the answer is an error, which rejects the
            cluster.
    """
    try:
        request = decode_json(ClusterRequest, body)
        groups = groups_of(request.scheduling_unit.annotations)
    except FieldError as error:
        answer = FilterResponse(selected=True) if pass_in_doubt else FilterResponse(selected=False, error=str(error))
        return PluginAnswer(answer, "doubtful", str(error))
    found = group_of(groups, cluster_of(request.cluster))
    selected = not groups or found is not None
    return PluginAnswer(
        FilterResponse(selected=selected), "passed" if selected else "rejected",
        unit=request.scheduling_unit, cluster=request.cluster.metadata.name, group=found[1] if found else "",
    )  # fmt: skip


def score_cluster(body: bytes) -> PluginAnswer[ScoreResponse]:
    """Score the cluster by its group: earlier groups score higher, and a group scores higher than its overflow.

    The score is the number of tiers from the cluster's tier to the last one.
    """
    try:
        request = decode_json(ClusterRequest, body)
        groups = groups_of(request.scheduling_unit.annotations)
    except FieldError as error:
        return PluginAnswer(ScoreResponse(score=0, error=str(error)), "failed", str(error))
    found = group_of(groups, cluster_of(request.cluster))
    score = sum(len(group.tiers) for group in groups) - found[0] if found is not None else 0
    return PluginAnswer(
        ScoreResponse(score=score), "scored",
        unit=request.scheduling_unit, cluster=request.cluster.metadata.name, group=found[1] if found else "",
    )  # fmt: skip


def select_clusters(body: bytes) -> PluginAnswer[SelectResponse]:
    """Select the clusters of the first group that can run the workload.

    If no group can, the answer is an error: nothing changes, and KubeAdmiral retries.
    """
    try:
        request = decode_json(SelectRequest, body)
        groups = groups_of(request.scheduling_unit.annotations)
    except FieldError as error:
        return _failed(str(error))
    unit = request.scheduling_unit
    if unit.max_clusters is not None and unit.max_clusters < 0:
        problem = f"schedulingUnit.maxClusters: {unit.max_clusters} is negative; accepted are 0 and more"
        return _failed(problem, unit)
    candidates = _candidates(request)
    if not groups:
        limit = len(candidates) if unit.max_clusters is None else unit.max_clusters
        best = sorted(candidates, key=lambda each: (-each.score, each.cluster.name))[:limit]
        return PluginAnswer(SelectResponse([each.cluster.name for each in best]), "selected", unit=unit)
    reasons = []
    for group in groups:
        chosen = _chosen_of(group, unit, candidates)
        if not isinstance(chosen, str):
            return PluginAnswer(SelectResponse(chosen), "selected", unit=unit, group=group.name)
        reasons.append(f"{group.name}: {chosen}")
    return _failed(f"no group can hold the workload: {'; '.join(reasons)}", unit)


def _chosen_of(
    group: AffinityGroup, unit: PluginSchedulingUnit, candidates: Sequence[CandidateCluster]
) -> list[str] | str:
    """Return the chosen clusters of a group, with as few tiers as possible, or why they cannot run the workload."""
    matching = [(each, tier) for each in candidates if (tier := group.tier(each.cluster)) is not None]
    chosen: list[str] | str = ""
    for last in range(len(group.tiers)):
        chosen = choose(unit, [each for each, tier in matching if tier <= last])
        if not isinstance(chosen, str):
            break
    return chosen


def _failed(error: str, unit: PluginSchedulingUnit | None = None) -> PluginAnswer[SelectResponse]:
    return PluginAnswer(SelectResponse([], error), "failed", error, unit=unit)


def _candidates(request: SelectRequest) -> list[CandidateCluster]:
    unit = request.scheduling_unit
    placements = {each.cluster: each for each in unit.placements}
    requests = requests_of(unit.resource_request)
    return [
        _candidate(unit, requests, each, placements.get(each.cluster.metadata.name)) for each in request.cluster_scores
    ]


def _candidate(
    unit: PluginSchedulingUnit, requests: Requests, scored: ClusterScore, placement: ClusterPlacement | None
) -> CandidateCluster:
    cluster = cluster_of(scored.cluster)
    preferences = placement.preferences if placement is not None else PlacementPreferences()
    minimum = preferences.min_replicas
    if preferences.max_replicas is not None:
        minimum = min(minimum, preferences.max_replicas)
    capacity = capacity_of(unit, requests, cluster, preferences.max_replicas)
    return CandidateCluster(cluster, scored.score, minimum, capacity)
