"""SpreadConstraint: a cluster must have what it is to be spread by."""

import numpy as np

from berthmaster.model.cluster import Cluster
from berthmaster.model.placement import Placement
from berthmaster.scheduling.columns import BoolArray, Column
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.filters import PlacementFilter
from berthmaster.scheduling.fleet import Fleet


class SpreadFieldsColumn(Column[np.bool_]):
    """Which rows have all of some fields."""

    __slots__ = ("_fields", "_fleet")

    def __init__(self, fleet: Fleet, fields: list[str]) -> None:
        super().__init__(fleet.structure)
        self._fleet = fleet
        self._fields = fields

    def compute(self) -> BoolArray:
        """All rows."""
        present: BoolArray = np.logical_and.reduce([self._present(field) for field in self._fields])
        return present

    def compute_row(self, row: int) -> bool:
        """One row."""
        return all(bool(self._present(field)[row]) for field in self._fields)

    def _present(self, field: str) -> BoolArray:
        fleet = self._fleet
        return {"provider": fleet.has_provider, "region": fleet.has_region, "zone": fleet.has_zones}[field]


class SpreadConstraint(PlacementFilter):
    """A cluster without provider, region or zones cannot be counted to a group of them."""

    name = "SpreadConstraint"

    def column(self, context: Context) -> SpreadFieldsColumn | None:
        """The rows that have what the placement spreads by."""
        fields = _fields(context.plan.placement)
        return SpreadFieldsColumn(context.fleet, fields) if fields else None

    def reason(self, context: Context, cluster: Cluster) -> str | None:
        """The first field that is missing."""
        present = {
            "provider": cluster.spec.provider, "region": cluster.spec.region, "zone": cluster.spec.zones
        }  # fmt: skip
        missing = next((field for field in _fields(context.plan.placement) if not present[field]), None)
        return None if missing is None else f"has no {missing}, which the workload is spread by"


def _fields(placement: Placement) -> list[str]:
    fields = (constraint.spread_by_field for constraint in placement.spread_constraints)
    return [field for field in fields if field in {"provider", "region", "zone"}]
