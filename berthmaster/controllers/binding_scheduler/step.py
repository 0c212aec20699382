"""What is to be done for a binding."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from berthmaster.controllers.binding_scheduler import words
from berthmaster.controllers.binding_scheduler.loads import Load
from berthmaster.controllers.binding_scheduler.plan import (
    NO_FIT,
    SCHEDULED,
    SUCCESS,
    AssignmentWrite,
    StatusWrite,
    Verdict,
    status_write,
    targets,
)
from berthmaster.model.binding import Binding
from berthmaster.scheduling.karmada.trigger import Trigger


@dataclass(frozen=True, slots=True)
class Step:
    """What is to be done for a binding.

    Attributes:
        trigger: why.
        binding: the binding it was decided for, with the group its assignment really came from.
        verdict: what its condition is to say.
        write: the write to the binding; None if there is nothing to write.
        refresh: the time of the last scheduling moves.
        warning: what people should hear besides; empty for nothing.
        again_s: in how many seconds it has to be looked at again; None for never.
        assumed_before: what was on its way before this, in case the write fails; None if that did not change.
        clusters: the replicas by cluster that were decided; None if nothing was.
    """

    trigger: Trigger
    binding: Binding
    verdict: Verdict
    write: AssignmentWrite | None = None
    refresh: bool = False
    warning: str = ""
    again_s: float | None = None
    assumed_before: Mapping[str, Load] | None = None
    clusters: Mapping[str, int] | None = None

    @property
    def tried(self) -> bool:
        """Whether it was scheduled, or could not be; to find, as a matter of course, that all is the same is no try."""
        return self.trigger is not Trigger.NONE and (self.refresh or self.write is not None or not self.verdict.ok)

    @property
    def waits_for_room(self) -> bool:
        """Whether it should be tried again once a cluster has more to offer."""
        return not self.verdict.ok or bool(self.warning)

    def status_write(self, binding: Binding, now: datetime, of: Binding) -> StatusWrite:
        """The write to the status of a binding that says what came of it when it was as ``of``."""
        return status_write(binding, self.verdict, now, refresh=self.refresh, of=of)


def fits_nowhere(binding: Binding) -> bool:
    """Whether its condition says that no cluster passed the filters."""
    return any(each.type == SCHEDULED and each.reason == NO_FIT for each in binding.status.conditions)


def as_it_was(binding: Binding) -> Verdict:
    """The verdict on a binding that has nothing to be decided: it is scheduled, be it that its status lags behind."""
    group = binding.status.scheduler_observing_affinity_name
    if binding.status.scheduler_observed_generation == binding.metadata.generation:
        for condition in binding.status.conditions:
            if condition.type == SCHEDULED and condition.status == "True":
                return Verdict(SUCCESS, condition.message, group)
    return Verdict(SUCCESS, words.scheduled(group, targets(binding)), group)
