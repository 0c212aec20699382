"""Answers of the extender for tests of the console: a fleet, its workloads, and one workload in its second group."""

import itertools
from datetime import timedelta
from typing import Any

from fake_clock import FakeClock

from berthmaster.ledger.records import HistoryRow
from berthmaster.model.cluster import Taint
from berthmaster.model.move import MovePhase, MoveReason, MoveState
from berthmaster.native_api.fleet import (
    FleetAmount,
    FleetCluster,
    FleetView,
    WorkloadFacets,
    WorkloadPage,
    WorkloadRow,
    WorkloadState,
)
from berthmaster.native_api.why import BindingOutlook, BindingOverview, ClaimsView, WhyNotView
from berthmaster.native_api.wire import BindingExplanation, BindingView, HistoryPage, ResourceView, Staleness
from berthmaster.scheduling.diagnosis import ClusterDiagnosis, Diagnosis, GroupDiagnosis, Outcome, Rejection
from berthmaster.scheduling.fleet import Strategy
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.scheduling.request import Failure, FailureKind, Mode
from berthmaster.simulation.group_outlook import GroupOutlook
from berthmaster.simulation.report import ClaimRow
from console.source import SourceError

NOW = FakeClock().now()
_VERSIONS = itertools.count(1)
FRESH = Staleness(NOW, None, "")
GROUPS = ["primary", "backup", "edge"]
GIB = 2**30


def fleet_cluster(name: str, **fields: Any) -> FleetCluster:
    """A ready cluster of 16 cores with half of everything in use. ``used`` and ``assumed`` are cores."""
    used, assumed = fields.pop("used", 8), fields.pop("assumed", 0)
    resources = {
        "cpu": FleetAmount(16_000, used * 1000, assumed * 1000),
        "memory": FleetAmount(64 * GIB, 32 * GIB, 0),
        "pods": FleetAmount(110, 55, 0),
    }
    given: dict[str, Any] = {
        "region": "eu-west", "provider": "aws", "zones": ("eu-west-1a",), "kubernetes_version": "v1.33.1",
        "ready": True, "ready_message": "", "deleting": False, "draining": False, "taints": (), "resources": resources,
        "workloads": 14, "replicas": 40, "by_group": [10, 3], "without_groups": 1, "arriving": 0, "leaving": 0,
    }  # fmt: skip
    return FleetCluster(name=name, **{**given, **fields})


def fleet_view(*clusters: FleetCluster, gaps: tuple[str, ...] = ()) -> FleetView:
    return FleetView(list(clusters), f"v{next(_VERSIONS)}", list(gaps), FRESH)


def large_fleet(size: int) -> FleetView:
    """A fleet of many clusters in 20 regions; some are not ready, tainted, drained or nearly full."""
    clusters = []
    for number in range(size):
        fields: dict[str, Any] = {
            "region": f"region-{number % 20:02}", "provider": ("aws", "azure", "gcp")[number % 20 % 3],
            "used": number % 17, "assumed": number % 3,
        }  # fmt: skip
        if number % 37 == 0:
            fields |= {"ready": False, "ready_message": "the kubelet stopped posting its status"}
        if number % 23 == 0:
            fields |= {"draining": True}
        if number % 11 == 0:
            fields |= {"taints": (Taint("dedicated", "NoSchedule", "batch"),)}
        clusters.append(fleet_cluster(f"member-{number:05}", **fields))
    return fleet_view(*clusters)


def workload_row(name: str = "web", **fields: Any) -> WorkloadRow:
    """A Deployment in the second of its three groups."""
    given: dict[str, Any] = {
        "api_version": "apps/v1", "kind": "Deployment", "namespace": "shop", "binding": f"{name}-deployment",
        "policy": f"PropagationPolicy shop/{name}", "scheduler": "default-scheduler", "group": "backup",
        "group_index": 1, "groups": 3, "clusters": {"b1": 5, "b2": 3}, "replicas": 8, "state": WorkloadState.PLACED,
        "preferred": False, "moving": False, "held_down": False, "message": "",
        "last_scheduled_time": NOW - timedelta(hours=3),
    }  # fmt: skip
    return WorkloadRow(name=name, **{**given, **fields})


def listed_workloads(
    *rows: WorkloadRow, matched: int | None = None, total: int | None = None, only: dict[str, int] | None = None
) -> WorkloadPage:
    count = len(rows) if matched is None else matched
    facets = WorkloadFacets(
        {"shop": 3},
        {"PropagationPolicy shop/web": 1},
        {"b1": 2},
        {"backup": 2},
        {"placed": 3},
        only or {"not-preferred": 2},
    )
    return WorkloadPage(list(rows), count, count if total is None else total, facets, "v1", [], FRESH)


def binding_view(**fields: Any) -> BindingView:
    """The binding of ``workload_row``."""
    given: dict[str, Any] = {
        "kind": "ResourceBinding", "namespace": "shop", "name": "web-deployment", "present": True, "deleting": False,
        "resource": ResourceView("apps/v1", "Deployment", "shop", "web"), "policy": "PropagationPolicy shop/web",
        "scheduler": "default-scheduler", "suspended": False, "replicas": 8, "groups": GROUPS,
        "observed_group": "backup", "clusters": {"b1": 5, "b2": 3}, "eviction_tasks": [], "required_by": [],
        "conditions": [], "last_scheduled_time": NOW - timedelta(hours=3), "notes": [], "gaps": [],
        "staleness": FRESH,
    }  # fmt: skip
    return BindingView(**{**given, **fields})


def group_outlook(group: str | None, **fields: Any) -> GroupOutlook:
    """A group of four clusters that can hold eight replicas."""
    given: dict[str, Any] = {
        "matched": 4, "rejected": {"TaintToleration": 1}, "fitting": 3, "capacity": 34, "clusters": {"b1": 8},
    }  # fmt: skip
    return GroupOutlook(group=group, **{**given, **fields})


FULL = group_outlook(
    "primary", rejected={"TaintToleration": 2}, fitting=2, capacity=3, clusters={}, error=FailureKind.INSUFFICIENT,
    message="Clusters available replicas 3 are not enough to schedule.",
)  # fmt: skip


def binding_outlook(*groups: GroupOutlook, **fields: Any) -> BindingOutlook:
    """The outlook of ``binding_view``: its preferred group is full."""
    given: dict[str, Any] = {
        "diagnosis": None,
        "move": None,
        "move_note": "",
        "notes": [],
        "gaps": [],
        "staleness": FRESH,
    }
    listed = list(groups) or [FULL, group_outlook("backup"), group_outlook("edge")]
    return BindingOutlook(groups=listed, **{**given, **fields})


def move_state(phase: MovePhase = MovePhase.STABILISING, **fields: Any) -> MoveState:
    given: dict[str, Any] = {
        "reason": MoveReason.FAILBACK, "source": {"b1": 5, "b2": 3}, "target": {"p1": 8}, "source_group": "backup",
        "target_group": "primary", "started_at": NOW - timedelta(minutes=20), "since": NOW - timedelta(minutes=5),
    }  # fmt: skip
    return MoveState(phase=phase, **{**given, **fields})


def group_diagnosis(failure: Failure | None = None) -> GroupDiagnosis:
    taint, outside = "has the taint maintenance:NoSchedule, which it does not tolerate", "is not in the group"
    local, remote = ({"ClusterLocality": score, "ClusterAffinity": 0} for score in (100, 0))
    clusters = [
        ClusterDiagnosis("b1", Outcome.ASSIGNED, scores=local, capacity=9, bound_by="cpu", current=5, replicas=5),
        ClusterDiagnosis("b2", Outcome.ASSIGNED, scores=local, capacity=4, bound_by="memory", current=3, replicas=3),
        ClusterDiagnosis("b3", Outcome.NOT_SELECTED, "its share is less than one replica", scores=remote, capacity=12),
        ClusterDiagnosis("b4", Outcome.REJECTED, f"b4 {taint}", [Rejection("TaintToleration", taint)]),
        *(
            ClusterDiagnosis(f"p{number}", Outcome.REJECTED, outside, [Rejection("ClusterAffinity", outside)])
            for number in range(1, 9)
        ),
    ]
    return GroupDiagnosis("backup", failure, clusters)


def binding_explanation(**fields: Any) -> BindingExplanation:
    """The decision on ``binding_view``: nothing triggers it."""
    given: dict[str, Any] = {
        "resource": "shop/Deployment/web", "policy": "PropagationPolicy shop/web", "claims": [], "replicas": 8,
        "replicated": True, "trigger": Trigger.NONE, "mode": Mode.STEADY, "group": "backup",
        "clusters": {"b1": 5, "b2": 3}, "error": None, "message": None,
        "diagnosis": Diagnosis(Strategy.DYNAMIC_WEIGHT, ["primary"], [group_diagnosis()], ["edge"]),
        "staleness": FRESH,
    }  # fmt: skip
    return BindingExplanation(**{**given, **fields})


def claims_view(**fields: Any) -> ClaimsView:
    """One policy holds the workload, another one matches it."""
    given: dict[str, Any] = {
        "resource": "shop/Deployment/web", "holder": "PropagationPolicy shop/web", "why": "it has the higher priority",
        "claims": [
            ClaimRow("PropagationPolicy shop/web", 10, "name", holds=True),
            ClaimRow("ClusterPropagationPolicy all", 0, "kind", why_not="a PropagationPolicy goes before it"),
        ],
        "gaps": [], "version": "v1", "staleness": FRESH,
    }  # fmt: skip
    return ClaimsView(**{**given, **fields})


def history_row(number: int = 1, **fields: Any) -> HistoryRow:
    """A decision that moved the workload to its second group three hours ago."""
    given: dict[str, Any] = {
        "id": f"1.{number}", "time": (NOW - timedelta(hours=3)).isoformat(), "kind": "decision", "namespace": "shop",
        "resource_kind": "Deployment", "name": "web", "trigger": "Failover", "reason": "Success",
        "policy": "PropagationPolicy shop/web", "group": "backup", "before": {"p1": 8}, "after": {"b1": 5, "b2": 3},
    }  # fmt: skip
    return HistoryRow(**{**given, **fields})


def history_page(*rows: HistoryRow, following: str | None = None) -> HistoryPage:
    return HistoryPage(list(rows) or [history_row()], following)


def why_not_view(**fields: Any) -> WhyNotView:
    """Removing a taint would help."""
    given: dict[str, Any] = {
        "cluster": "b4", "taken": False, "reasons": ["group backup: it has the taint maintenance:NoSchedule"],
        "changes": ["remove the taint maintenance:NoSchedule"], "clusters": {"b1": 4, "b4": 4},
    }  # fmt: skip
    return WhyNotView(**{**given, **fields})


def workload_answers(**answers: Any) -> dict[str, Any]:
    """All answers about one workload, for ``GivenSource``. The overview consists of its parts; an error is a gap."""
    given = {
        "binding": binding_view(), "decision": binding_explanation(), "outlook": binding_outlook(),
        "claims": claims_view(), "history": history_page(), "why_not": why_not_view(), **answers,
    }  # fmt: skip
    parts = {name: given[name] for name in ("decision", "outlook", "claims")}
    missing = {name: each.detail for name, each in parts.items() if isinstance(each, SourceError)}
    known = {name: None if name in missing else each for name, each in parts.items()}
    return {"overview": BindingOverview(given["binding"], **known, missing=missing, version="v1"), **given}
