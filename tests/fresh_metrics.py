"""Read the metrics of a service. The service keeps their text for a moment, and renders it again only after that."""

import time
from collections.abc import Callable, Hashable

from berthmaster.serving.probes import METRICS_KEPT_S

_KEPT_UNTIL_S: dict[Hashable, float] = {}


def fresh(server: Hashable, read: Callable[[], str]) -> str:
    """Return the metrics. If this process has read those of this server a moment ago, wait for a new text first."""
    time.sleep(max(0.0, _KEPT_UNTIL_S.get(server, 0.0) - time.monotonic()))
    text = read()
    _KEPT_UNTIL_S[server] = time.monotonic() + METRICS_KEPT_S
    return text
