"""Answers of the extender for tests of the console: a fleet, its workloads, and one workload in its second group.

``data/console_answers.yaml`` has the values of each type. A test replaces the fields that it is about.
"""

import itertools
from datetime import timedelta
from functools import partial
from typing import Any

import msgspec
from fake_clock import FakeClock
from msgspec.structs import asdict, fields, replace
from switched_on import ALL_ON
from tables import data

from berthmaster.ledger.records import ChangeRecord, HistoryRow, InputDifference, PastExplanation
from berthmaster.model.decode import convert
from berthmaster.model.division_strategy import Strategy
from berthmaster.model.move import MovePhase, MoveState
from berthmaster.model.policy import Policy
from berthmaster.model.taint import Taint
from berthmaster.native_api import why
from berthmaster.native_api.drift import DriftView
from berthmaster.native_api.fleet import FleetAmount, FleetCluster, FleetView, WorkloadFacets, WorkloadPage, WorkloadRow
from berthmaster.native_api.policies import AllowedGroup, ClaimsView, PolicyList, PolicyView
from berthmaster.native_api.what_if import PlanAnswer, PlanCounts
from berthmaster.native_api.wire import BindingExplanation, BindingView, HistoryPage, Staleness
from berthmaster.scheduling.decision import Failure, FailureKind
from berthmaster.scheduling.diagnosis import (
    ClusterDiagnosis,
    Diagnosis,
    GroupDiagnosis,
    GroupOutlook,
    Outcome,
    Rejection,
)
from berthmaster.simulation.drift import WorkloadDrift, summary
from berthmaster.simulation.failures import FailureDomain
from berthmaster.simulation.plan_answer import Plan, PlannedMove, PlanSummary, UnplacedWorkload
from berthmaster.views.move_rows import BrakeReport, BudgetUse, MoveRow, RowState
from berthmaster.views.policy_rows import PolicyRow
from console.source import SourceError

NOW = FakeClock().now()
_VERSIONS = itertools.count(1)
FRESH = Staleness(NOW, None, "")
HOSTILE = '<script>alert("x")</script>\x1b[31m&\u202e'
_VALUES = data("console_answers")


def _answer(kind: Any, /, **changes: Any) -> Any:
    """Return the answer of a type in the file, with some other fields. All answers are fresh."""
    values = _VALUES[kind.__name__]
    fresh = {"staleness": FRESH} if any(each.name == "staleness" for each in fields(kind)) else {}
    return replace(msgspec.convert({**values, **fresh}, kind), **changes)


binding_view = partial(_answer, BindingView)
claims_view = partial(_answer, ClaimsView)
why_not_view = partial(_answer, why.WhyNotView)
budget = partial(_answer, BudgetUse)
lost_workload = partial(_answer, UnplacedWorkload)


def fleet_cluster(name: str, region: str = "eu-west", used: int = 8, assumed: int = 0, **changes: Any) -> FleetCluster:
    """Return a cluster. ``used`` and ``assumed`` are cores."""
    made = _answer(FleetCluster, name=name, region=region)
    resources = {**made.resources, "cpu": FleetAmount(16_000, used * 1000, assumed * 1000)}
    return replace(made, **{"resources": resources, **changes})


def fleet_view(*clusters: FleetCluster | str, gaps: tuple[str, ...] = ()) -> FleetView:
    """Return a fleet of clusters, some by their names."""
    found = [fleet_cluster(each) if isinstance(each, str) else each for each in clusters]
    return FleetView(found, f"v{next(_VERSIONS)}", list(gaps), FRESH)


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


def workload_row(name: str = "web", **changes: Any) -> WorkloadRow:
    own = {"binding": f"{name}-deployment", "policy": f"PropagationPolicy shop/{name}"}
    return _answer(WorkloadRow, name=name, **{**own, **changes})


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


def group_outlook(group: str | None, **changes: Any) -> GroupOutlook:
    return _answer(GroupOutlook, group=group, **changes)


FULL = group_outlook(
    "primary", rejected={"TaintToleration": 2}, fitting=2, capacity=3, clusters={}, error=FailureKind.INSUFFICIENT,
    message="Clusters available replicas 3 are not enough to schedule.",
)  # fmt: skip


def binding_outlook(*groups: GroupOutlook, **changes: Any) -> why.BindingOutlook:
    """Return the outlook of ``binding_view``: its preferred group is full."""
    listed = list(groups) or [FULL, group_outlook("backup"), group_outlook("edge")]
    return _answer(why.BindingOutlook, groups=listed, **changes)


def move_state(phase: MovePhase = MovePhase.STABILISING, **changes: Any) -> MoveState:
    return _answer(MoveState, phase=phase, **changes)


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


def binding_explanation(**changes: Any) -> BindingExplanation:
    """Return the decision on ``binding_view``: nothing triggers it."""
    diagnosis = Diagnosis(Strategy.DYNAMIC_WEIGHT, ["primary"], [group_diagnosis()], ["edge"])
    return _answer(BindingExplanation, **{"diagnosis": diagnosis, **changes})


def history_row(number: int = 1, **changes: Any) -> HistoryRow:
    return _answer(HistoryRow, **{"id": f"1.{number}", **changes})


def history_page(*rows: HistoryRow, following: str | None = None) -> HistoryPage:
    return HistoryPage(list(rows) or [history_row()], following)


def past_explanation(*changes: ChangeRecord, record: HistoryRow | None = None, **fields: Any) -> PastExplanation:
    """Return a decision on record. With changes, it differs from the decision before by them."""
    difference = InputDifference("1.0", 0, list(changes), None, smallest=True, summary="its inputs changed")
    fields = {"reproduced": True, "difference": difference if changes else None, **fields}
    return PastExplanation(record or history_row(), binding_explanation(), **fields)


def workload_answers(**answers: Any) -> dict[str, Any]:
    """Return all answers about one workload, for ``GivenSource``. The overview has its parts; an error is a gap."""
    given = {
        "binding": binding_view(), "decision": binding_explanation(), "outlook": binding_outlook(),
        "claims": claims_view(), "history": history_page(), "why_not": why_not_view(), **answers,
    }  # fmt: skip
    parts = {name: given[name] for name in ("decision", "outlook", "claims")}
    missing = {name: each.detail for name, each in parts.items() if isinstance(each, SourceError)}
    known = {name: None if name in missing else each for name, each in parts.items()}
    return {"overview": why.BindingOverview(given["binding"], **known, missing=missing, version="v1"), **given}


def planned_move(
    resource: str = "shop/Deployment/web",
    before: dict[str, int] | None = None,
    after: dict[str, int] | None = None,
    **changes: Any,
) -> PlannedMove:
    then, now = before or {"a": 2}, after or {"b": 2}
    moves = {name: (then.get(name), now.get(name)) for name in {**then, **now}}
    return _answer(PlannedMove, resource=resource, before=then, after=now, moves=moves, **changes)


def plan_answer(*moves, unplaced=(), gaps=(), truncated=False, counts=None, **changes):
    lost = [each.resource for each in unplaced if each.nowhere]
    summary = PlanSummary(40, len(moves), 2 * len(moves), lost, [], lost)
    values = {"policies": [], "overcommitted": [], "clusters": [], "staying": [], **changes}
    plan = Plan(
        id="0123456789abcdef", summary=summary, concerned=len(moves), deleted_copies=0, complete=not gaps,
        gaps=list(gaps), unplaced=list(unplaced), moves=list(moves), **values,
    )  # fmt: skip
    whole = counts or PlanCounts(40, len(moves), len(moves), 0, len(lost), 0, 0, 0, 0)
    return PlanAnswer(whole, plan, truncated, FRESH)


def impact(name: str, clusters: tuple[str, ...] = (), **changes: Any) -> why.ImpactView:
    made = _answer(why.ImpactView, name=name, clusters=tuple(clusters), **changes)
    totals = tuple(len(each) for each in (made.only_copy, made.nowhere, made.short, made.staying))
    return replace(made, totals=changes.get("totals", totals))


def resilience_view(*impacts, clusters=("a", "b"), failures=0, gaps=()):
    return why.ResilienceView(
        by=[FailureDomain.REGION], assumptions=ALL_ON, impacts=list(impacts), failures=failures or len(impacts),
        harmless=sum(each.harmless for each in impacts), workloads=40, clusters=list(clusters),
        computed_at=NOW - timedelta(minutes=2), gaps=list(gaps), version="1", staleness=FRESH,
    )  # fmt: skip


def move_row(workload: str = "shop/Deployment/web", state: RowState = RowState.MOVING, **changes: Any) -> MoveRow:
    return _answer(MoveRow, workload=workload, state=state, **changes)


def moves_view(*rows, **changes):
    counts = {state.value: sum(each.state is state for each in rows) for state in RowState}
    values = {
        "brake": BrakeReport(engaged=False), "sources": None, "budgets": [], "counts": counts, "matched": len(rows),
        **changes,
    }  # fmt: skip
    return why.MovesView(read_at=NOW, moves=list(rows), version="1", staleness=FRESH, **values)


def policy_row(name: str = "all", namespace: str = "shop", **changes: Any) -> PolicyRow:
    kind = "PropagationPolicy" if namespace else "ClusterPropagationPolicy"
    return _answer(PolicyRow, kind=kind, namespace=namespace, name=name, **changes)


def policy_view(row, groups=(), **placement):
    """Return a policy with a placement in the form of the API, and its groups: pairs of a name and clusters."""
    kind = {"kind": row.kind, "metadata": {"name": row.name, "namespace": row.namespace}}
    policy = convert(Policy, {**kind, "spec": {"resourceSelectors": [], "placement": placement}})
    allowed = [AllowedGroup(name, "", 3 + len(each), 2, 1, list(each), {}) for name, each in groups]
    return PolicyView(row, policy, allowed, None, [], "1", FRESH)


def policy_list(*rows, matched=None, total=None, gaps=()):
    count = len(rows)
    return PolicyList(list(rows), matched or count, total or count, list(gaps), "1", FRESH)


def workload_drift(resource: str = "shop/Deployment/web", **changes: Any) -> WorkloadDrift:
    return _answer(WorkloadDrift, resource=resource, **changes)


def drift_view(*drifts, **changes):
    found = asdict(summary(drifts))
    given = {"matched": len(found["workloads"]), "computed_at": NOW, "gaps": [], "version": "1", "staleness": FRESH}
    return DriftView(**{**found, **given, **changes})
