"""Prices of clusters: a score that prefers cheaper ones, and what a change costs each month.

A price is for one CPU and one GiB of memory that are requested for one hour, in any currency. A cluster has the price
of its annotation, or else that of the first entry of the file of prices whose labels it has.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec
import numpy as np

from berthmaster.model.cluster import Cluster
from berthmaster.model.errors import FieldError, shown
from berthmaster.model.meta import Value
from berthmaster.scheduling.columns import IntArray
from berthmaster.scheduling.component_sets import demand_of
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.filters import ColumnScore
from berthmaster.scheduling.fleet import ClusterColumn, Fleet
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.resources import CPU, Requests

PRICE: Final = "policy.berthmaster.io/price"
"""The annotation of a cluster with its price, such as ``cpu=0.031,memory=0.004``."""
HOURS: Final = 730
"""The hours of a month: 8,760 in a year, divided by 12."""
MAX_PRICE: Final = 1_000_000
MAX_ENTRIES: Final = 256
_MEMORY: Final = "memory"
_UNIT: Final = {CPU: 1000, _MEMORY: 2**30}
"""What one hour of a price is for, in the units of requests."""
_DEFAULT: Final[Requests] = tuple(_UNIT.items())
"""The request of a replica without requests, so that its clusters have an order, too."""
_TEXT: Final = re.compile(r"cpu=(\d{1,9}(?:\.\d{1,9})?),memory=(\d{1,9}(?:\.\d{1,9})?)", re.ASCII)


class Price(NamedTuple):
    """What one CPU, and one GiB of memory, cost for one hour."""

    cpu: float
    memory: float

    def monthly(self, requests: Requests) -> float:
        amounts = dict(requests)
        cpu, memory = amounts.get(CPU, 0) / _UNIT[CPU], amounts.get(_MEMORY, 0) / _UNIT[_MEMORY]
        return HOURS * (cpu * self.cpu + memory * self.memory)


class PriceEntry(Value, frozen=True):
    """The price of the clusters with some labels; without labels, of all clusters."""

    cpu: float
    memory: float
    match_labels: dict[str, str] = {}


class Prices(Value, frozen=True):
    """The content of a file of prices."""

    api_version: str = ""
    kind: str = ""
    prices: tuple[PriceEntry, ...] = ()

    def check(self) -> None:
        """Check the values.

        Raises:
            FieldError: there are too many entries, or a price is out of range.
        """
        if len(self.prices) > MAX_ENTRIES:
            raise FieldError("prices", f"has {len(self.prices)} entries; accepted are at most {MAX_ENTRIES}")
        for index, entry in enumerate(self.prices):
            for name, value in (("cpu", entry.cpu), ("memory", entry.memory)):
                if not 0 <= value <= MAX_PRICE:
                    problem = f"{value:g} is not a price; accepted is a number from 0 to {MAX_PRICE:,}"
                    raise FieldError(f"prices[{index}].{name}", problem)

    def of(self, cluster: Cluster) -> Price | None:
        """Return the price of a cluster; None without a valid one."""
        text = cluster.metadata.annotations.get(PRICE)
        if text is not None:
            return _parsed(text)
        labels = cluster.metadata.labels
        for entry in self.prices:
            if entry.match_labels.items() <= labels.items():
                return Price(entry.cpu, entry.memory)
        return None


NO_PRICES: Final = Prices()


def price_errors(clusters: Iterable[Cluster]) -> Iterator[str]:
    """Yield what is wrong with the price of each cluster whose annotation is invalid."""
    for each in clusters:
        text = each.metadata.annotations.get(PRICE)
        if text is not None and _parsed(text) is None:
            error = FieldError(
                f"metadata.annotations[{PRICE}]",
                f"{shown(text)} is not a price; accepted is cpu=NUMBER,memory=NUMBER, each from 0 to {MAX_PRICE:,}, "
                "for one hour of one CPU and of one GiB. The cluster counts as one without a price",
            )
            yield f"cluster {each.name}: {error}"


def _parsed(text: str) -> Price | None:
    match = _TEXT.fullmatch(text)
    price = None if match is None else Price(float(match[1]), float(match[2]))
    return price if price is not None and max(price) <= MAX_PRICE else None


class ClusterCost(ColumnScore):
    """Prefer clusters on which the requests of a replica cost less.

    The cheapest cluster that fits gets the weight, the most expensive one 0, others a share of the weight. A cluster
    without a price gets 0.
    """

    name = "ClusterCost"

    def __init__(self, prices: Prices, weight: int) -> None:
        """Prefer by prices. ``weight`` is the highest score, 1 to 100."""
        self._prices, self._weight = prices, weight

    def scores(self, context: Context, rows: IntArray) -> IntArray:
        cpu, memory = (self._column(context.fleet, part).current()[rows] for part in (0, 1))
        amounts = dict(_amounts(context.request) or _DEFAULT)
        costs = cpu * (amounts.get(CPU, 0) / _UNIT[CPU]) + memory * (amounts.get(_MEMORY, 0) / _UNIT[_MEMORY])
        priced = ~np.isnan(costs)
        found = np.zeros(len(rows), dtype=np.int64)
        if priced.any():
            highest, lowest = costs[priced].max(), costs[priced].min()
            share = (highest - costs[priced]) / (highest - lowest) if highest > lowest else 1.0
            found[priced] = np.rint(self._weight * share)
        return found

    def _column(self, fleet: Fleet, part: int) -> ClusterColumn[np.float64]:
        def of(cluster: Cluster) -> float:
            price = self._prices.of(cluster)
            return np.nan if price is None else price[part]

        return fleet.column((self, part), of, np.float64(np.nan))


class CostChange(msgspec.Struct, frozen=True, rename="camel"):
    """What a change costs more each month: requests x price x 730 h. Negative if it costs less.

    ``unpriced``: the replicas that are not counted, because their workload moves to or from a cluster without a price.
    """

    monthly: float
    unpriced: int = 0


class Costs:
    """What replicas cost on the clusters of a fleet."""

    def __init__(self, prices: Prices, cluster: Callable[[str], Cluster | None]) -> None:
        """Use prices. ``cluster`` returns the cluster of a name; None if it does not exist."""

        def price_of(name: str) -> Price | None:
            found = cluster(name)
            return None if found is None else prices.of(found)

        self._price_of = lru_cache(None)(price_of)

    def of(self, request: Request, before: Mapping[str, int], after: Mapping[str, int]) -> "Cost":
        """Return what a move costs. ``before``, ``after``: the replicas of the workload by cluster."""
        then, now = request.occupied(before), request.occupied(after)
        changes = {name: now.get(name, 0) - then.get(name, 0) for name in then.keys() | now.keys()}
        prices = {name: self._price_of(name) for name, count in changes.items() if count}
        if None in prices.values():
            moved = max(sum(n for n in changes.values() if n > 0), -sum(n for n in changes.values() if n < 0))
            return Cost(0.0, moved, any(price is not None for price in prices.values()))
        requests = _amounts(request)
        monthly = sum(changes[name] * price.monthly(requests) for name, price in prices.items() if price)
        return Cost(monthly, 0, bool(prices))


class Cost(NamedTuple):
    """What a move costs each month, or its replicas if that is not known. ``known``: whether a cluster has a price."""

    monthly: float
    unpriced: int
    known: bool


NO_COST: Final = Cost(0.0, 0, known=False)


def change_of(costs: Iterable[Cost]) -> CostChange | None:
    """Return what moves cost in all; None if no cluster of them has a price."""
    found = [*costs]
    monthly, unpriced = sum(each.monthly for each in found), sum(each.unpriced for each in found)
    return CostChange(round(monthly, 4), unpriced) if any(each.known for each in found) else None


def total_of(changes: Iterable[CostChange | None]) -> CostChange | None:
    """Return the sum of changes; None without any."""
    found = [each for each in changes if each is not None]
    if not found:
        return None
    return CostChange(round(sum(each.monthly for each in found), 4), sum(each.unpriced for each in found))


def _amounts(request: Request) -> Requests:
    return demand_of(request.set_templates) if request.set_templates else request.requests or ()
