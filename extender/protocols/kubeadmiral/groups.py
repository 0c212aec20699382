"""Groups of clusters in order, for KubeAdmiral: which group a cluster is in.

KubeAdmiral has no groups. An object asks for them with the annotation ``policy.berthmaster.io/cluster-affinities``, a
JSON list of Karmada's ClusterAffinityTerms. FederatedClusters have no provider, region or zones, so that field
selectors see what labels say of these (``topology.kubernetes.io/region``, ``topology.kubernetes.io/zone``).
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
_KEPT: Final = 256
_MAX_KEPT_LENGTH: Final = 8192
_Terms: Final[Any] = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Group:
    """A group of clusters.

    Attributes:
        name: the affinity's name.
        tiers: what it means itself, then what widens it, in order, where that does not hold the workload.
    """

    name: str
    tiers: tuple[AffinityTerm, ...]

    def tier(self, cluster: Cluster) -> int | None:
        """The first tier that means a cluster; None if the group does not."""
        return next((index for index, term in enumerate(self.tiers) if term.matches(cluster)), None)


def groups_of(annotations: Mapping[str, str]) -> tuple[Group, ...]:
    """The groups that an object asks for; none if it asks for none.

    Raises:
        FieldError: the annotation is no list of terms, names a group twice, has an unknown field, or a broken selector.
            The last two would mean other clusters than their author did: all, or none.
    """
    text = annotations.get(ANNOTATION)
    if text is None:
        return ()
    return _remembered(text) if len(text) <= _MAX_KEPT_LENGTH else _parsed(text)


def place_of(groups: Sequence[Group], cluster: Cluster) -> int | None:
    """How many tiers, of all groups in order, come before the first that means a cluster; None if none does."""
    before = 0
    for group in groups:
        tier = group.tier(cluster)
        if tier is not None:
            return before + tier
        before += len(group.tiers)
    return None


def located(member: Member) -> Cluster:
    """A cluster as groups see it, with region and zones as its labels say."""
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


def _parsed(text: str) -> tuple[Group, ...]:
    try:
        raw = decode_json(_Terms, text)
        terms = convert(tuple[ClusterAffinityTerm, ...], raw)
        for index, (term, entry) in enumerate(zip(terms, raw, strict=True)):
            for error in _term_errors(term, entry):
                raise error.below(f"[{index}]")
    except FieldError as error:
        raise error.below(_PATH) from None
    names = [term.affinity_name for term in terms]
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled is not None:
        raise FieldError(_PATH, f"{doubled!r} names two groups; accepted are distinct names")
    return tuple(
        Group(term.affinity_name, (AffinityTerm(term), *map(AffinityTerm, term.overflow_affinities or ())))
        for term in terms
    )


def _term_errors(term: ClusterAffinityTerm, raw: Mapping[str, Any]) -> Iterator[FieldError]:
    yield from unknown_fields(ClusterAffinityTerm, raw)
    yield from affinity_errors(term)
    for index, overflow in enumerate(term.overflow_affinities or ()):
        for error in affinity_errors(overflow):
            yield error.below(f"overflowAffinities[{index}]")


_remembered: Final = lru_cache(maxsize=_KEPT)(_parsed)
"""An attempt asks about each cluster with the same annotation. What is remembered is bounded in number and length."""
