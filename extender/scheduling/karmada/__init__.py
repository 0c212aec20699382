"""Karmada's way of scheduling (karmada-io/karmada ``pkg/scheduler``): what it does at the engine's steps.

The filters that KubeAdmiral has as well stand in ``extender.scheduling.filters``.
"""

from typing import Final

from extender.scheduling.filters.cluster_terminating import ClusterTerminating
from extender.scheduling.karmada.assignment import assign
from extender.scheduling.karmada.estimation import estimated
from extender.scheduling.karmada.plan import KarmadaPlan
from extender.scheduling.karmada.reasons import KarmadaReasons
from extender.scheduling.karmada.selection import select
from extender.scheduling.profile import Stages

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
