"""The scheduling engine and its public plugin API. Pure: a fleet and a request in, a decision out.

A decision has four steps: filter, score, select, assign. The scheduler runs them for one group of clusters after the
other. All steps work on columns, which are arrays with one entry per cluster. ``fleet`` updates them in place as
clusters change, ``columns`` derives further columns, such as "which clusters match this affinity".

The engine (``scheduler``) contains no rule of a control plane. A ``profile`` names the plugins and the other stages.
``karmada.profile`` and ``kubeadmiral.profile`` define the two profiles.

Plugins of third parties import from this package alone. docs/extending.md describes the names that it exports.
"""

from berthmaster.model.cluster import Cluster
from berthmaster.scheduling.columns import BoolArray, Column, IntArray
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.filter_remedies import LabelRemedy, LocationRemedy, ServedKindRemedy, TaintRemedy
from berthmaster.scheduling.filters import (
    MAX_SCORE,
    MIN_SCORE,
    ColumnScore,
    Filter,
    PlacementFilter,
    RelativeScore,
    Score,
    UnscorableError,
)
from berthmaster.scheduling.fleet import ClusterColumn, Fleet
from berthmaster.scheduling.request import Request

__all__ = [
    "MAX_SCORE",
    "MIN_SCORE",
    "BoolArray",
    "Cluster",
    "ClusterColumn",
    "Column",
    "ColumnScore",
    "Context",
    "Filter",
    "Fleet",
    "IntArray",
    "LabelRemedy",
    "LocationRemedy",
    "PlacementFilter",
    "RelativeScore",
    "Request",
    "Score",
    "ServedKindRemedy",
    "TaintRemedy",
    "UnscorableError",
]
