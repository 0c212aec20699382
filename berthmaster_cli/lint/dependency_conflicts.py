"""Policies whose workloads share a dependency, and that say different things about it.

A dependency without a policy of its own has one binding, whatever the number of workloads that need it. The simulation
says which workloads these are, and in which fields their policies differ (``simulation.workload.disputed``).
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from berthmaster.manifests import Document, Manifests
from berthmaster.model.errors import ManifestError
from berthmaster.model.holding import PolicyCatalog
from berthmaster.model.policy import Policy, PolicyReference
from berthmaster.model.policy_defaults import defaulted
from berthmaster.simulation.detector import WorkloadBuilder
from berthmaster.simulation.workload import DisputedField, SimulatedWorkload, disputed, leaders_of


class DependencyConflict(NamedTuple):
    """A policy whose value of a field does not count for a dependency, because another policy has one that does.

    Attributes:
        policy: whose value does not count.
        other: a policy whose value counts.
        dependency: the shared resource.
    """

    policy: PolicyReference
    other: PolicyReference
    field: DisputedField
    dependency: str


def dependency_conflicts(policies: Sequence[Policy], templates: Sequence[Document]) -> Iterator[DependencyConflict]:
    """Yield the conflicts between policies. A policy has one for each field, with the first dependency."""
    known = [defaulted(each) for each in policies]
    propagating = [each.spec for each in known if each.spec.propagate_deps]
    if len({(each.conflict_resolution, bool(each.preserve_resources_on_deletion)) for each in propagating}) < 2:
        return
    workloads = list(_workloads(known, templates))
    references = {each.reference for each in known}
    found: dict[tuple[PolicyReference, DisputedField], DependencyConflict] = {}
    for position, leading in sorted(leaders_of(workloads).items()):
        leaders = [workloads[each] for each in sorted(leading)]
        for field in disputed(workloads[position].binding, [each.binding for each in leaders]):
            counting = [each.held_by for each in leaders if field.counts_for(each.binding)]
            other = next((each for each in counting if each in references), None)
            for leader in leaders:
                policy = leader.held_by if not field.counts_for(leader.binding) else None
                if other is not None and policy is not None and policy in references:
                    conflict = DependencyConflict(policy, other, field, str(workloads[position]))
                    found.setdefault((policy, field), conflict)
    yield from found.values()


def _workloads(policies: Sequence[Policy], templates: Sequence[Document]) -> Iterator[SimulatedWorkload]:
    builder = WorkloadBuilder(Manifests(), catalog=PolicyCatalog(policies))
    for document in templates:
        try:
            yield builder.of_template(document)
        except ManifestError:
            continue  # simulations report it
