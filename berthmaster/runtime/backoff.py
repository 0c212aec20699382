"""How long to wait before the next try."""

import random
from typing import Final

FIRST_S: Final = 0.5
LONGEST_S: Final = 30.0


class Backoff:
    """Exponential, with full jitter in the upper half: many that lost the same server do not come back together."""

    def __init__(
        self, first_s: float = FIRST_S, longest_s: float = LONGEST_S, draw: random.Random | None = None
    ) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._draw = draw or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._ceiling_s = first_s

    def next_s(self) -> float:
        """The next wait: at least half of a ceiling that doubles each time."""
        ceiling_s = self._ceiling_s
        self._ceiling_s = min(self._longest_s, 2 * ceiling_s)
        return self._draw.uniform(ceiling_s / 2, ceiling_s)

    def reset(self) -> None:
        """All is well again."""
        self._ceiling_s = self._first_s
