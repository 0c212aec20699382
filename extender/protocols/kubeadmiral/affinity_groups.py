"""The groups of an object, in the annotation ``policy.berthmaster.io/cluster-affinities``.

KubeAdmiral has no groups. The annotation is a JSON list of Karmada's ClusterAffinityTerms.

A FederatedCluster has no provider, region or zones: field selectors use the labels ``topology.kubernetes.io/region``
and ``topology.kubernetes.io/zone`` instead.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np

from berthmaster.model.affinity import AffinityTerm, ClusterAffinityTerm
from berthmaster.model.cluster import Cluster, ClusterSpec, ClusterStatus
from berthmaster.model.cluster_node import REGION_LABEL, ZONE_LABEL
from berthmaster.model.decode import convert, decode_json
from berthmaster.model.errors import FieldError, shown
from berthmaster.model.kubeadmiral.clusters import as_summary
from berthmaster.model.meta import with_spec
from berthmaster.model.placement import Placement
from berthmaster.model.placement_limits import DEFAULT_LIMITS, PlacementLimits, placement_excess
from berthmaster.model.unknown_fields import unknown_fields
from berthmaster.model.validation import affinity_errors
from berthmaster.scheduling.compiled_placement import AffinityColumn
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.steps import AFFINITY_STEPS, CANDIDATE_STEPS, Work
from extender.protocols.kubeadmiral.wire import Member

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
