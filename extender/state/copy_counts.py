"""How many replicas the copies of workloads have: those that Karmada assigns, or those that overrides set."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from berthmaster.deciding.running import existing, replicas_asked
from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.overrides import OverridePolicy, replicas_set
from berthmaster.model.replicas import Template
from berthmaster.simulation.overriding import all_overridden
from berthmaster.simulation.workload import SimulatedWorkload


class CopyCounts(NamedTuple):
    """The overrides that set replicas, and what they select from.

    Attributes:
        metadata_of: returns the metadata of the resource template of a binding; empty if it is not known.
    """

    overrides: tuple[OverridePolicy, ...] = ()
    clusters: Mapping[str, Cluster] = {}
    metadata_of: Callable[[Binding], Mapping[str, Any]] = lambda _: {}

    def existing(self, binding: Binding) -> dict[str, int]:
        """Return the replicas by cluster of the copies that exist where a binding is assigned."""
        assigned = binding.deployed
        return existing(binding, assigned, self._set(binding, assigned) if self.overrides else {})

    def asked(self, binding: Binding) -> int:
        """Return the replicas that a divided workload asks for."""
        assigned = binding.deployed
        return replicas_asked(binding, assigned, self._set(binding, assigned) if self.overrides else {})

    def _set(self, binding: Binding, names: Iterable[str]) -> Mapping[str, int]:
        resource = binding.spec.resource
        labels = self.metadata_of(binding).get("labels") or {}
        template = Template(resource.api_version, resource.kind, resource.name, resource.namespace, labels)
        known = {each: self.clusters[each] for each in {*names, *binding.evicted_from} if each in self.clusters}
        return replicas_set(self.overrides, template, known)


AS_ASSIGNED: Final = CopyCounts()


class OverriddenWorkloads:
    """Workloads with the replicas that overrides set. The same list returns while nothing changes: indexes compare it.

    It is safe for several threads: one that loses a race computes the same list again.
    """

    def __init__(self) -> None:
        self._known: tuple[Sequence[SimulatedWorkload], CopyCounts, Sequence[SimulatedWorkload]] | None = None

    def of(self, workloads: Sequence[SimulatedWorkload], counts: CopyCounts) -> Sequence[SimulatedWorkload]:
        if not counts.overrides:
            return workloads
        known = self._known
        if known is None or known[0] is not workloads or not _select_the_same(known[1], counts):
            known = workloads, counts, all_overridden(workloads, counts.overrides, counts.clusters)
            self._known = known
        return known[2]


def _select_the_same(before: CopyCounts, after: CopyCounts) -> bool:
    if before.overrides is not after.overrides:
        return False
    return before.clusters is after.clusters or _selected(before) == _selected(after)


def _selected(counts: CopyCounts) -> list[list[str]]:
    """Return the names of the clusters that each rule of the overrides selects."""
    terms = [each.term for policy in counts.overrides for each in policy.replicas]
    return [
        [name for name, cluster in counts.clusters.items() if term is None or term.matches(cluster)] for term in terms
    ]
