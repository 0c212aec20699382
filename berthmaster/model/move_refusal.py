"""Why a move cannot begin now."""

from enum import Enum
from typing import NamedTuple


class Cause(Enum):
    """The kind of a reason why a move cannot begin now. Its value stands in the record of the move."""

    NO_PLACE = "no-place"
    SAME_CLUSTERS = "same-clusters"
    """The preferred group would use the clusters that the workload is on."""
    KEEPS_OLD_COPY = "keeps-old-copy"
    """The purge mode of the policy keeps the old copy, and the workload must not run twice."""
    STATE_UNREADABLE = "state-unreadable"
    SUSPENDED = "suspended"
    """Dispatching is suspended: Karmada starts nothing there, and would still delete."""
    TEMPLATE_PAUSED = "template-paused"
    """The workload is paused, so that a new copy starts no pods."""
    JOB_FINISHED = "job-finished"
    """A Job that has finished would run again."""
    JOB_DIVIDED = "job-divided"
    """Karmada divides the completions of a Job, and a running Job cannot change them."""
    REPLICAS_RETAINED = "replicas-retained"
    """The member decides the replicas, and has fewer than the move needs there."""
    VOLUMES = "volumes"
    """The data of the workload would be lost, or stay behind."""
    UNREPORTED = "unreported"
    """Karmada has not seen the copy in the cluster yet, and would not delete it."""
    NEEDED = "needed"
    """Other workloads on the cluster need the resource."""
    QUOTA = "quota"
    """A quota would refuse the workload once its old copies are gone."""
    REFUSED = "refused"
    """The API server refuses the end of a move, for example because a quota is below the use."""
    INVALID_POLICY = "invalid-policy"
    DRY_RUN = "dry-run"
    """The mode DryRun only reports."""
    OLD_COPY = "old-copy"
    """An old copy on a cluster of the target is still being removed."""
    WORKS_UNREAD = "works-unread"
    BRAKE = "brake"
    PAUSED = "paused"
    WINDOW = "window"
    LIMIT = "limit"
    STARTING = "starting"
    """The process has led for a short time only."""


class MoveRefusal(NamedTuple):
    """Why something cannot happen.

    Attributes:
        about: the names and times that the reason is about. Numbers of the fleet, which change all the time, are not
            part of it. Two refusals with the same cause and the same ``about`` say the same.
    """

    cause: Cause
    message: str
    about: tuple[str, ...] = ()
