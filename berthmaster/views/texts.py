"""Assignments and amounts as text."""

from collections.abc import Mapping
from typing import Final

from berthmaster.simulation.plan_answer import ClusterTotal

_BINARY: Final = ((2**40, "Ti"), (2**30, "Gi"), (2**20, "Mi"), (2**10, "Ki"))


def count_text(number: int, noun: str) -> str:
    """Return a number of things, such as ``1 workload`` or ``2,000 workloads``."""
    return f"{number} {noun}" if number == 1 else f"{number:,} {noun}s"


def assignment_text(clusters: Mapping[str, int | None]) -> str:
    """Format an assignment as ``cluster=replicas ...``; empty if there is no cluster."""
    return " ".join(name if replicas is None else f"{name}={replicas}" for name, replicas in clusters.items())


def without_zeros(clusters: Mapping[str, int]) -> dict[str, int | None]:
    """Replace 0 by None: Karmada assigns 0 replicas to a workload that has none."""
    return {name: replicas or None for name, replicas in clusters.items()}


def resource_text(total: ClusterTotal, resource: str) -> str:
    """Return what arriving replicas request of a resource and what is free, for people."""
    shown = cores_text if resource == "cpu" else bytes_text
    found = total.resources[resource]
    available = "unknown" if found.available is None else shown(found.available)
    return f"{shown(found.requested)} / {available}"


def cores_text(milli: int) -> str:
    """Return an amount of CPU, given in thousandths of a core, in cores."""
    return f"{milli / 1000:g}"


def bytes_text(amount: int) -> str:
    """Return an amount of bytes with the largest binary unit that fits."""
    for size, unit in _BINARY:
        if abs(amount) >= size:
            return f"{amount / size:.4g}{unit}"
    return str(amount)
