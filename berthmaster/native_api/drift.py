"""The native API's answers about drift: workloads that are not where their policy asks for."""

from datetime import datetime
from typing import Final, NamedTuple

from berthmaster.native_api.wire import Staleness
from berthmaster.simulation.drift import FleetDrift

DRIFT_SORTS: Final = ("moves", "fullMoves", "name")


class DriftQuery(NamedTuple):
    """Which workloads that drift to list. All conditions must hold. The summaries are about all of them.

    Attributes:
        q: a part of ``NAMESPACE/KIND/NAME``, in any case; empty for all.
        kind: a kind of drift; empty for all.
        policy, cluster: a part of the policy, and of the name of a cluster that has replicas before or after a repair.
        tolerance: by how many percent a share may differ from its weight.
        namespaces: as in ``PolicyQuery``.
        sort: one of ``DRIFT_SORTS``, with a leading ``-`` for descending; empty for the most moves first.
        offset: how many workloads to leave out first.
        limit: the most workloads; 0 for the figures without any list.
        stale: whether to answer at once, with the last figures.
    """

    q: str = ""
    kind: str = ""
    policy: str = ""
    cluster: str = ""
    tolerance: int = 10
    namespaces: frozenset[str] | None = None
    sort: str = ""
    offset: int = 0
    limit: int = 200
    stale: bool = False


class DriftView(FleetDrift, frozen=True, rename="camel", kw_only=True):
    """The drift of the workloads that a reader may see. ``workloads`` is a page of those that the question selects."""

    matched: int
    computed_at: datetime
    gaps: list[str]
    version: str
    staleness: Staleness
