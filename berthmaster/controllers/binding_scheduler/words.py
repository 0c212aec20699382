"""What people read of a decision: in the binding's condition, and in events on the binding and its workload."""

from collections.abc import Mapping
from typing import Final

from berthmaster.scheduling.decision import Attempt, Decision
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler

_CLUSTERS_SHOWN: Final = 16
_RULED_OUT: Final = {
    "APIEnablement": "do not serve the kind",
    "ClusterAffinity": "are not meant by the affinity",
    "TaintToleration": "have taints that are not tolerated",
    "SpreadConstraint": "lack the field to spread by",
    "ClusterEviction": "are being evicted",
    "WorkloadAffinity": "are not where its peers are",
    "WorkloadAntiAffinity": "have a workload it has to keep away from",
}


def success(decision: Decision) -> str:
    """Where a workload went."""
    return scheduled(decision.group or "", decision.assignment)


def scheduled(group: str, replicas: Mapping[str, int]) -> str:
    """Where a workload is, with the group that this came from; empty for none."""
    where = f"group {group}" if group else "the clusters that fit"
    return f"scheduled to {where}: {assignment(replicas)}"


def assignment(replicas: Mapping[str, int]) -> str:
    """Clusters with their replicas."""
    if not replicas:
        return "no clusters"
    shown = [f"{name}:{count}" for name, count in sorted(replicas.items())[:_CLUSTERS_SHOWN]]
    more = len(replicas) - len(shown)
    return ", ".join(shown) + (f", and {more} more" if more else "")


def failure(scheduler: Scheduler, request: Request, decision: Decision) -> str:
    """Why a workload fits nowhere: for each group that was tried, how many clusters were ruled out by what."""
    told = [_attempt(scheduler, request, attempt) for attempt in decision.attempts]
    return "; ".join(told) or (decision.failure.message if decision.failure is not None else "")


def _attempt(scheduler: Scheduler, request: Request, attempt: Attempt) -> str:
    prefix = f"group {attempt.group.name}: " if attempt.group.name else ""
    if attempt.failure is None:
        return f"{prefix}fits"
    if len(attempt.rows):
        return f"{prefix}{attempt.failure.message}"
    total = len(scheduler.fleet)
    counts = scheduler.rejected(request, attempt)
    reasons = [
        f"{count} {_RULED_OUT.get(plugin, 'are ruled out')} ({plugin})"
        for plugin, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    ]
    if (others := total - sum(counts.values())) > 0 and total:
        reasons.append(f"{others} are being deleted, or ruled out for this workload alone")
    return f"{prefix}0 of {total} clusters fit{': ' if reasons else ''}{', '.join(reasons)}"
