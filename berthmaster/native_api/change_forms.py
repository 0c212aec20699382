"""The form that a change has in the native API."""

from berthmaster.native_api import wire
from berthmaster.simulation.changes import AddLabel, AddTaint, Change, Down, Reschedule, Scale, SetPolicy
from berthmaster.simulation.cluster_changes import AddCluster, RemoveCluster, RemoveLabel, RemoveTaint, Up


def wire_change(change: Change) -> wire.Change:
    """Return a change in the form of the extender's API.

    Raises:
        TypeError: the API has no form for the change.
    """
    match change:
        case Down(cluster):
            return wire.DownChange(cluster)
        case AddTaint(cluster, taint):
            return wire.TaintChange(cluster, taint)
        case AddLabel(cluster, key, value):
            return wire.LabelChange(cluster, key, value)
        case Scale(resource, replicas):
            return wire.ScaleChange(str(resource), replicas)
        case Reschedule():
            return wire.RescheduleChange()
        case SetPolicy(policy):
            return wire.PolicyChange(policy)
        case RemoveTaint(cluster, key, effect):
            return wire.UntaintChange(cluster, key, effect)
        case RemoveLabel(cluster, key):
            return wire.UnlabelChange(cluster, key)
        case Up(cluster):
            return wire.UpChange(cluster)
        case AddCluster(added):
            return wire.AddClusterChange(added)
        case RemoveCluster(cluster):
            return wire.RemoveClusterChange(cluster)
    raise TypeError(f"the API has no form for {type(change).__name__}")
