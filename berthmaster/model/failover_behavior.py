"""What a policy of Karmada says about failover."""

from typing import Final

from berthmaster.model.meta import Int32, Value

GRACEFULLY: Final = "Gracefully"
FORMER_PURGE_MODES: Final = {"Immediately": "Directly", "Graciously": "Gracefully"}
"""The names of purge modes before Karmada 1.15, and those of today. Karmada accepts both from 1.15 to 1.18."""


class DecisionConditions(Value, frozen=True):
    """The time a workload may be unhealthy before it fails over."""

    toleration_seconds: Int32 | None = None


class StatePreservationRule(Value, frozen=True):
    """A part of a workload's state that a failover preserves."""

    alias_label_name: str
    json_path: str


class StatePreservation(Value, frozen=True):
    """The state of a workload that a failover preserves."""

    rules: tuple[StatePreservationRule, ...] = ()


class ApplicationFailoverBehavior(Value, frozen=True):
    """The failover of an unhealthy workload."""

    decision_conditions: DecisionConditions = DecisionConditions()
    purge_mode: str = ""  # text: stored objects may hold values of earlier Karmada versions
    grace_period_seconds: Int32 | None = None
    state_preservation: StatePreservation | None = None

    @property
    def is_graceful(self) -> bool:
        """Whether the old copy stays until the new one is healthy, for a grace period at most."""
        return FORMER_PURGE_MODES.get(self.purge_mode, self.purge_mode) == GRACEFULLY


class ClusterFailoverBehavior(Value, frozen=True):
    """The failover from a failed cluster."""

    purge_mode: str = ""
    state_preservation: StatePreservation | None = None


class FailoverBehavior(Value, frozen=True):
    """The failover of a workload."""

    application: ApplicationFailoverBehavior | None = None
    cluster: ClusterFailoverBehavior | None = None
