"""Answers of an extender for tests of the console's pages, with names that are hostile to HTML."""

from datetime import UTC, datetime, timedelta

from msgspec.structs import asdict

from berthmaster.model.decode import convert
from berthmaster.model.policy import Policy
from berthmaster.native_api.fleet import FleetCluster, FleetView
from berthmaster.native_api.what_if import PlanAnswer, PlanCounts
from berthmaster.native_api.why import (
    AllowedGroup,
    DriftView,
    ImpactView,
    MovesView,
    PolicyList,
    PolicyView,
    ResilienceView,
)
from berthmaster.native_api.wire import Staleness
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.simulation.drift import WorkloadDrift, summary
from berthmaster.simulation.failures import FailureDomain
from berthmaster.simulation.plan_answer import ALL_ON, Plan, PlannedMove, PlanSummary, UnplacedWorkload
from berthmaster.views.move_rows import BrakeReport, BudgetUse, MoveRow, RowState
from berthmaster.views.policy_rows import PolicyRow

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
FRESH = Staleness(NOW, None, "")
HOSTILE = '<script>alert("x")</script>\x1b[31m&\u202e'


def fleet_cluster(name, region="north", **fields):
    values = {
        "provider": "", "zones": (), "kubernetes_version": "", "ready": True, "ready_message": "", "deleting": False,
        "draining": False, "taints": (), "resources": {}, "workloads": 0, "replicas": 0, "by_group": [],
        "without_groups": 0, "arriving": 0, "leaving": 0, **fields,
    }  # fmt: skip
    return FleetCluster(name=name, region=region, **values)


def fleet_view(*names):
    return FleetView([fleet_cluster(each) for each in names], "1", [], FRESH)


def planned_move(resource="shop/Deployment/web", before=None, after=None, **fields):
    then, now = before or {"a": 2}, after or {"b": 2}
    moves = {name: (then.get(name), now.get(name)) for name in {**then, **now}}
    values = {
        "policy_before": None, "policy": None, "group_before": None, "group": None, "replicas": 2, "deleted": [],
        "preserved": [], "evicting": [], "trigger": Trigger.RECONCILE, "reason": "the cluster a is lost", **fields,
    }  # fmt: skip
    return PlannedMove(resource=resource, before=then, after=now, moves=moves, **values)


def plan_answer(*moves, unplaced=(), gaps=(), truncated=False, counts=None, **fields):
    lost = [each.resource for each in unplaced if each.nowhere]
    summary = PlanSummary(40, len(moves), 2 * len(moves), lost, [], lost)
    values = {"policies": [], "overcommitted": [], "clusters": [], "staying": [], **fields}
    plan = Plan(
        id="0123456789abcdef", summary=summary, concerned=len(moves), deleted_copies=0, complete=not gaps,
        gaps=list(gaps), unplaced=list(unplaced), moves=list(moves), **values,
    )  # fmt: skip
    whole = counts or PlanCounts(40, len(moves), len(moves), 0, len(lost), 0, 0, 0, 0)
    return PlanAnswer(whole, plan, truncated, FRESH)


def lost_workload(resource="shop/Deployment/cart"):
    return UnplacedWorkload(resource, "PropagationPolicy shop/all", nowhere=True, by_change=True, message="no room")


def impact(name, clusters=(), *, domain=FailureDomain.REGION, **fields):
    values = {
        "nowhere": [], "short": [], "staying": [], "moved": 0, "replicas": 0, "arriving": {}, "overcommitted": {},
        "only_copy": [], "assumptions": ALL_ON, **fields,
    }  # fmt: skip
    values.setdefault("totals", tuple(len(values[each]) for each in ("only_copy", "nowhere", "short", "staying")))
    return ImpactView(domain=domain, name=name, clusters=tuple(clusters), **values)


def resilience_view(*impacts, clusters=("a", "b"), failures=0, gaps=()):
    return ResilienceView(
        by=[FailureDomain.REGION], assumptions=ALL_ON, impacts=list(impacts), failures=failures or len(impacts),
        harmless=sum(each.harmless for each in impacts), workloads=40, clusters=list(clusters),
        computed_at=NOW - timedelta(minutes=2), gaps=list(gaps), version="1", staleness=FRESH,
    )  # fmt: skip


def move_row(workload="shop/Deployment/web", state=RowState.MOVING, **fields):
    values = {
        "binding": "web-deployment", "reason": "Failback", "phase": "Surging", "strategy": "MakeBeforeBreak",
        "source": {"a": 2}, "target": {"b": 2}, "since": NOW - timedelta(minutes=5), "namespace": "shop", **fields,
    }  # fmt: skip
    return MoveRow(workload=workload, state=state, **values)


def moves_view(*rows, **fields):
    counts = {state.value: sum(each.state is state for each in rows) for state in RowState}
    values = {
        "brake": BrakeReport(engaged=False), "sources": None, "budgets": [], "counts": counts, "matched": len(rows),
        **fields,
    }  # fmt: skip
    return MovesView(read_at=NOW, moves=list(rows), version="1", staleness=FRESH, **values)


def budget(**fields):
    values = {
        "name": "shop", "selects": "the namespace shop", "limits_failover": False, "moves": 2, "max_moves": None,
        "by_policy": {}, "max_moves_per_policy": None, "from_clusters": {}, "max_moves_from_cluster": None,
        "to_clusters": {}, "max_moves_to_cluster": None, "replicas_moving": 4, "replicas": None,
        "replicas_percent": None, "windows": [], "opens_at": None, "waiting": 0, **fields,
    }  # fmt: skip
    return BudgetUse(**values)


def policy_row(name="all", namespace="shop", **fields):
    values = {
        "priority": 0, "preemption": "Never", "scheduler": "default-scheduler", "groups": [], "selectors": ["all"],
        "deleting": False, "claims": 1, "claimed": ["shop/Deployment/web"], "findings": [], "takes": [], "loses": [],
        "drops": [], **fields,
    }  # fmt: skip
    kind = "PropagationPolicy" if namespace else "ClusterPropagationPolicy"
    return PolicyRow(kind=kind, namespace=namespace, name=name, **values)


def policy_view(row, groups=(), **placement):
    """A policy whose placement is in the form of the API, and what its groups allow: pairs of a name and clusters."""
    kind = {"kind": row.kind, "metadata": {"name": row.name, "namespace": row.namespace}}
    policy = convert(Policy, {**kind, "spec": {"resourceSelectors": [], "placement": placement}})
    allowed = [AllowedGroup(name, "", 3 + len(each), 2, 1, list(each), {}) for name, each in groups]
    return PolicyView(row, policy, allowed, None, [], "1", FRESH)


def policy_list(*rows, matched=None, total=None, gaps=()):
    count = len(rows)
    return PolicyList(list(rows), matched or count, total or count, list(gaps), "1", FRESH)


def workload_drift(resource="shop/Deployment/web", **fields):
    given = {
        "policy": "PropagationPolicy shop/web", "group": "backup", "kinds": {"NotFirstGroup": 4, "Weights": 1},
        "clusters": {"a": 3, "b": 1}, "minimal": {"a": 1, "c": 3}, "full": {"c": 4}, "moves": 3, "full_moves": 4,
        "is_exact": True, **fields,
    }  # fmt: skip
    return WorkloadDrift(resource, **given)


def drift_view(*drifts, **fields):
    found = asdict(summary(drifts))
    given = {"matched": len(found["workloads"]), "computed_at": NOW, "gaps": [], "version": "1", "staleness": FRESH}
    return DriftView(**{**found, **given, **fields})
