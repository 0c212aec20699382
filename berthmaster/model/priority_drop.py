"""What is on record of a policy's fall in priority (the annotation ``policy.berthmaster.io/priority-drop``).

The admission webhook writes it, the preemption controller acts on it and takes it away.
"""

from typing import Final

import msgspec

from berthmaster.model.base import Int32, Value

ANNOTATION: Final = "policy.berthmaster.io/priority-drop"


class Drop(Value, frozen=True):
    """An interval of priorities, open below and closed above: ``(to, from_]``."""

    from_: Int32 = msgspec.field(name="from")
    to: Int32

    def opens_to(self, priority: int) -> bool:
        """Whether a policy of a priority may preempt now, and had to wait before."""
        return self.to < priority <= self.from_


def parse(text: str | None) -> Drop | None:
    """The interval of an annotation; None if there is none, or none that a review can have written."""
    if text is None:
        return None
    try:
        drop = _DECODER.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    return drop if drop.from_ > drop.to else None


def write(drop: Drop) -> str:
    """The text of an annotation."""
    return f'{{"from": {drop.from_}, "to": {drop.to}}}'


_DECODER: Final = msgspec.json.Decoder(Drop)
