"""Berthmaster as a scheduler webhook plugin of KubeAdmiral (payload version v1alpha1).

KubeAdmiral runs its own filters first. The plugin adds ordered groups. For an object without the annotation every
cluster passes with score 0, and select only applies ``maxClusters``.

KubeAdmiral's reaction to an error decides the answer (extender-protocols 1.9). An error of filter rejects the cluster
and may remove the workload from it, so by default a cluster passes if filter cannot decide. An error of score or select
changes nothing and KubeAdmiral retries, so these return the error.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Final, Generic, NamedTuple, TypeVar

from berthmaster.model.cluster import Taint, repelling_taints
from berthmaster.model.decode import decode_json, encode_json
from berthmaster.model.errors import FieldError
from berthmaster.model.validation import DEFAULT_LIMITS, OPTION, PlacementLimits
from berthmaster.native_api.wire import Problem
from berthmaster.runtime.logs import fields
from berthmaster.scheduling.columns import PYTHON_STEPS, TooLargeError, Work
from berthmaster.scheduling.resources import Requests, requests_of
from extender.protocols.kubeadmiral.groups import (
    NO_SCHEDULE_ONLY,
    AffinityGroup,
    CandidateCluster,
    ClusterPlacement,
    ClusterRequest,
    ClusterScore,
    FilterResponse,
    PlacementPreferences,
    PluginSchedulingUnit,
    ScoreResponse,
    SelectRequest,
    SelectResponse,
    capacity_of,
    choose,
    cluster_of,
    group_of,
    groups_of,
    tiers_by,
)
from extender.protocols.route import Handler, Refuser, Reply, Route, is_light, problem_reply
from extender.protocols.services import Call, Services

PROTOCOL: Final = "kubeadmiral"
PREFIX: Final = "/kubeadmiral/v1alpha1"
# KubeAdmiral reads every status except 200 as a failed call. With these statuses an authorized request was not
# understood, or not answered in time: the reply is 200 with a default answer. Other statuses are sent as they are.
_DEFAULTED: Final = frozenset({400, 408, 413, 500, 503})

_REASONS_SHOWN: Final = 16
_CHOICE_STEPS: Final = 6 * PYTHON_STEPS

R = TypeVar("R", FilterResponse, ScoreResponse, SelectResponse)


class Bounds(NamedTuple):
    """What the answer to a request may take.

    Attributes:
        check: called between groups; raises an exception if the deadline has passed.
    """

    limits: PlacementLimits
    check: Callable[[], None] | None = None


UNHURRIED: Final = Bounds(DEFAULT_LIMITS)


class PluginAnswer(NamedTuple, Generic[R]):
    """An answer, with what metrics and logs say about it."""

    response: R
    result: str
    error: str = ""
    unit: PluginSchedulingUnit | None = None
    cluster: str = ""
    group: str = ""


def routes(*, pass_in_doubt: bool = True, limits: PlacementLimits = DEFAULT_LIMITS) -> Sequence[Route]:
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
        ("filter", _handler("filter", limits, partial(filter_cluster, pass_in_doubt=pass_in_doubt)), filter_refusal),
        ("score", _handler("score", limits, score_cluster), score_refusal),
        ("select", _handler("select", limits, select_clusters), select_refusal),
    )
    return [
        Route("POST", f"{PREFIX}/{verb}", handler, PROTOCOL, refuse=_refuser(refuse), brings_fleet=True, cheap=is_light)
        for verb, handler, refuse in verbs
    ]


def _refuser(refuse: Refuser) -> Refuser:
    return lambda problem: refuse(problem) if problem.status in _DEFAULTED else problem_reply(problem)


def _handler(
    verb: str,
    limits: PlacementLimits,
    decide: Callable[[bytes, Bounds], PluginAnswer[FilterResponse]]
    | Callable[[bytes, Bounds], PluginAnswer[ScoreResponse]]
    | Callable[[bytes, Bounds], PluginAnswer[SelectResponse]],
) -> Handler:
    def handle(services: Services, call: Call) -> Reply:
        begun_s = services.clock.monotonic_s()
        answer = decide(call.body, Bounds(limits, partial(services.check_deadline, call)))
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


def filter_cluster(
    body: bytes, bounds: Bounds = UNHURRIED, *, pass_in_doubt: bool = True
) -> PluginAnswer[FilterResponse]:
    """Decide whether a group matches the cluster."""
    try:
        request = decode_json(ClusterRequest, body)
        groups = groups_of(request.scheduling_unit.annotations, bounds.limits)
    except FieldError as error:
        answer = FilterResponse(selected=True) if pass_in_doubt else FilterResponse(selected=False, error=str(error))
        return PluginAnswer(answer, "doubtful", str(error))
    found = group_of(groups, cluster_of(request.cluster))
    selected = not groups or found is not None
    return PluginAnswer(
        FilterResponse(selected=selected), "passed" if selected else "rejected",
        unit=request.scheduling_unit, cluster=request.cluster.metadata.name, group=found[1] if found else "",
    )  # fmt: skip


def score_cluster(body: bytes, bounds: Bounds = UNHURRIED) -> PluginAnswer[ScoreResponse]:
    """Score the cluster by its group: earlier groups score higher, and a group scores higher than its overflow.

    The score is the number of tiers from the cluster's tier to the last one.
    """
    try:
        request = decode_json(ClusterRequest, body)
        groups = groups_of(request.scheduling_unit.annotations, bounds.limits)
    except FieldError as error:
        return PluginAnswer(ScoreResponse(score=0, error=str(error)), "failed", str(error))
    found = group_of(groups, cluster_of(request.cluster))
    score = sum(len(group.tiers) for group in groups) - found[0] if found is not None else 0
    return PluginAnswer(
        ScoreResponse(score=score), "scored",
        unit=request.scheduling_unit, cluster=request.cluster.metadata.name, group=found[1] if found else "",
    )  # fmt: skip


def select_clusters(body: bytes, bounds: Bounds = UNHURRIED) -> PluginAnswer[SelectResponse]:
    """Select the clusters of the first group that can run the workload.

    If no group can, the answer is an error: nothing changes, and KubeAdmiral retries.
    """
    try:
        request = decode_json(SelectRequest, body)
    except FieldError as error:
        return _failed(str(error))
    return select_for(request, bounds)


def select_for(request: SelectRequest, bounds: Bounds = UNHURRIED) -> PluginAnswer[SelectResponse]:
    """Select the clusters of the first group that can run the workload; see ``select_clusters``."""
    unit = request.scheduling_unit
    try:
        groups = groups_of(unit.annotations, bounds.limits)
    except FieldError as error:
        return _failed(str(error))
    if len(unit.tolerations) > bounds.limits.tolerations:
        accepted = f"at most {bounds.limits.tolerations:,} are scheduled; use fewer, or raise tolerations in {OPTION}"
        return _failed(f"schedulingUnit.tolerations: {len(unit.tolerations):,} tolerations; {accepted}", unit)
    if unit.max_clusters is not None and unit.max_clusters < 0:
        problem = f"schedulingUnit.maxClusters: {unit.max_clusters} is negative; accepted are 0 and more"
        return _failed(problem, unit)
    candidates = _candidates(request)
    if not groups:
        limit = len(candidates) if unit.max_clusters is None else unit.max_clusters
        best = sorted(candidates, key=lambda each: (-each.score, each.cluster.name))[:limit]
        return PluginAnswer(SelectResponse([each.cluster.name for each in best]), "selected", unit=unit)
    try:
        return _first_that_holds(unit, groups, candidates, Work(bounds.limits.steps, bounds.check))
    except TooLargeError as error:
        return _failed(str(error), unit)


def _first_that_holds(
    unit: PluginSchedulingUnit, groups: Sequence[AffinityGroup], candidates: Sequence[CandidateCluster], work: Work
) -> PluginAnswer[SelectResponse]:
    """Select the clusters of the first group that can run the workload."""
    reasons = []
    tiers_of = tiers_by(groups, [each.cluster for each in candidates], work)
    for group in groups:
        work.begin_group()
        chosen = _chosen_of(unit, candidates, tiers_of(group), work)
        if not isinstance(chosen, str):
            return PluginAnswer(SelectResponse(chosen), "selected", unit=unit, group=group.name)
        reasons.append(f"{group.name}: {chosen}")
    more = f"; and {len(reasons) - _REASONS_SHOWN} more groups" if len(reasons) > _REASONS_SHOWN else ""
    return _failed(f"no group can hold the workload: {'; '.join(reasons[:_REASONS_SHOWN])}{more}", unit)


def _chosen_of(
    unit: PluginSchedulingUnit, candidates: Sequence[CandidateCluster], tiers: Sequence[int | None], work: Work
) -> list[str] | str:
    """Return the chosen clusters of a group, with as few tiers as possible, or why they cannot run the workload."""
    chosen: list[str] | str = choose(unit, [])
    for last in sorted({tier for tier in tiers if tier is not None}):
        within = [each for each, tier in zip(candidates, tiers, strict=True) if tier is not None and tier <= last]
        work.spend(_CHOICE_STEPS * len(within))
        chosen = choose(unit, within)
        if not isinstance(chosen, str):
            break
    return chosen


def _failed(error: str, unit: PluginSchedulingUnit | None = None) -> PluginAnswer[SelectResponse]:
    return PluginAnswer(SelectResponse([], error), "failed", error, unit=unit)


def _candidates(request: SelectRequest) -> list[CandidateCluster]:
    unit = request.scheduling_unit
    placements = {each.cluster: each for each in unit.placements}
    requests = requests_of(unit.resource_request)
    repelled = cache(lambda taints: bool(repelling_taints(taints, unit.tolerations, NO_SCHEDULE_ONLY)))
    return [
        _candidate(unit, requests, repelled, each, placements.get(each.cluster.metadata.name))
        for each in request.cluster_scores
    ]


def _candidate(
    unit: PluginSchedulingUnit,
    requests: Requests,
    repelled: Callable[[tuple[Taint, ...]], bool],
    scored: ClusterScore,
    placement: ClusterPlacement | None,
) -> CandidateCluster:
    cluster = cluster_of(scored.cluster)
    preferences = placement.preferences if placement is not None else PlacementPreferences()
    minimum = preferences.min_replicas
    if preferences.max_replicas is not None:
        minimum = min(minimum, preferences.max_replicas)
    maximum = preferences.max_replicas
    capacity = capacity_of(unit, requests, cluster, maximum, repelled=repelled(cluster.spec.taints))
    return CandidateCluster(cluster, scored.score, minimum, capacity)
