"""The form that a change has in the native API."""

from berthmaster.native_api import what_if
from berthmaster.simulation.changes import (
    AddCluster,
    AddLabel,
    AddTaint,
    Down,
    RemoveCluster,
    RemoveLabel,
    RemoveTaint,
    Reschedule,
    Scale,
    SetPolicy,
    Up,
)
from berthmaster.simulation.world import Change


def wire_change(change: Change) -> what_if.Change:
    """Return a change in the form of the extender's API. Raises ``TypeError`` if the API has no form for the change."""
    match change:
        case Down(cluster):
            return what_if.DownChange(cluster)
        case AddTaint(cluster, taint):
            return what_if.TaintChange(cluster, taint)
        case AddLabel(cluster, key, value):
            return what_if.LabelChange(cluster, key, value)
        case Scale(resource, replicas):
            return what_if.ScaleChange(str(resource), replicas)
        case Reschedule():
            return what_if.RescheduleChange()
        case SetPolicy(policy):
            return what_if.PolicyChange(policy)
        case RemoveTaint(cluster, key, effect):
            return what_if.UntaintChange(cluster, key, effect)
        case RemoveLabel(cluster, key):
            return what_if.UnlabelChange(cluster, key)
        case Up(cluster):
            return what_if.UpChange(cluster)
        case AddCluster(added):
            return what_if.AddClusterChange(added)
        case RemoveCluster(cluster):
            return what_if.RemoveClusterChange(cluster)
    raise TypeError(f"the API has no form for {type(change).__name__}")
