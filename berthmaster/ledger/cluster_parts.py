"""A cluster in parts that change at different rates: documents that many versions share, and its numbers.

The documents are: the identity (name, labels, annotations, deletion, location, taints, conditions), the served API
groups, the grades of nodes, and the shape, which says what each number means. Amounts are in billionths. The resource
version, the generation, owners and finalizers are left out: no decision reads them.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from berthmaster.model.cluster import (
    AllocatableModeling,
    APIEnablement,
    Cluster,
    ClusterSpec,
    ClusterStatus,
    ResourceModel,
    ResourceModelRange,
    ResourceSummary,
)
from berthmaster.model.decode import decode_json, encode_json
from berthmaster.model.errors import DamagedLedgerError
from berthmaster.model.meta import ObjectMeta
from berthmaster.model.quantity import Quantity

_ALLOCATABLE, _ALLOCATED, _ALLOCATING, _COUNT = "allocatable", "allocated", "allocating", "count"
_PARTS = (_ALLOCATABLE, _ALLOCATED, _ALLOCATING, _COUNT)
_Models = list[tuple[int, list[tuple[str, str, str]]]]


def identity_of(cluster: Cluster) -> bytes:
    """Return the part that changes least."""
    meta = cluster.metadata
    kept = ObjectMeta(
        name=meta.name, labels=meta.labels, annotations=meta.annotations, deletion_timestamp=meta.deletion_timestamp
    )
    status = ClusterStatus(kubernetes_version=cluster.status.kubernetes_version, conditions=cluster.status.conditions)
    return encode_json(msgspec.structs.replace(cluster, metadata=kept, spec=_without_models(cluster), status=status))


def same_identity(one: Cluster, other: Cluster) -> bool:
    """Return whether two clusters have the same identity part. Cheaper than encoding both."""
    ours, theirs = one.metadata, other.metadata
    before, after = one.status, other.status
    return (
        (
            ours is theirs
            or (
                ours.labels == theirs.labels
                and ours.annotations == theirs.annotations
                and ours.deletion_timestamp == theirs.deletion_timestamp
            )
        )
        and (before.conditions is after.conditions or before.conditions == after.conditions)
        and before.kubernetes_version == after.kubernetes_version
        and (one.spec is other.spec or _without_models(one) == _without_models(other))
    )


def enablements_of(cluster: Cluster) -> bytes:
    """Return the served API groups."""
    return encode_json(cluster.status.api_enablements)


def models_of(cluster: Cluster) -> bytes:
    """Return the grades of nodes."""
    models: _Models = [
        (model.grade, [(each.name, str(each.min.nanos), str(each.max.nanos)) for each in model.ranges])
        for model in cluster.spec.resource_models
    ]
    return encode_json(models)


def numbers_of(cluster: Cluster) -> list[int]:
    """Return the numbers of a cluster: the amounts, then the counts of nodes. ``shape_of`` says what each means."""
    summary = cluster.status.resource_summary
    if summary is None:
        return []
    numbers = [amount.nanos for amount in summary.allocatable.values()]
    numbers += [amount.nanos for amount in summary.allocated.values()]
    numbers += [amount.nanos for amount in summary.allocating.values()]
    numbers += [modeling.count for modeling in summary.allocatable_modelings]
    return numbers


ShapeKey = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[int, ...]] | None


def shape_key(cluster: Cluster) -> ShapeKey:
    """Return the names that ``shape_of`` is made of, quickly. None without a resource summary."""
    summary = cluster.status.resource_summary
    if summary is None:
        return None
    return (
        tuple(summary.allocatable),
        tuple(summary.allocated),
        tuple(summary.allocating),
        tuple([modeling.grade for modeling in summary.allocatable_modelings]),
    )


def shape_of(key: ShapeKey) -> bytes:
    """Return what each number of a cluster means."""
    if key is None:
        return b"null"
    *names, grades = key
    shape = [(part, name) for part, each in zip(_PARTS[:3], names, strict=True) for name in each]
    return encode_json([*shape, *((_COUNT, str(grade)) for grade in grades)])


def numbers_before_allocating(cluster: Cluster) -> int:
    """Return how many numbers of ``numbers_of`` precede the allocating amounts."""
    summary = cluster.status.resource_summary
    return 0 if summary is None else len(summary.allocatable) + len(summary.allocated)


class _Shape(NamedTuple):
    """What the numbers of a cluster mean, in their order: names of resources, then grades of nodes."""

    allocatable: list[str]
    allocated: list[str]
    allocating: list[str]
    grades: list[int]


class PartDecoder:
    """Makes clusters of their documents and numbers. Each document is decoded once."""

    def __init__(self, document: Callable[[int], bytes]) -> None:
        """Start without documents; ``document`` returns one by its number."""
        self._document = document
        self._decoded: dict[int, Any] = {}

    def cluster(self, vector: Sequence[int]) -> Cluster:
        """Return the cluster with these numbers of documents and these own numbers.

        The texts of its quantities are empty; no decision reads them.

        Raises:
            InputError: a document is damaged.
        """
        identity, enablements, models, shape, *numbers = vector
        base: Cluster = self._part(identity, _identity)
        status = msgspec.structs.replace(
            base.status,
            api_enablements=self._part(enablements, _enablements),
            resource_summary=_summary(self._part(shape, _shape), numbers),
        )
        spec = msgspec.structs.replace(base.spec, resource_models=self._part(models, _models))
        return msgspec.structs.replace(base, spec=spec, status=status)

    def _part(self, number: int, decode: Callable[[bytes], Any]) -> Any:  # noqa: ANN401 - the part that is asked for
        if number not in self._decoded:
            self._decoded[number] = decode(self._document(number))
        return self._decoded[number]


def _identity(document: bytes) -> Cluster:
    return decode_json(Cluster, document)


def _enablements(document: bytes) -> tuple[APIEnablement, ...]:
    return decode_json(tuple[APIEnablement, ...], document)


def _shape(document: bytes) -> _Shape | None:
    if document == b"null":
        return None
    listed = decode_json(list[tuple[str, str]], document)
    names = {part: [name for each, name in listed if each == part] for part in _PARTS}
    if listed != [(part, name) for part in _PARTS for name in names[part]]:
        raise DamagedLedgerError("the resources of a cluster in the ledger are damaged")
    return _Shape(names[_ALLOCATABLE], names[_ALLOCATED], names[_ALLOCATING], list(map(int, names[_COUNT])))


def _models(document: bytes) -> tuple[ResourceModel, ...]:
    return tuple(
        ResourceModel(
            grade,
            tuple(
                ResourceModelRange(name, Quantity(int(least), ""), Quantity(int(most), ""))
                for name, least, most in ranges
            ),
        )
        for grade, ranges in decode_json(_Models, document)
    )


def _summary(shape: _Shape | None, numbers: Sequence[int]) -> ResourceSummary | None:
    if shape is None:
        return None
    if len(numbers) != len([*shape.allocatable, *shape.allocated, *shape.allocating, *shape.grades]):
        raise DamagedLedgerError("the resources of a cluster in the ledger are damaged")
    left = iter(numbers)
    allocatable, allocated, allocating = (
        {name: Quantity(nanos, "") for name, nanos in zip(names, left)}  # noqa: B905 - see the check above
        for names in (shape.allocatable, shape.allocated, shape.allocating)
    )
    modelings = tuple(map(AllocatableModeling, shape.grades, left))
    return ResourceSummary(allocatable, allocating, allocated, modelings)


def _without_models(cluster: Cluster) -> ClusterSpec:
    spec = cluster.spec
    return msgspec.structs.replace(spec, resource_models=()) if spec.resource_models else spec
