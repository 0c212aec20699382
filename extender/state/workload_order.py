"""The order of lists of workloads."""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

from berthmaster.native_api.fleet import SortKey
from extender.state.placed_workload import PlacedWorkload

_VALUES: Final[Mapping[SortKey, Callable[[PlacedWorkload], Any]]] = {
    SortKey.NAME: attrgetter("binding.spec.resource.name"),
    SortKey.NAMESPACE: attrgetter("binding.spec.resource.namespace"),
    SortKey.REPLICAS: attrgetter("binding.spec.replicas"),
    SortKey.CLUSTERS: lambda each: len(each.binding.deployed),
    SortKey.GROUP: attrgetter("group_index"),
    SortKey.POLICY: attrgetter("policy"),
    SortKey.SCHEDULED: attrgetter("binding.status.last_scheduled_time"),
}
_UNKNOWN: Final[Mapping[SortKey, Callable[[PlacedWorkload], bool]]] = {
    SortKey.GROUP: lambda each: each.group_index is None,
    SortKey.POLICY: lambda each: not each.policy,
    SortKey.SCHEDULED: lambda each: each.binding.status.last_scheduled_time is None,
}


def in_order(rows: Sequence[PlacedWorkload], sort: SortKey, *, descending: bool) -> Sequence[PlacedWorkload]:
    """Return rows in an order. Equal ones stay in the order of the list, and those without a value come last."""
    if sort is SortKey.NAMESPACE and not descending:
        return rows
    value_of, unknown = _VALUES[sort], _UNKNOWN.get(sort)
    if unknown is None:
        return sorted(rows, key=value_of, reverse=descending)
    known = [each for each in rows if not unknown(each)]
    return sorted(known, key=value_of, reverse=descending) + [each for each in rows if unknown(each)]
