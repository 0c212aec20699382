"""The settings of the controllers, as plain data. Each controller reads those that concern it."""

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from berthmaster.deciding.lease_record import ControllersRecord
from berthmaster.runtime import feature_gates
from berthmaster.runtime.console_link import ConsoleLink
from berthmaster.runtime.feature_gates import FeatureGates
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.profile import Profile
from berthmaster.version import __version__

UnknownFields = Literal["hold", "ignore"]
GATES = (
    feature_gates.MULTIPLE_POD_TEMPLATES,
    feature_gates.POLICY_PREEMPTION,
    feature_gates.PRIORITY_BASED_SCHEDULING,
    feature_gates.SCHEDULING_OVERCOMMIT_PROTECTION,
    feature_gates.WORKLOAD_AFFINITY,
)


@dataclass(frozen=True, slots=True)
class EstimatorSettings:
    """How to find Karmada's scheduler estimators, and how to connect to them.

    Without TLS, connections are plain text, as Karmada's are by default.
    """

    namespace: str = "karmada-system"
    prefix: str = "karmada-scheduler-estimator"
    port: int = 10352
    timeout_s: float = 3.0
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    verify: bool = True

    @property
    def tls(self) -> bool:
        """Whether connections use TLS: with a CA, or without verification."""
        return self.ca_file is not None or not self.verify

    def service(self, cluster: str) -> str:
        return f"{self.prefix}-{cluster}"


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """How the controllers behave.

    Attributes:
        moves_config: the file with the configuration of moves; None for none, which plans no moves.
    """

    gates: FeatureGates = field(default_factory=lambda: FeatureGates(GATES))
    scheduler_name: str = "berthmaster"
    profile: Profile = field(default_factory=karmada_profile)
    concurrent_bindings: int = 16
    concurrent_rebalancers: int = 2
    failover: Literal["off", "not-ready"] = "off"
    failover_toleration_s: float = 300.0
    estimators: EstimatorSettings | None = None
    moves_config: Path | None = None
    unknown_fields: UnknownFields = "hold"
    console: ConsoleLink | None = None

    @property
    def failover_after_s(self) -> float | None:
        """How long a cluster may be not ready before failover; None without failover."""
        return self.failover_toleration_s if self.failover == "not-ready" else None


def controllers_record(settings: ControllerSettings, controllers: Collection[str]) -> ControllersRecord:
    """Return what the lease records about the controllers of a process."""
    schedules = "binding-scheduler" in controllers
    return ControllersRecord(
        settings.scheduler_name if schedules else "",
        settings.failover_after_s if schedules else None,
        "preemption" in controllers,
        tuple(sorted(each.name for each in GATES if settings.gates.on(each))),
        __version__,
    )
