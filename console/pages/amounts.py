"""Amounts of resources as people read them: cores, binary units, and how full a cluster is."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from berthmaster.model.quantity import Quantity
from berthmaster.native_api.fleet import FleetAmount
from berthmaster.native_api.why import Room
from berthmaster.views.texts import bytes_text, cores_text

HIGH_PERCENT: Final = 90
_MANY_CORES: Final = 1_000_000
BASIC: Final = ("cpu", "memory", "pods")
_LABELS: Final = {"cpu": "CPU", "memory": "Memory", "pods": "Pods", "ephemeral-storage": "Ephemeral storage"}
_BYTES: Final = frozenset({"memory", "ephemeral-storage"})


class Load(NamedTuple):
    """How much of a resource is in use."""

    resource: str
    amount: FleetAmount

    @property
    def percent(self) -> int | None:
        """What is used, in percent; None if it is not known."""
        used, whole = self.amount.used, self.amount.allocatable
        return _percent(used, whole) if used is not None and whole else None

    @property
    def assumed_percent(self) -> int:
        """What is assumed on top of the use, in percent."""
        used, assumed, percent = self.amount.used, self.amount.assumed, self.percent
        if used is None or percent is None or not assumed:
            return 0
        return _percent(used + assumed, self.amount.allocatable) - percent

    @property
    def label(self) -> str:
        return label_of(self.resource)

    @property
    def total(self) -> int:
        """What is used and assumed, in percent; 0 if it is not known."""
        return (self.percent or 0) + self.assumed_percent

    @property
    def text(self) -> str:
        """What is used and what is assumed, as short as a tile needs."""
        if self.percent is None:
            return "not reported" if self.amount.used is None else "none"
        return f"{self.percent} % + {self.assumed_percent} %" if self.assumed_percent else f"{self.percent} %"

    @property
    def long_text(self) -> str:
        assumed = self.amount.assumed
        extra = f", {amount_text(self.resource, assumed)} assigned on top" if assumed else ""
        there = amount_text(self.resource, self.amount.allocatable)
        if self.amount.used is None:
            return f"use not reported{extra}, of {there}"
        return f"{amount_text(self.resource, self.amount.used)} used{extra}, of {there}"


def label_of(resource: str) -> str:
    """Return the name of a resource for people; extended resources keep theirs."""
    return _LABELS.get(resource, resource)


def amount_text(resource: str, amount: int) -> str:
    """Return an amount with its unit. CPU is given in thousandths of a core."""
    if resource == "cpu":
        # The cores of many clusters need no fractions.
        return f"{round(amount / 1000):,}" if amount >= _MANY_CORES else cores_text(amount)
    if resource in _BYTES or resource.startswith("hugepages-"):
        return bytes_text(amount)
    return f"{amount:,}"


def nearly_full(amount: FleetAmount) -> bool:
    if amount.used is None or not amount.allocatable:
        return False
    return 100 * (amount.used + (amount.assumed or 0)) >= HIGH_PERCENT * amount.allocatable


def room_words(requests: Mapping[str, Quantity], room: Room) -> tuple[str, ...]:
    """Return what one replica requests, and the most that a ready cluster has free of each."""
    wanted = {name: each.milli_value() if name == "cpu" else each.value() for name, each in sorted(requests.items())}
    texts = [f"{label_of(name)} {amount_text(name, amount)}" for name, amount in wanted.items()]
    rooms = [
        f"{label_of(name)} {amount_text(name, max(0, best.amount))} ({best.cluster})"
        if best is not None
        else f"{label_of(name)} on no ready cluster"
        for name, best in ((name, room.free.get(name)) for name in wanted)
    ]
    which = "one cluster that passes the filters" if room.passing else "one cluster"
    return (
        f"One replica requests {', '.join(texts)}.",
        f"The most that {which} has free: {', '.join(rooms)}.",
    )


def _percent(part: int, whole: int) -> int:
    # A cluster with something in use is not empty, and one with something free is not full.
    percent = round(100 * part / whole)
    if part and not percent:
        return 1
    return 99 if percent == 100 and part < whole else percent
