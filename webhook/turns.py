"""Turns at the extender: how many questions are asked at once, and whose."""

import threading
from collections import Counter

from webhook.admission.impact import ReviewedChange


class Turns:
    """Counts the questions under way. Safe for several threads.

    A user has at most half of the turns, and one for dry runs. Dry runs have at most a quarter of the turns together: a
    dry run that waits or fails stores nothing and stops nothing.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._dry_runs = max(1, total // 4)
        self._of_author = max(1, total // 2)
        self._changed = threading.Condition()
        self._taken: Counter[tuple[str, bool]] = Counter()

    def take(self, change: ReviewedChange, timeout_s: float) -> bool:
        """Take a turn, and return whether one was free in time. The caller gives it back with ``give_back``."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._is_free(change), timeout_s):
                return False
            self._taken[change.author, change.dry_run] += 1
            return True

    def give_back(self, change: ReviewedChange) -> None:
        with self._changed:
            key = change.author, change.dry_run
            self._taken[key] -= 1
            if not self._taken[key]:
                del self._taken[key]
            self._changed.notify_all()

    def _is_free(self, change: ReviewedChange) -> bool:
        if self._taken.total() >= self._total:
            return False
        own_dry_runs, own = self._taken[change.author, True], self._taken[change.author, False]
        if not change.dry_run:
            return own < self._of_author
        return not own_dry_runs and sum(count for (_, dry), count in self._taken.items() if dry) < self._dry_runs
