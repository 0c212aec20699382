"""Decodes bindings and clusters of a large fleet: equal parts of objects are kept in memory once."""

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from msgspec.structs import replace

from berthmaster.model.binding import (
    AggregatedStatusItem,
    Binding,
    BindingSpec,
    BindingStatus,
    TargetCluster,
    target_of,
)
from berthmaster.model.cluster import Cluster, Condition
from berthmaster.model.decode import decode_json, encode_json, read_json
from berthmaster.model.errors import FieldError
from berthmaster.model.meta import ObjectMeta, with_spec
from berthmaster.model.unsupported_placement import checked_placement, decode_held_binding, placement_text

T = TypeVar("T")

_MOST_BYTES: Final = 16 * 2**20
_ENTRY_BYTES: Final = 128


class SharedParts:
    """The parts that were seen. Of equal parts the first one is used. For several threads.

    Bindings of one policy have the same placement, requirements and annotations. Members report the same status of
    many workloads, and clusters serve the same kinds. Decoded values never change, so that objects can share parts.

    Above ``most_bytes``, which counts the JSON of the parts, all are forgotten, and sharing begins anew.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._known: dict[object, Any] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._known)

    def text(self, text: str) -> str:
        known = self._known.get(text)
        return self._kept(text, text, len(text)) if known is None else cast("str", known)

    def part(self, place: str, value: T) -> T:
        """Return the equal part that was seen first at the same place: JSON of other types may be equal."""
        if not value:
            return value
        text = encode_json(value)
        known = self._known.get((place, text))
        return self._kept((place, text), value, len(text)) if known is None else cast("T", known)

    def made(self, text: bytes, make: Callable[[], T]) -> T:
        """Return what a JSON text was made to; make it if the text is new."""
        known = self._known.get(text)
        return self._kept(text, make(), len(text)) if known is None else cast("T", known)

    def _kept(self, key: object, value: T, size_bytes: int) -> T:
        size_bytes += _ENTRY_BYTES
        if self._bytes + size_bytes > self._most_bytes:
            self._known, self._bytes = {}, 0
        self._bytes += size_bytes
        self._known[key] = value
        return value


class SharingReader:
    """Decodes bindings and clusters. Objects share their equal parts."""

    def __init__(self, *, hold_unknown: bool = True) -> None:
        self._hold_unknown = hold_unknown
        self._parts = SharedParts()

    def binding(self, raw: bytes) -> Binding:
        found = self._decoded(raw)
        metadata, spec, status = self._metadata(found.metadata), self._spec(found.spec), self._status(found.status)
        api_version = self._parts.text(found.api_version)
        return replace(found, metadata=metadata, spec=spec, status=status, api_version=api_version)

    def cluster(self, cluster: Cluster) -> Cluster:
        """Return a cluster that shares its parts. The kinds that it serves are by far its largest part."""
        part = self._parts.part
        served, models = part("served", cluster.status.api_enablements), part("models", cluster.spec.resource_models)
        conditions = tuple(map(self._condition, cluster.status.conditions))
        return replace(
            cluster,
            spec=replace(cluster.spec, resource_models=models),
            status=replace(cluster.status, api_enablements=served, conditions=conditions),
        )

    def _decoded(self, document: bytes) -> Binding:
        """Decode a binding. The bindings of one policy share their placement, whose fields are checked once."""
        try:
            binding = decode_json(Binding, document)
        except FieldError:
            if (held := decode_held_binding(document)) is not None:
                return held
            raise
        placement = binding.spec.placement
        if placement is None:
            return binding
        text, hold = placement_text(document), self._hold_unknown
        return with_spec(
            binding,
            placement=self._parts.made(
                text, lambda: checked_placement(placement, read_json(text)) if hold else placement
            ),
        )

    def _metadata(self, metadata: ObjectMeta) -> ObjectMeta:
        text = self._parts.text
        return replace(
            metadata,
            namespace=text(metadata.namespace),
            labels={text(key): text(value) for key, value in metadata.labels.items()},
            annotations=self._parts.part("annotations", metadata.annotations),
            finalizers=self._parts.part("finalizers", metadata.finalizers),
            owner_references=tuple(
                replace(each, api_version=text(each.api_version), kind=text(each.kind))
                for each in metadata.owner_references
            ),
        )

    def _spec(self, spec: BindingSpec) -> BindingSpec:
        text, part, resource = self._parts.text, self._parts.part, spec.resource
        return replace(
            spec,
            resource=replace(
                resource,
                api_version=text(resource.api_version),
                kind=text(resource.kind),
                namespace=text(resource.namespace),
            ),
            replica_requirements=part("replica_requirements", spec.replica_requirements),
            components=part("components", spec.components),
            clusters=tuple(map(self._target, spec.clusters)),
            scheduler_name=text(spec.scheduler_name),
            failover=part("failover", spec.failover),
            suspension=part("suspension", spec.suspension),
        )

    def _target(self, target: TargetCluster) -> TargetCluster:
        name = self._parts.text(target.name)
        if not target.components:
            return target_of(name, target.replicas)
        return TargetCluster(name, target.replicas, self._parts.part("targets", target.components))

    def _status(self, status: BindingStatus) -> BindingStatus:
        return replace(
            status,
            scheduler_observing_affinity_name=self._parts.text(status.scheduler_observing_affinity_name),
            conditions=tuple(map(self._condition, status.conditions)),
            aggregated_status=tuple(map(self._report, status.aggregated_status)),
        )

    def _report(self, report: AggregatedStatusItem) -> AggregatedStatusItem:
        text = self._parts.text
        return AggregatedStatusItem(
            text(report.cluster_name),
            self._parts.part("status", report.status),
            report.applied,
            text(report.applied_message),
            text(report.health),
        )

    def _condition(self, condition: Condition) -> Condition:
        text = self._parts.text
        return Condition(
            text(condition.type),
            text(condition.status),
            text(condition.reason),
            text(condition.message),
            text(condition.last_transition_time),
            condition.observed_generation,
        )
