"""What the gate did with a change of a policy."""

from enum import StrEnum
from typing import NamedTuple

from webhook.admission.impact import ReviewedChange


class GateResult(StrEnum):
    """What the gate did with a change."""

    WITHIN = "within"
    WARNED = "warned"
    """It is above a limit, and the gate only warns."""
    ACCEPTED = "accepted"
    """It is above a limit, and the user accepted this plan."""
    EXEMPT = "exempt"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    """The impact is not known. The gate lets the change pass."""
    UNJUDGED = "unjudged"
    """The impact is not known. The gate refuses the change."""


class GateDecision(NamedTuple):
    """The decision on one change. ``plan`` is the id of the plan; empty if the impact is not known."""

    result: GateResult
    change: ReviewedChange
    plan: str = ""
    message: str = ""
