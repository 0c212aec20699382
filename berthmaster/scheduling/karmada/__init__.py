"""Karmada's way of scheduling (karmada-io/karmada ``pkg/scheduler``): what it does at the engine's steps.

The filters that KubeAdmiral has as well stand in ``berthmaster.scheduling.filters``.
"""

from typing import Final

from berthmaster.scheduling.filters.cluster_terminating import ClusterTerminating
from berthmaster.scheduling.karmada.assignment import assign
from berthmaster.scheduling.karmada.estimation import estimated
from berthmaster.scheduling.karmada.plan import KarmadaPlan
from berthmaster.scheduling.karmada.reasons import KarmadaReasons
from berthmaster.scheduling.karmada.selection import select
from berthmaster.scheduling.profile import Stages

DELETING: Final = "ClusterDeleting"
"""What rules out a cluster that is being deleted. Karmada has no plugin for it: no switch turns it off."""

KARMADA: Final = Stages(
    members=ClusterTerminating(DELETING),
    plan=KarmadaPlan,
    candidates=estimated,
    select=select,
    assign=assign,
    reasons=KarmadaReasons,
)
