"""What makes a filter let a cluster pass, as facts. ``simulation.remedies`` says each one as a change of an object."""

from typing import NamedTuple

from berthmaster.model.taint import Taint


class TaintRemedy(NamedTuple):
    """The cluster has the taint no more, or the placement tolerates it."""

    taint: Taint


class ServedKindRemedy(NamedTuple):
    """The cluster serves a kind."""

    api_version: str
    kind: str


class EvictionRemedy(NamedTuple):
    """The eviction of the workload from the cluster ends."""


class LabelRemedy(NamedTuple):
    """The cluster has a label with a value. ``value``: None if it must not have the label."""

    key: str
    value: str | None


class NameRemedy(NamedTuple):
    """The affinity of the group names the cluster."""


class ExclusionRemedy(NamedTuple):
    """The affinity of the group excludes the cluster no more."""


class FieldSelectorRemedy(NamedTuple):
    """The affinity of the group has no field selector."""


class LocationRemedy(NamedTuple):
    """The cluster says its ``field``: provider, region or zone."""

    field: str


ClusterRemedy = TaintRemedy | ServedKindRemedy | EvictionRemedy | LabelRemedy | LocationRemedy
AffinityRemedy = NameRemedy | ExclusionRemedy | FieldSelectorRemedy
"""A change of the affinity of a group."""
FilterRemedy = ClusterRemedy | AffinityRemedy
