"""Assignment: how many replicas each selected cluster gets (karmada ``assignment.go``, ``division_algorithm.go``)."""

from berthmaster.scheduling.candidates import Candidates
from berthmaster.scheduling.columns import IntArray
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.decision import Failure, FailureKind
from berthmaster.scheduling.karmada.assignment.division import divide
from berthmaster.scheduling.karmada.plan import KarmadaPlan, karmada_plan
from berthmaster.scheduling.request import Request


def assign(context: Context, selected: Candidates) -> dict[str, int] | Failure:
    """Replicas by cluster, or why they cannot be placed.

    A workload without replicas goes to every selected cluster, with 0 of them; for one with replicas, clusters that
    get none are left out.
    """
    if not len(selected):
        return Failure(FailureKind.SELECT_FAILED, "the spread constraints select no cluster")
    request, plan = context.request, karmada_plan(context.plan)
    if not request.divides_replicas:
        return dict.fromkeys(selected.names(), 0)
    # The tiers follow the observed term, which a single clusterAffinity hides.
    if context.group.overflow is not None and plan.placement.cluster_affinity is None:
        return _tier_by_tier(plan, request, selected.ordered())
    return divide(plan, request, selected, request.replicas)


def _tier_by_tier(plan: KarmadaPlan, request: Request, selected: Candidates) -> dict[str, int] | Failure:
    """Fill the group's own clusters first, then those of each overflow affinity in its turn."""
    assignment: dict[str, int] = {}
    remaining = request.replicas
    for positions in _tiers(selected):
        tier = selected.at(positions)
        replicas = min(remaining, int(tier.available.sum()))
        divided = divide(plan, request, tier, replicas)
        if isinstance(divided, Failure):
            return divided
        assignment.update(divided)
        remaining -= replicas
        if not remaining:
            return assignment
    return Failure(
        FailureKind.INSUFFICIENT,
        f"{remaining} of {request.replicas} replicas find no room, neither in the group nor in its overflow",
    )


def _tiers(selected: Candidates) -> list[IntArray]:
    """The positions of each tier's clusters, in order."""
    if selected.tiers is None:
        return [selected.positions()]
    tiers = selected.tiers
    return [(tiers == tier).nonzero()[0] for tier in sorted(set(tiers.tolist()))]
