"""Berthmaster as a scheduler webhook plugin of KubeAdmiral (payload version v1alpha1).

KubeAdmiral runs its own filters first. The plugin adds ordered groups. For an object without the annotation every
cluster passes with score 0, and select only applies ``maxClusters``.

KubeAdmiral has no groups. An object defines them in the annotation ``policy.berthmaster.io/cluster-affinities``, a JSON
list of Karmada's ClusterAffinityTerms. A FederatedCluster has no provider, region or zones: field selectors use the
labels ``topology.kubernetes.io/region`` and ``topology.kubernetes.io/zone`` instead.

KubeAdmiral's reaction to an error decides the answer (extender-protocols 1.9). An error of filter rejects the cluster
and may remove the workload from it, so by default a cluster passes if filter cannot decide. An error of score or select
changes nothing and KubeAdmiral retries, so these return the error.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from itertools import accumulate
from typing import Any, Final, Generic, NamedTuple, TypeVar

import numpy as np

from berthmaster.model.cluster import (
    NO_SCHEDULE,
    REGION_LABEL,
    ZONE_LABEL,
    Cluster,
    ClusterSpec,
    ClusterStatus,
    Toleration,
    repelling_taints,
)
from berthmaster.model.decode import convert, decode_json, encode_json, unknown_fields
from berthmaster.model.errors import FieldError, shown
from berthmaster.model.kubeadmiral import (
    ClusterSelectorTerm,
    FederatedClusterResources,
    FederatedClusterSpec,
    as_summary,
)
from berthmaster.model.meta import INT64_MAX, Int64, ObjectMeta, Quantity, Value, with_spec
from berthmaster.model.policy import AffinityTerm, ClusterAffinityTerm, Placement
from berthmaster.model.validation import DEFAULT_LIMITS, OPTION, PlacementLimits, affinity_errors, placement_excess
from berthmaster.native_api.wire import Problem
from berthmaster.runtime.logs import fields
from berthmaster.scheduling.columns import AFFINITY_STEPS, CANDIDATE_STEPS, PYTHON_STEPS, TooLargeError, Work
from berthmaster.scheduling.fleet import AffinityColumn, Fleet
from berthmaster.scheduling.resources import Requests, free_amount, requests_of
from extender.protocols.route import Handler, Refuser, Reply, Route, is_light, problem_reply
from extender.protocols.services import Call, Services

MAX_CLUSTERS: Final = 10_000
_ONE_EACH: Final = b'"metadata"'
"""Each cluster of a request has one; names of managed fields have a prefix."""


class PlacementPreferences(Value, frozen=True):
    """The limits and the weight of a cluster. KubeAdmiral never sends a priority."""

    min_replicas: Int64 = 0
    max_replicas: Int64 | None = None
    weight: Int64 | None = None


class ClusterPlacement(Value, frozen=True):
    """A cluster of the policy's placement list."""

    cluster: str
    preferences: PlacementPreferences = PlacementPreferences()


class PluginSchedulingUnit(Value, frozen=True):
    """The object to schedule. ``desired_replicas`` is set in mode Divide only. Lists are in random order."""

    api_version: str = ""
    kind: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    scheduling_mode: str = ""
    desired_replicas: Int64 | None = None
    resource_request: dict[str, Quantity] = {}
    current_clusters: tuple[str, ...] = ()
    current_replica_distribution: dict[str, Int64] = {}
    cluster_selector: dict[str, str] = {}
    cluster_affinity: tuple[ClusterSelectorTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    max_clusters: Int64 | None = None
    placements: tuple[ClusterPlacement, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class MemberStatus(Value, frozen=True):
    """The part of a cluster's status that groups use."""

    resources: FederatedClusterResources = FederatedClusterResources()


class Member(Value, frozen=True):
    """The part of a FederatedCluster that groups use. The hundreds of resource kinds are not decoded."""

    metadata: ObjectMeta
    spec: FederatedClusterSpec = FederatedClusterSpec()
    status: MemberStatus = MemberStatus()


class ClusterRequest(Value, frozen=True):
    """A filter or score request: one cluster."""

    scheduling_unit: PluginSchedulingUnit
    cluster: Member


class ClusterScore(Value, frozen=True):
    """A cluster with the sum of its scores."""

    cluster: Member
    score: Int64 = 0


class SelectRequest(Value, frozen=True):
    """A select request: all remaining clusters. The list is required: an absent list must not select nothing."""

    scheduling_unit: PluginSchedulingUnit
    cluster_scores: tuple[ClusterScore, ...]


class FilterResponse(Value, frozen=True, omit_defaults=False):
    """Whether the cluster may be selected. An error rejects it."""

    selected: bool
    error: str = ""


class ScoreResponse(Value, frozen=True, omit_defaults=False):
    """The score of the cluster. KubeAdmiral requires an integer literal, and scales the best score to 100."""

    score: int
    error: str = ""


class SelectResponse(Value, frozen=True, omit_defaults=False):
    """The selected clusters, the best first. An empty list places nothing; an error changes nothing."""

    selected_cluster_names: list[str]
    error: str = ""


ANNOTATION: Final = "policy.berthmaster.io/cluster-affinities"

_PATH: Final = f"metadata.annotations[{ANNOTATION}]"
_SMALL_LENGTH: Final = 8192
_SMALL_KEPT: Final = 256
_LARGE_KEPT: Final = 8
_MAX_LENGTH: Final = 256 * 1024  # Kubernetes' limit for all annotations of an object together
_FEW: Final = 16
_Terms: Final[Any] = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class AffinityGroup:
    """A group of clusters. ``tiers`` is the affinity itself, then its overflow affinities in order."""

    name: str
    tiers: tuple[AffinityTerm, ...]

    def tier(self, cluster: Cluster) -> int | None:
        return next((index for index, term in enumerate(self.tiers) if term.matches(cluster)), None)


def groups_of(annotations: Mapping[str, str], limits: PlacementLimits = DEFAULT_LIMITS) -> tuple[AffinityGroup, ...]:
    """Return the groups in the annotations of an object; empty without the annotation.

    Raises:
        FieldError: the annotation is not a list of terms, is larger than the limits, or has a duplicate name, an
            unknown field or an invalid selector. With the last two, a group could match all clusters, or none.
    """
    text = annotations.get(ANNOTATION)
    if text is None:
        return ()
    if len(text) > _MAX_LENGTH:
        raise FieldError(_PATH, f"has {len(text)} characters; accepted are at most {_MAX_LENGTH}")
    return _small(text, limits) if len(text) <= _SMALL_LENGTH else _large(text, limits)


def group_of(groups: Sequence[AffinityGroup], cluster: Cluster) -> tuple[int, str] | None:
    """Return the number of tiers before the first that matches a cluster, and its group; None if no tier matches."""
    before = 0
    for group in groups:
        tier = group.tier(cluster)
        if tier is not None:
            return before + tier, group.name
        before += len(group.tiers)
    return None


def tiers_by(
    groups: Sequence[AffinityGroup], clusters: Sequence[Cluster], work: Work
) -> Callable[[AffinityGroup], Sequence[int | None]]:
    """Return a function from a group to the tier of each cluster in it; None for a cluster that is not in the group.

    Few parts of groups, or few clusters, are compared one by one. Of many the columns of a fleet are faster. ``work``
    counts the steps of each call, which raises TooLargeError above its limit.
    """
    # For each part of an affinity, the clusters are compared one by one.
    terms = [term for group in groups for term in group.tiers]
    parts = sum(1 + len(term.labels) + len(term.fields) + len(term.zones) for term in terms)
    if len(clusters) <= _FEW or parts <= _FEW:
        return lambda group: [group.tier(cluster) for cluster in clusters]
    fleet = Fleet(clusters)
    rows = np.array([fleet.row_of[cluster.name] for cluster in clusters], dtype=np.int64)

    def tiers_of(group: AffinityGroup) -> Sequence[int | None]:
        found = np.full(len(rows), len(group.tiers), dtype=np.int64)
        for tier in range(len(group.tiers) - 1, -1, -1):
            column = AffinityColumn(fleet, group.tiers[tier])
            work.spend(AFFINITY_STEPS + column.steps(fleet.capacity) + CANDIDATE_STEPS * len(rows))
            found[column.compute()[rows]] = tier
        return [tier if tier < len(group.tiers) else None for tier in found.tolist()]

    return tiers_of


def cluster_of(member: Member) -> Cluster:
    """Return a member as a cluster, with the region and zone of its labels."""
    return located(
        Cluster(
            member.metadata,
            spec=ClusterSpec(taints=member.spec.taints),
            status=ClusterStatus(resource_summary=as_summary(member.status.resources)),
        )
    )


def located(cluster: Cluster) -> Cluster:
    """Return a cluster with the region and zone of its labels."""
    labels = cluster.metadata.labels
    zone = labels.get(ZONE_LABEL)
    return with_spec(cluster, region=labels.get(REGION_LABEL, ""), zones=(zone,) if zone is not None else ())


def _parsed(text: str, limits: PlacementLimits) -> tuple[AffinityGroup, ...]:
    try:
        raw = decode_json(_Terms, text)
        terms = convert(tuple[ClusterAffinityTerm, ...], raw)
        for error in _errors(terms, raw, limits):
            raise error
    except FieldError as error:
        raise error.below(_PATH) from None
    counts = Counter(term.affinity_name for term in terms)
    duplicate = next((name for name, count in counts.items() if count > 1), None)
    if duplicate is not None:
        raise FieldError(_PATH, f"{shown(duplicate)} names two groups; accepted are unique names")
    return tuple(
        AffinityGroup(term.affinity_name, (AffinityTerm(term), *map(AffinityTerm, term.overflow_affinities or ())))
        for term in terms
    )


def _errors(
    terms: tuple[ClusterAffinityTerm, ...], raw: Sequence[Mapping[str, Any]], limits: PlacementLimits
) -> Iterator[FieldError]:
    for error in placement_excess(Placement(cluster_affinities=terms), limits):
        yield FieldError(error.path.removeprefix("clusterAffinities"), error.problem)
    for index, (term, entry) in enumerate(zip(terms, raw, strict=True)):
        found = [*unknown_fields(ClusterAffinityTerm, entry), *affinity_errors(term)]
        for number, overflow in enumerate(term.overflow_affinities or ()):
            found += [error.below(f"overflowAffinities[{number}]") for error in affinity_errors(overflow)]
        yield from (error.below(f"[{index}]") for error in found)


_small: Final = lru_cache(maxsize=_SMALL_KEPT)(_parsed)
_large: Final = lru_cache(maxsize=_LARGE_KEPT)(_parsed)
"""The requests of one scheduling attempt contain the same annotation. Number and length of cached texts are limited."""


DIVIDE: Final = "Divide"

NO_SCHEDULE_ONLY: Final = frozenset({NO_SCHEDULE})
_MAX_STEPS: Final = 2048


@dataclass(frozen=True, slots=True)
class CandidateCluster:
    """A cluster that select may choose. It can run ``capacity`` replicas, by its limits and its resources."""

    cluster: Cluster
    score: int
    min_replicas: int
    capacity: int


def capacity_of(
    unit: PluginSchedulingUnit, requests: Requests, cluster: Cluster, maximum: int | None, *, repelled: bool
) -> int:
    """Return how many replicas a cluster can run: its current replicas and those that fit its available resources.

    A cluster with a NoSchedule taint that is not tolerated keeps its current replicas. KubeAdmiral adds none.
    """
    summary = cluster.status.resource_summary
    fits = INT64_MAX
    for name, amount in requests:
        free = free_amount(summary, name) if summary is not None else 0
        fits = min(fits, max(0, free) // amount)
        if not fits:
            break  # a workload may request many resources that no cluster has
    running = _running(unit, cluster.name)
    fits = running if repelled else min(INT64_MAX, fits + running)
    return fits if maximum is None else min(fits, maximum)


def choose(unit: PluginSchedulingUnit, candidates: Sequence[CandidateCluster]) -> list[str] | str:
    """Return the clusters of a group that take the workload, the best first, or why they cannot.

    The clusters with the best scores come first. If these cannot run all replicas, the clusters with the largest
    capacity come first. A cluster without capacity, or with less capacity than its minimum, is not chosen.
    """
    if not candidates:
        return "none of its clusters is left"
    limit = len(candidates) if unit.max_clusters is None else unit.max_clusters
    by_score = sorted(candidates, key=lambda each: (-each.score, each.cluster.name))
    if unit.scheduling_mode != DIVIDE or not unit.desired_replicas or limit <= 0:
        return [each.cluster.name for each in by_score[: max(0, limit)]]
    usable = [each for each in by_score if each.capacity >= max(1, each.min_replicas)]
    most = 0
    for order in _orders(usable, unit.desired_replicas, limit):
        chosen = _within_minima(order, unit.desired_replicas, limit)
        capacity = sum(each.capacity for each in chosen.values())
        if capacity >= unit.desired_replicas:
            return [each.cluster.name for each in by_score if each.cluster.name in chosen]
        most = max(most, capacity)
    return f"{min(limit, len(usable))} of its clusters hold {most} of {unit.desired_replicas} replicas"


def _running(unit: PluginSchedulingUnit, name: str) -> int:
    """Return the replicas of a cluster. KubeAdmiral sends 0 for a cluster that has all replicas."""
    number = unit.current_replica_distribution.get(name)
    if number is None:
        return 0
    return number or unit.desired_replicas or 0


def _orders(usable: Sequence[CandidateCluster], replicas: int, limit: int) -> Iterator[Sequence[CandidateCluster]]:
    yield usable
    by_capacity = sorted(usable, key=lambda each: -each.capacity)
    yield by_capacity
    sufficient = _sufficient(by_capacity, replicas, limit)
    yield sorted(by_capacity, key=lambda each: each.cluster.name not in sufficient)


def _sufficient(by_capacity: Sequence[CandidateCluster], replicas: int, limit: int) -> set[str]:
    """Return the names of clusters that can run all replicas, with all their minima; empty if none are found.

    The clusters with the largest capacity may be wrong, if their minima leave too few replicas for others. The search
    is bounded.
    """
    totals = [0, *accumulate(each.capacity for each in by_capacity)]
    branches = [_Branch(0, 0, replicas, 0, None)]
    for _ in range(_MAX_STEPS):
        if not branches:
            break
        branch = branches.pop()
        if branch.capacity >= replicas:
            return branch.names()
        start, chosen, left, capacity, _ = branch
        reachable = totals[min(len(by_capacity), start + limit - chosen)] - totals[start]
        if capacity + reachable < replicas:
            continue
        each = by_capacity[start]
        branches.append(branch._replace(start=start + 1))
        if each.min_replicas <= left:
            taken = each.cluster.name, branch.taken
            branches.append(_Branch(start + 1, chosen + 1, left - each.min_replicas, capacity + each.capacity, taken))
    return set()


class _Branch(NamedTuple):
    """A part of the search: ``taken`` is the last chosen cluster and, in the same form, those before it."""

    start: int
    chosen: int
    left: int
    capacity: int
    taken: tuple[str, Any] | None

    def names(self) -> set[str]:
        names, taken = set(), self.taken
        while taken is not None:
            name, taken = taken
            names.add(name)
        return names


def _within_minima(order: Sequence[CandidateCluster], replicas: int, limit: int) -> dict[str, CandidateCluster]:
    """Return the first clusters whose minima do not exceed the replicas, by name."""
    chosen: dict[str, CandidateCluster] = {}
    left = replicas
    for each in order:
        if len(chosen) < limit and each.min_replicas <= left:
            chosen[each.cluster.name] = each
            left -= each.min_replicas
    return chosen


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
