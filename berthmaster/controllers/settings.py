"""What a person can set for the controllers; each takes from it what concerns it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from berthmaster.runtime.feature_gates import (
    POLICY_PREEMPTION,
    PRIORITY_BASED_SCHEDULING,
    WORKLOAD_AFFINITY,
    FeatureGates,
)
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.profile import Profile

GATES = (POLICY_PREEMPTION, PRIORITY_BASED_SCHEDULING, WORKLOAD_AFFINITY)


@dataclass(frozen=True, slots=True)
class EstimatorSettings:
    """Where Karmada's scheduler estimators are, one Service ``PREFIX-CLUSTER`` each.

    Attributes:
        namespace, prefix, port: of their Services.
        timeout_s: how long all answers together may take.
        ca_file, cert_file, key_file: whom to trust, and who we are; PEM. Without them it is plain text.
        verify: check their certificates.
    """

    namespace: str = "karmada-system"
    prefix: str = "karmada-scheduler-estimator"
    port: int = 10352
    timeout_s: float = 3.0
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    verify: bool = True


@dataclass(frozen=True, slots=True)
class Settings:
    """How the controllers behave.

    Attributes:
        gates: which features are on.
        scheduler_name: bindings with this ``spec.schedulerName`` are ours.
        profile: how to decide.
        concurrent_bindings, concurrent_rebalancers: workers.
        failover: what happens to what is on clusters that are not ready.
        failover_toleration_s: how long one may be not ready before that.
        estimators: whom to ask for free room; None for nobody.
    """

    gates: FeatureGates = field(default_factory=lambda: FeatureGates(GATES))
    scheduler_name: str = "berthmaster"
    profile: Profile = field(default_factory=karmada_profile)
    concurrent_bindings: int = 16
    concurrent_rebalancers: int = 2
    failover: Literal["off", "not-ready"] = "off"
    failover_toleration_s: float = 300.0
    estimators: EstimatorSettings | None = None
