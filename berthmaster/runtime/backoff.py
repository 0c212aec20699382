"""Waits between retries."""

import random
from typing import Final

FIRST_S: Final = 0.5
LONGEST_S: Final = 30.0


class Backoff:
    """Waits that double, with jitter, so that the clients of a failed server do not retry at the same time."""

    def __init__(
        self, first_s: float = FIRST_S, longest_s: float = LONGEST_S, draw: random.Random | None = None
    ) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._draw = draw or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._ceiling_s = first_s

    def next_s(self) -> float:
        """Return the next wait in seconds: between half of a ceiling and the ceiling, which doubles each time."""
        ceiling_s = self._ceiling_s
        self._ceiling_s = min(self._longest_s, 2 * ceiling_s)
        return self._draw.uniform(ceiling_s / 2, ceiling_s)

    def reset(self) -> None:
        self._ceiling_s = self._first_s
