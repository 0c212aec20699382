"""Which moves a configuration or a policy pauses."""

from typing import Final, Literal

from berthmaster.model.errors import InputError, shown

Pause = Literal["None", "Planned", "All"]
"""Which moves wait: none, those with time (Failback, Drain, Rescheduled), or all, including Failover."""
_PAUSES: Final[dict[str, Pause]] = {
    "": "None", "false": "None", "none": "None", "true": "Planned", "planned": "Planned", "all": "All",
}  # fmt: skip


def pause_annotation(text: str) -> Pause:
    """Return which moves the annotation of a policy pauses.

    Raises:
        InputError: the text is not accepted. A caller must then pause all planned moves, not none.
    """
    found = _PAUSES.get(text.strip().lower())
    if found is None:
        raise InputError(
            f'{shown(text)} is not accepted; accepted are "true" (planned moves), "all" (failover too) and "false"'
        )
    return found
