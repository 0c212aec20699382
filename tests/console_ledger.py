"""A workload with decisions on record, for tests and demonstrations of the console.

``checkout`` starts with 6 replicas in its first group. It is scaled to 60 replicas, which only its second group holds.
"""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from fake_clock import FakeClock
from karmada_plane import binding, cluster, deployment, policy, selector
from ledger_histories import Scheduling, recorder_at, sqlite_url

from berthmaster.model.binding import APPLIED_PLACEMENT, Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import builtins, convert
from berthmaster.model.note import Note

ADDRESS = "/workloads/shop/checkout-deployment"
AUTHOR = "alice@example.org"
"""Who edited the policy."""
_NAME, _KEY = "checkout", ("shop", "checkout-deployment")
_CPU = {"recorded-home-1": 8, "recorded-home-2": 8, "recorded-spare": 100}
_PLACEMENT = {
    "clusterAffinities": [
        {"affinityName": "home", "clusterNames": ["recorded-home-1", "recorded-home-2"]},
        {"affinityName": "spare", "clusterNames": ["recorded-spare"]},
    ],
    "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"},
}


def recorded(folder: Path, now: datetime) -> tuple[str, list[dict[str, Any]]]:
    """Write decisions of the last hours to a new ledger.

    Args:
        folder: gets the ledger.
        now: the present.

    Returns:
        The URL of the ledger, and the manifests as they are after the last decision.
    """
    url, clock = sqlite_url(folder), FakeClock.at(now - timedelta(hours=5))
    recorder = recorder_at(url, clock)
    scheduling = Scheduling(recorder, clock)
    clusters = [cluster(name, cpu) for name, cpu in _CPU.items()]
    for each in clusters:
        scheduling.clusters.update_cluster(convert(Cluster, each))
    claimant = policy(_NAME, selector(name=_NAME), placement=_PLACEMENT)
    start = binding(deployment(_NAME, 6, by=claimant), claimant)
    del start["metadata"]["annotations"][APPLIED_PLACEMENT]
    scheduling.put(convert(Binding, start))
    clock.pass_by(2 * 3600)
    scheduling.put(convert(Binding, _with_replicas(builtins(scheduling.bindings[_KEY]), 60)))
    edit = {"username": AUTHOR, "gate": "accepted", "plan": "0123456789abcdef"}
    by = f"PropagationPolicy shop/{_NAME}"
    recorder.noted(
        Note("plan-accepted", f"update by {AUTHOR}: 1 moves", "shop", _NAME, "PropagationPolicy", by, details=edit)
    )
    recorder.step()
    recorder.finish()
    written = {"apiVersion": start["apiVersion"], **builtins(scheduling.bindings[_KEY]), "kind": start["kind"]}
    return url, [*clusters, claimant, deployment(_NAME, 60, by=claimant), written]


def _with_replicas(stored: dict[str, Any], replicas: int) -> dict[str, Any]:
    return {**stored, "spec": {**stored["spec"], "replicas": replicas}}
