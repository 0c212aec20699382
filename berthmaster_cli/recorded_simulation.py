"""``simulate --ledger``: record the decisions of a simulation, as the binding scheduler takes them."""

import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from berthmaster.controllers.binding_scheduler.cluster_cache import ClusterCache
from berthmaster.deciding.decide import outcome_of
from berthmaster.deciding.decision_recorder import DecisionRecord
from berthmaster.deciding.failover import FailoverOptions
from berthmaster.runtime.clock import SystemClock
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.scheduling.profile import Profile
from berthmaster.simulation.changes import apply
from berthmaster.simulation.evictions import evicted
from berthmaster.simulation.results import PlannedWorkload, WorkloadResult
from berthmaster.simulation.world import Change, World
from berthmaster.version import __version__
from berthmaster_cli.ledger_options import recorder_from

if TYPE_CHECKING:
    from berthmaster.ledger.recorder import LedgerRecorder


def record_simulation(
    world: World, changes: Sequence[Change], planned: Sequence[PlannedWorkload], profile: Profile, now: datetime,
    url: str | Path | None,
) -> None:  # fmt: skip
    """Decide again as the binding scheduler does, and record it. Changes happen one second after ``now``."""
    from berthmaster.ledger.entries import Configuration  # noqa: PLC0415 - SQLAlchemy is imported only for a ledger

    plugins = tuple(profile.plugins.names)
    recorder = recorder_from(url, "command", Configuration(__version__, plugins, profile.keep_empty, profile.limits))
    if recorder is None:
        return
    settled = [each.settled or each.before for each in planned]
    _record(recorder, world, settled, profile, now)
    if changes:
        later = now + timedelta(seconds=1)
        changed = apply(changes, replace(world, workloads=[each.workload for each in settled]), later)
        _record(recorder, changed, [each.after for each in planned], profile, later)
    recorder.flush(last=True)


def _record(
    recorder: "LedgerRecorder", world: World, results: Sequence[WorkloadResult], profile: Profile, at: datetime
) -> None:
    """Record what the binding scheduler decides in a world."""
    cache = ClusterCache(profile, SystemClock(), FailoverOptions(), keeps_inputs=True, overcommit_protection=False)
    for cluster in world.clusters.values():
        cache.update_cluster(cluster)
    for workload in world.workloads:
        if workload.binding is not None:
            cache.update_peers(workload.binding)
    fleet = Fleet(world.clusters.values())
    for number, (stored, result) in enumerate(zip(world.workloads, results, strict=True)):
        if result.decision is None:  # the failover of the controllers is no decision of the engine alone
            continue
        workload = evicted(stored, fleet, world.assumptions, at, is_scheduled=True)
        binding = workload.binding
        if binding is None or result.trigger is Trigger.NONE:
            continue
        started_s = time.monotonic()
        decided = cache.decide_and_assume(binding.metadata.key, binding)
        if decided.inputs is not None:
            duration_s = time.monotonic() - started_s
            recorder.decided(
                DecisionRecord(at, f"simulate-{number}", binding, decided.inputs, outcome_of(decided), duration_s)
            )
        if result.workload.binding is not None:
            cache.update_peers(result.workload.binding)
