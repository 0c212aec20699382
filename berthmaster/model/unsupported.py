"""Decodes bindings and policies: parts of a placement that this version does not know, and parts that are shared.

A field of a newer Karmada that is ignored can misplace a workload. A placement with such parts is therefore a value of
its own type, which schedulers hold: what runs stays, and nothing is scheduled anew.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, cast

import msgspec
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
from berthmaster.model.decode import NOT_JSON, decode_json, encode_json, read_json, without_nulls
from berthmaster.model.errors import FieldError
from berthmaster.model.meta import ObjectMeta, with_spec
from berthmaster.model.placement import Placement
from berthmaster.model.policy import Policy
from berthmaster.model.unknown_fields import has_unknown_fields, unknown_fields

PLACEMENT: Final = "spec.placement"
_MAX_SHOWN: Final = 5
_NULL: Final = msgspec.Raw(b"null")
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class UnsupportedPlacement(Placement, frozen=True):
    """A placement with unknown parts, each named by its path and what is wrong with it. The rest is as written."""

    unsupported: tuple[str, ...] = ()


class _SpecOutline(msgspec.Struct, frozen=True, gc=False):
    placement: msgspec.Raw = _NULL


class _Outline(msgspec.Struct, frozen=True, gc=False):
    spec: _SpecOutline | None = None


_OUTLINE: Final = msgspec.json.Decoder(_Outline)


def unsupported_parts(placement: Placement | None) -> tuple[str, ...]:
    return placement.unsupported if isinstance(placement, UnsupportedPlacement) else ()


def unsupported_message(parts: tuple[str, ...]) -> str:
    more = len(parts) - _MAX_SHOWN
    shown = "; ".join(parts[:_MAX_SHOWN]) + (f"; and {more} more" if more > 0 else "")
    return f"this version of Berthmaster does not know a part of the placement, so it schedules nothing anew: {shown}"


def placement_text(document: bytes) -> bytes:
    """Return the JSON of ``spec.placement`` of a valid document; ``null`` without one."""
    spec = _OUTLINE.decode(document).spec
    return bytes(_NULL if spec is None else spec.placement)


def checked_placement(placement: Placement, raw: Any) -> Placement:  # noqa: ANN401 - any JSON value
    """Return a placement, or an ``UnsupportedPlacement`` if its document (dicts, lists) has unknown fields."""
    found = unknown_placement_fields(raw)
    if not found:
        return placement
    fields = {name: getattr(placement, name) for name in Placement.__struct_fields__}
    return UnsupportedPlacement(**fields, unsupported=tuple(str(each.below(PLACEMENT)) for each in found))


def unknown_placement_fields(raw: Any) -> list[FieldError]:  # noqa: ANN401 - any JSON value
    """Return an error for each unknown field of a placement that is given as dicts and lists. Null is absent."""
    if not isinstance(raw, Mapping) or not has_unknown_fields(Placement, raw):
        return []
    return [*unknown_fields(Placement, without_nulls(raw))]


def decode_held_binding(document: bytes) -> Binding | None:
    """Decode a binding without its invalid placement. Return None if another part is invalid, too."""
    try:
        outline = _OBJECT.decode(document)
        spec = _OBJECT.decode(outline["spec"])
        text = spec.pop("placement")
        binding = decode_json(Binding, msgspec.json.encode({**outline, "spec": spec}))
    except (FieldError, KeyError, *NOT_JSON):
        return None
    try:
        decode_json(Placement, text)
    except FieldError as error:
        placement = UnsupportedPlacement(unsupported=(str(error.below(PLACEMENT)),))
        return with_spec(binding, placement=placement)
    return None


def decode_checked_policy(document: bytes) -> Policy:
    """Decode a policy; one with unknown fields in its placement has an ``UnsupportedPlacement``."""
    policy = decode_json(Policy, document)
    checked = checked_placement(policy.spec.placement, read_json(placement_text(document)))
    if checked is policy.spec.placement:
        return policy
    return with_spec(policy, placement=checked)


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
