"""What a workload passes through while its policy and its template change one after the other. Pure functions.

Karmada's detector writes a binding when it sees a changed policy, and again when it sees a changed template. A
scheduler may place the workload in between: with the new placement and the old replicas, or the other way round.
"""

from collections.abc import Callable, Iterator, Mapping

from msgspec.structs import replace

from berthmaster.model.binding import Binding, BindingSpec
from berthmaster.model.meta import with_spec
from berthmaster.simulation.results import PlannedWorkload
from berthmaster.simulation.workload import SimulatedWorkload


def dips_of(
    planned: PlannedWorkload,
    changed: SimulatedWorkload,
    decided: Callable[[SimulatedWorkload], Mapping[str, int]],
) -> dict[str, int]:
    """Return the clusters that may have fewer replicas for a while than before and after, and how many.

    Args:
        planned: the workload with its decisions.
        changed: the workload after the changes, before a scheduler looks at it.
        decided: returns where a workload goes after the changes.
    """
    before, after = planned.before.assignment, planned.after.assignment
    kept = {name: min(count, after[name]) for name, count in before.items() if after.get(name)}
    found: dict[str, int] = {}
    for binding in _between(planned.before.workload.binding, changed.binding) if any(kept.values()) else ():
        passed = decided(replace(changed, binding=binding))
        for name, least in kept.items():
            if (count := passed.get(name, 0)) < found.get(name, least):
                found[name] = count
    return found


def _between(before: Binding | None, after: Binding | None) -> Iterator[Binding]:
    """Yield the bindings that Karmada may write before the last one; none unless placement and template change."""
    if before is None or after is None or before.spec.placement == after.spec.placement:
        return
    old, new = _of_template(before.spec), _of_template(after.spec)
    if old != new:
        yield with_spec(after, **old)
        yield with_spec(before, **new)


def _of_template(spec: BindingSpec) -> dict[str, object]:
    """Return what the detector takes from a template into a binding, as far as decisions read it."""
    return {
        "replicas": spec.replicas, "replica_requirements": spec.replica_requirements, "components": spec.components,
    }  # fmt: skip
