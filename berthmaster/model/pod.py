"""What a pod asks for, counted as kube-scheduler does (``component-helpers`` ``resource.PodRequests``)."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from berthmaster.model.base import Value
from berthmaster.model.errors import FieldError
from berthmaster.model.quantity import Quantity
from berthmaster.model.taint import Toleration
from berthmaster.model.validity import negative_amounts

Amounts = Mapping[str, Quantity]

_ALWAYS: Final = "Always"


class ResourceRequirements(Value, frozen=True):
    """What a container, or a pod as a whole, asks for and may use at most."""

    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}


class Container(Value, frozen=True):
    """A container; an init container with ``restart_policy`` Always is a sidecar."""

    name: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str = ""

    @property
    def is_sidecar(self) -> bool:
        """For an init container: whether it keeps running beside the containers."""
        return self.restart_policy == _ALWAYS

    def requests(self) -> Amounts:
        """Its requests; an absent one is the limit of that resource, as the API server defaults it."""
        return {**self.resources.limits, **self.resources.requests}


class NodeAffinity(Value, frozen=True):
    """Which nodes a pod may run on; preferences play no part."""

    required_during_scheduling_ignored_during_execution: dict[str, Any] | None = None


class Affinity(Value, frozen=True):
    """The part of a pod's affinity that is about nodes."""

    node_affinity: NodeAffinity | None = None


class PodSpec(Value, frozen=True):
    """The part of a pod's spec that says what it needs."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    overhead: dict[str, Quantity] = {}
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    priority_class_name: str = ""

    @property
    def required_node_affinity(self) -> dict[str, Any] | None:
        """The node selector terms of which one has to match."""
        node_affinity = self.affinity.node_affinity if self.affinity is not None else None
        return node_affinity.required_during_scheduling_ignored_during_execution if node_affinity else None


class PodTemplate(Value, frozen=True):
    """A pod, or the template of one."""

    spec: PodSpec = PodSpec()


def pod_requests(pod: PodSpec) -> dict[str, Quantity]:
    """What a node has to have free for a pod, per resource.

    The larger of two phases: all containers with all sidecars, and the hungriest init container with the
    sidecars that were started before it. What the pod as a whole asks for stands in place of that; overhead
    comes on top.
    """
    running = _sum([*(each.requests() for each in pod.containers), *_sidecar_requests(pod.init_containers)])
    requests = _largest([running, *_starting(pod.init_containers)])
    return dict(_sum([{**_pod_level_limits(pod, requests), **requests, **pod.resources.requests}, pod.overhead]))


def pod_errors(pod: PodSpec) -> Iterator[FieldError]:
    """Amounts below zero, each with its path in the pod's spec."""
    for field, containers in (("containers", pod.containers), ("initContainers", pod.init_containers)):
        for index, container in enumerate(containers):
            yield from _resource_errors(f"{field}[{index}].resources", container.resources)
    yield from _resource_errors("resources", pod.resources)
    yield from negative_amounts("overhead", pod.overhead)


def _resource_errors(path: str, resources: ResourceRequirements) -> Iterator[FieldError]:
    yield from negative_amounts(f"{path}.requests", resources.requests)
    yield from negative_amounts(f"{path}.limits", resources.limits)


def _sidecar_requests(init_containers: Iterable[Container]) -> list[Amounts]:
    return [each.requests() for each in init_containers if each.is_sidecar]


def _starting(init_containers: Iterable[Container]) -> Iterator[Amounts]:
    """What is needed while each init container runs or a sidecar starts, one after the other."""
    sidecars: Amounts = {}
    for container in init_containers:
        needed = _sum([sidecars, container.requests()])
        if container.is_sidecar:
            sidecars = needed
        yield needed


def _pod_level_limits(pod: PodSpec, requests: Amounts) -> Amounts:
    """Limits of the pod as a whole that become requests: those of resources that no container names."""
    return {name: limit for name, limit in pod.resources.limits.items() if name not in requests}


def _sum(parts: Iterable[Amounts]) -> Amounts:
    total: dict[str, Quantity] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total[name] + amount if name in total else amount
    return total


def _largest(parts: Iterable[Amounts]) -> Amounts:
    largest: dict[str, Quantity] = {}
    for part in parts:
        for name, amount in part.items():
            if name not in largest or largest[name] < amount:
                largest[name] = amount
    return largest
