"""Berthmaster as a scheduler webhook plugin of KubeAdmiral: filter, score and select.

KubeAdmiral runs its own filters first. The plugin adds ordered groups (``affinity_groups``). For an object without the
annotation every cluster passes with score 0, and select only applies ``maxClusters``.

KubeAdmiral's reaction to an error decides the answer (extender-protocols 1.9). An error of filter rejects the cluster
and may remove the workload from it, so by default a cluster passes if filter cannot decide. An error of score or select
changes nothing and KubeAdmiral retries, so these return the error.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, Final, Generic, NamedTuple, TypeVar

from berthmaster.model.decode import decode_json, encode_json
from berthmaster.model.errors import FieldError
from berthmaster.model.meta import Value
from berthmaster.model.placement_limits import DEFAULT_LIMITS, OPTION, PlacementLimits
from berthmaster.model.taint import repelling_taints
from berthmaster.native_api.wire import Problem
from berthmaster.runtime.logs import fields
from berthmaster.scheduling.resources import requests_of
from berthmaster.scheduling.steps import PYTHON_STEPS, TooLargeError, Work
from extender.protocols.cheap_requests import is_light
from extender.protocols.kubeadmiral.affinity_groups import AffinityGroup, cluster_of, group_of, groups_of, tiers_by
from extender.protocols.kubeadmiral.selection import NO_SCHEDULE_ONLY, CandidateCluster, capacity_of, choose
from extender.protocols.kubeadmiral.wire import (
    ClusterRequest,
    FilterResponse,
    PlacementPreferences,
    PluginSchedulingUnit,
    ScoreResponse,
    SelectRequest,
    SelectResponse,
)
from extender.protocols.route import Handler, Refuser, Reply, Route, problem_reply
from extender.protocols.services import Call, Services

MAX_CLUSTERS: Final = 10_000
_ONE_EACH: Final = b'"metadata"'
"""Each cluster of a request has one; names of managed fields have a prefix."""
PROTOCOL: Final = "kubeadmiral"
PREFIX: Final = "/kubeadmiral/v1alpha1"
# KubeAdmiral reads every status except 200 as a failed call. With these statuses an authorized request was not
# understood, or not answered in time: the reply is 200 with a default answer. Other statuses are sent as they are.
_DEFAULTED: Final = frozenset({400, 408, 413, 500, 503})
_REASONS_SHOWN: Final = 16
_CHOICE_STEPS: Final = 6 * PYTHON_STEPS
R = TypeVar("R", FilterResponse, ScoreResponse, SelectResponse)


class Bounds(NamedTuple):
    """What the answer to a request may take. ``check`` is called between groups, and raises after the deadline."""

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


Decide = Callable[[bytes, Bounds], PluginAnswer[Any]]


def routes(*, pass_in_doubt: bool = True, limits: PlacementLimits = DEFAULT_LIMITS) -> Sequence[Route]:
    """Return the routes of the protocol.

    If ``pass_in_doubt``, a filter request that cannot be decided lets the cluster pass, because an error would remove
    the workload from it.
    """
    verbs: tuple[tuple[str, Decide, Callable[[str], Value]], ...] = (
        ("filter", partial(filter_cluster, pass_in_doubt=pass_in_doubt), partial(_filter_in_doubt, pass_in_doubt)),
        ("score", score_cluster, partial(ScoreResponse, 0)),
        ("select", select_clusters, partial(SelectResponse, [])),
    )
    return [
        Route("POST", f"{PREFIX}/{verb}", _handler(verb, limits, decide), PROTOCOL, refuse=_refuser(refused),
              brings_fleet=True, decodes_parts=True, cheap=is_light)
        for verb, decide, refused in verbs
    ]  # fmt: skip


def _refuser(refused: Callable[[str], Value]) -> Refuser:
    def refuse(problem: Problem) -> Reply:
        return Reply(encode_json(refused(problem.detail))) if problem.status in _DEFAULTED else problem_reply(problem)

    return refuse


def _handler(verb: str, limits: PlacementLimits, decide: Decide) -> Handler:
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


def _logged(answer: PluginAnswer[Any]) -> dict[str, object]:
    values: dict[str, object] = {
        "workload": str(answer.unit or ""), "result": answer.result, "group": answer.group, "error": answer.error,
    }  # fmt: skip
    if isinstance(answer.response, SelectResponse):
        return {**values, "clusters": answer.response.selected_cluster_names}
    return {**values, "cluster": answer.cluster}


def _filter_in_doubt(pass_in_doubt: bool, error: str) -> FilterResponse:  # noqa: FBT001 - of a partial function
    return FilterResponse(selected=pass_in_doubt, error="" if pass_in_doubt else error)


def _grouped(body: bytes, bounds: Bounds) -> tuple[ClusterRequest, Sequence[AffinityGroup], tuple[int, str] | None]:
    """Return a request about one cluster, the groups of its object, and the group of the cluster as ``group_of``."""
    request = decode_json(ClusterRequest, body)
    groups = groups_of(request.scheduling_unit.annotations, bounds.limits)
    return request, groups, group_of(groups, cluster_of(request.cluster))


def filter_cluster(
    body: bytes, bounds: Bounds = UNHURRIED, *, pass_in_doubt: bool = True
) -> PluginAnswer[FilterResponse]:
    """Decide whether a group matches the cluster."""
    try:
        request, groups, found = _grouped(body, bounds)
    except FieldError as error:
        return PluginAnswer(_filter_in_doubt(pass_in_doubt, str(error)), "doubtful", str(error))
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
        request, groups, found = _grouped(body, bounds)
    except FieldError as error:
        return PluginAnswer(ScoreResponse(score=0, error=str(error)), "failed", str(error))
    score = sum(len(group.tiers) for group in groups) - found[0] if found is not None else 0
    return PluginAnswer(
        ScoreResponse(score=score), "scored",
        unit=request.scheduling_unit, cluster=request.cluster.metadata.name, group=found[1] if found else "",
    )  # fmt: skip


def select_clusters(body: bytes, bounds: Bounds = UNHURRIED) -> PluginAnswer[SelectResponse]:
    """Select the clusters of the first group that can run the workload.

    If no group can, the answer is an error: nothing changes, and KubeAdmiral retries. Clusters are counted before they
    are decoded. Their bytes say nothing: most of them are the kinds that a cluster serves, which are skipped.
    """
    clusters = body.count(_ONE_EACH)
    if clusters > MAX_CLUSTERS:
        return _failed(f"clusterScores: about {clusters:,} clusters; at most {MAX_CLUSTERS:,} are read")
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
    unit, found = request.scheduling_unit, list[CandidateCluster]()
    placements = {each.cluster: each.preferences for each in unit.placements}
    requests = requests_of(unit.resource_request)
    repelled = cache(lambda taints: bool(repelling_taints(taints, unit.tolerations, NO_SCHEDULE_ONLY)))
    for scored in request.cluster_scores:
        cluster = cluster_of(scored.cluster)
        preferences = placements.get(cluster.name, PlacementPreferences())
        minimum, maximum = preferences.min_replicas, preferences.max_replicas
        capacity = capacity_of(unit, requests, cluster, maximum, repelled=repelled(cluster.spec.taints))
        least = minimum if maximum is None else min(minimum, maximum)
        found.append(CandidateCluster(cluster, scored.score, least, capacity))
    return found
