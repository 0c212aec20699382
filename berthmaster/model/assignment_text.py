"""Assignments in messages: conditions, events, log records and tables."""

from collections.abc import Mapping
from typing import Final

CLUSTERS_SHOWN: Final = 8
"""The most clusters that a message names."""


def short_assignment(clusters: Mapping[str, int], none: str = "no clusters") -> str:
    """Return replicas by cluster as text, such as ``member1:2, member2:1``; of many clusters only the first by name."""
    text = ", ".join(f"{name}:{count}" for name, count in sorted(clusters.items())[:CLUSTERS_SHOWN])
    more = len(clusters) - CLUSTERS_SHOWN
    return f"{text} and {more} more" if more > 0 else text or none
