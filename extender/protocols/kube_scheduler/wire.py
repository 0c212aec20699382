"""What goes over the wire of a kube-scheduler extender (``k8s.io/kube-scheduler/extender/v1``).

These types carry Go's own field names, for they have no JSON tags there: keys are capitalised, and what is not used is
``null`` rather than absent. The Kubernetes objects inside, pods and nodes, are written as everywhere else.
"""

from typing import NamedTuple

import msgspec

from berthmaster.model.meta import ObjectMeta, Value
from berthmaster.model.replicas import PodSpec


class PodStatus(Value, frozen=True):
    """The part of a pod's status that decides."""

    nominated_node_name: str = ""


class Pod(Value, frozen=True):
    """The pod that is being scheduled."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    def __str__(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"


class Args(NamedTuple):
    """A filter or prioritize request (``ExtenderArgs``).

    Attributes:
        pod: what is being scheduled.
        names: the nodes by name: what a scheduler with ``nodeCacheCapable: true`` sends. None if it sends nodes.
        nodes: the nodes as they came, one JSON document each; empty where names were sent.
    """

    pod: Pod
    names: list[str] | None
    nodes: list[msgspec.Raw]


class PreemptionArgs(NamedTuple):
    """A preempt request (``ExtenderPreemptionArgs``): the candidates with their victims, in whichever shape."""

    pod: Pod
    candidates: "dict[str, MetaVictims]"


class Go(msgspec.Struct, frozen=True, rename="pascal"):
    """A type without JSON tags in Go: capitalised names, nothing omitted."""


class NodeList(msgspec.Struct, frozen=True):
    """Nodes, each as it came."""

    items: list[msgspec.Raw]
    metadata: dict[str, str] = {}


class FilterResult(Go, frozen=True):
    """The answer to filter (``ExtenderFilterResult``).

    Attributes:
        nodes: those that remain, where nodes were sent; None where names were.
        node_names: those that remain, where names were sent; None where nodes were.
        failed_nodes: why not, by node: those whose turn may still come.
        failed_and_unresolvable_nodes: why not, by node: those that evicting pods does not help.
        error: why the pod cannot be judged now; empty if it was.
    """

    nodes: NodeList | None = None
    node_names: list[str] | None = None
    failed_nodes: dict[str, str] | None = None
    failed_and_unresolvable_nodes: dict[str, str] | None = None
    error: str = ""


class HostPriority(Go, frozen=True):
    """One node's score, from 0 to 10."""

    host: str
    score: int


class MetaPod(Go, frozen=True):
    """A victim."""

    uid: str = msgspec.field(name="UID")


class MetaVictims(Go, frozen=True):
    """The pods that would be evicted from a node."""

    pods: list[MetaPod]
    num_pdb_violations: int = msgspec.field(name="NumPDBViolations", default=0)


class PreemptionResult(Go, frozen=True):
    """The answer to preempt (``ExtenderPreemptionResult``): always UIDs, whatever was sent."""

    node_name_to_meta_victims: dict[str, MetaVictims]
