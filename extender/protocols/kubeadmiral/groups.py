"""Ordered groups of clusters for KubeAdmiral.

KubeAdmiral has no groups. An object defines them in the annotation ``policy.berthmaster.io/cluster-affinities``, a JSON
list of Karmada's ClusterAffinityTerms. A FederatedCluster has no provider, region or zones: field selectors use the
labels ``topology.kubernetes.io/region`` and ``topology.kubernetes.io/zone`` instead.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from berthmaster.model.cluster import Cluster, ClusterSpec, ClusterStatus
from berthmaster.model.decode import convert, decode_json, unknown_fields
from berthmaster.model.errors import FieldError
from berthmaster.model.kubeadmiral import as_summary
from berthmaster.model.placement import AffinityTerm, ClusterAffinityTerm
from berthmaster.model.validation import affinity_errors
from extender.protocols.kubeadmiral.wire import Member

ANNOTATION: Final = "policy.berthmaster.io/cluster-affinities"
REGION_LABEL: Final = "topology.kubernetes.io/region"
ZONE_LABEL: Final = "topology.kubernetes.io/zone"

_PATH: Final = f"metadata.annotations[{ANNOTATION}]"
_CACHE_SIZE: Final = 256
_MAX_CACHED_LENGTH: Final = 8192
_Terms: Final[Any] = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class AffinityGroup:
    """A group of clusters.

    Attributes:
        name: the name of the affinity.
        tiers: the affinity itself, then its overflow affinities in order.
    """

    name: str
    tiers: tuple[AffinityTerm, ...]

    def tier(self, cluster: Cluster) -> int | None:
        return next((index for index, term in enumerate(self.tiers) if term.matches(cluster)), None)


def groups_of(annotations: Mapping[str, str]) -> tuple[AffinityGroup, ...]:
    """Return the groups in the annotations of an object; empty without the annotation.

    Raises:
        FieldError: the annotation is not a list of terms, or has a duplicate name, an unknown field or an invalid
            selector. With the last two, a group could match all clusters, or none.
    """
    text = annotations.get(ANNOTATION)
    if text is None:
        return ()
    return _cached(text) if len(text) <= _MAX_CACHED_LENGTH else _parsed(text)


def group_of(groups: Sequence[AffinityGroup], cluster: Cluster) -> tuple[int, str] | None:
    """Return the number of tiers before the first that matches a cluster, and its group; None if no tier matches."""
    before = 0
    for group in groups:
        tier = group.tier(cluster)
        if tier is not None:
            return before + tier, group.name
        before += len(group.tiers)
    return None


def cluster_of(member: Member) -> Cluster:
    """Return a member as a cluster, with the region and zone of its labels."""
    labels = member.metadata.labels
    zone = labels.get(ZONE_LABEL)
    return Cluster(
        member.metadata,
        spec=ClusterSpec(
            region=labels.get(REGION_LABEL, ""),
            zones=(zone,) if zone is not None else (),
            taints=member.spec.taints,
        ),
        status=ClusterStatus(resource_summary=as_summary(member.status.resources)),
    )


def _parsed(text: str) -> tuple[AffinityGroup, ...]:
    try:
        raw = decode_json(_Terms, text)
        terms = convert(tuple[ClusterAffinityTerm, ...], raw)
        for index, (term, entry) in enumerate(zip(terms, raw, strict=True)):
            for error in _term_errors(term, entry):
                raise error.below(f"[{index}]")
    except FieldError as error:
        raise error.below(_PATH) from None
    names = [term.affinity_name for term in terms]
    duplicate = next((name for name in names if names.count(name) > 1), None)
    if duplicate is not None:
        raise FieldError(_PATH, f"{duplicate!r} names two groups; accepted are unique names")
    return tuple(
        AffinityGroup(term.affinity_name, (AffinityTerm(term), *map(AffinityTerm, term.overflow_affinities or ())))
        for term in terms
    )


def _term_errors(term: ClusterAffinityTerm, raw: Mapping[str, Any]) -> Iterator[FieldError]:
    yield from unknown_fields(ClusterAffinityTerm, raw)
    yield from affinity_errors(term)
    for index, overflow in enumerate(term.overflow_affinities or ()):
        for error in affinity_errors(overflow):
            yield error.below(f"overflowAffinities[{index}]")


_cached: Final = lru_cache(maxsize=_CACHE_SIZE)(_parsed)
"""The requests of one scheduling attempt contain the same annotation. Number and length of cached texts are limited."""
