"""What the moves of a plan do to clusters."""

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec.structs

from berthmaster.model.cluster import Cluster
from berthmaster.simulation.plan import ClusterTotal, cluster_totals
from berthmaster.simulation.plan_index import PlanIndex
from berthmaster.simulation.plan_rows import PlannedWorkload


def changed_clusters(
    index: PlanIndex, clusters: Mapping[str, Cluster], rows: Sequence[PlannedWorkload]
) -> list[ClusterTotal]:
    """Return the clusters whose replicas change, or that get copies, ordered by name.

    Args:
        index: the world before the change.
        clusters: the clusters after the change.
        rows: the workloads that the change concerns.
    """
    moving = [each for each in rows if each.moves]
    touched = {name for each in moving for name in each.moves}
    # Both results are needed for the sums; a workload that is new or deleted has only one.
    pairs = [(each.before, each.after) for each in moving if each.before is not None and each.after is not None]
    sums = cluster_totals(
        (cluster for name, cluster in clusters.items() if name in touched),
        [before for before, _ in pairs],
        [after for _, after in pairs],
    )
    change = _changes(moving)
    present = index.replicas
    return [
        msgspec.structs.replace(each, before=present[each.cluster], after=present[each.cluster] + change[each.cluster])
        for each in sums
    ]


def _changes(moving: Sequence[PlannedWorkload]) -> Counter[str]:
    found: Counter[str] = Counter()
    for each in moving:
        for name, (then, now) in each.moves.items():
            found[name] += (now or 0) - (then or 0)
    return found
