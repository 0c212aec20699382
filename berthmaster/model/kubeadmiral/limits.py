"""Limits on the size of KubeAdmiral's policies: those of placements."""

from berthmaster.model.errors import FieldError
from berthmaster.model.kubeadmiral.policies import KubeAdmiralSpec
from berthmaster.model.placement_limits import DEFAULT_LIMITS, PlacementLimits, excess, in_selectors


def kubeadmiral_excess(spec: KubeAdmiralSpec, limits: PlacementLimits = DEFAULT_LIMITS) -> list[FieldError]:
    """Return what exceeds the limits in the spec of a KubeAdmiral policy, in linear time. Paths start at ``spec``."""
    lists = [each for term in spec.cluster_affinity for each in (term.match_expressions, term.match_fields)]
    counts = [
        ("spec.clusterAffinity", len(spec.cluster_affinity), "groups", "terms"),
        ("spec.tolerations", len(spec.tolerations), "tolerations", ""),
        ("spec.placement", len(spec.placement), "cluster_names", "clusters"),
        *in_selectors("spec", len(spec.cluster_selector), lists),
    ]
    return excess(counts, limits)
