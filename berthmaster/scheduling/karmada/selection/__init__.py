"""Selection: which of the clusters that fit get the workload, by spread constraints (karmada ``spreadconstraint``)."""

from berthmaster.scheduling.candidates import Candidates
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.decision import Failure, FailureKind
from berthmaster.scheduling.karmada.plan import karmada_plan
from berthmaster.scheduling.karmada.selection.by_cluster import select_by_cluster
from berthmaster.scheduling.karmada.selection.by_region import select_by_region
from berthmaster.scheduling.plan import Strategy


def select(context: Context, candidates: Candidates) -> Candidates | Failure:
    """The selected ones, in the order of selection, or why the constraints cannot be met."""
    request, plan = context.request, karmada_plan(context.plan)
    if not plan.constrained:
        return candidates
    if "region" in plan.spread:
        return select_by_region(plan, request, candidates)
    if "cluster" in plan.spread:
        # Without division every selected cluster takes all replicas, so that capacity does not matter here.
        needed = None if plan.strategy is Strategy.DUPLICATED else request.replicas
        return select_by_cluster(plan.spread["cluster"], needed, candidates)
    fields = sorted(
        each.spread_by_field or f"label {each.spread_by_label}" for each in plan.placement.spread_constraints
    )
    return Failure(
        FailureKind.SELECT_FAILED,
        f"cannot spread by {' and '.join(fields)} alone: a constraint on cluster or region is needed",
    )
