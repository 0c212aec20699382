"""A workload with decisions on record, for tests and demonstrations of the console.

``checkout`` starts with 6 replicas in its first group. It is scaled to 40 replicas, which only its second group holds.
"""

from datetime import datetime, timedelta
from typing import Any

from decisions import AGGREGATED, asked
from fake_clock import FakeClock
from karmada_plane import cluster
from ledger_histories import Scheduling, finish, of_shop, recorder_at

from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import builtins, convert

ADDRESS = "/workloads/shop/checkout-deployment"
_CPU = {"recorded-home-1": 8, "recorded-home-2": 8, "recorded-spare": 100}
_GROUPS = [
    {"affinityName": "home", "clusterNames": ["recorded-home-1", "recorded-home-2"]},
    {"affinityName": "spare", "clusterNames": ["recorded-spare"]},
]


def recorded(url: str, now: datetime) -> list[dict[str, Any]]:
    """Write decisions of the last hours to an empty ledger, and return the manifests as they are afterwards.

    Args:
        url: of the ledger.
        now: the present.
    """
    clock = FakeClock.at(now - timedelta(hours=5))
    recorder = recorder_at(url, clock)
    scheduling = Scheduling(recorder, clock)
    clusters = [cluster(name, cpu) for name, cpu in _CPU.items()]
    for each in clusters:
        scheduling.clusters.update_cluster(convert(Cluster, each))
    checkout = of_shop("checkout", asked(requests={"cpu": 1}, replicas=6, scheduling=AGGREGATED, groups=_GROUPS))
    scheduling.put(checkout)
    clock.pass_by(2 * 3600)
    key = "shop", "checkout-deployment"
    placed = builtins(scheduling.bindings[key])
    placed["spec"]["replicas"] = 40
    scheduling.put(convert(type(checkout), placed))
    recorder.step()
    finish(recorder)
    written = builtins(scheduling.bindings[key])
    return [*clusters, {"apiVersion": "work.karmada.io/v1alpha2", **written, "kind": "ResourceBinding"}]
