"""The small changes that may bring a workload to a cluster, each one as a change of a simulation.

A remedy is a change that a person makes to one object: the cluster, the policy or the template. No number becomes more
than twice or less than half of what it is. A change beyond that is no remedy but another workload or another cluster.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from typing import Final, NamedTuple, assert_never

from msgspec.structs import replace

from berthmaster.model import meta
from berthmaster.model.affinity import ClusterAffinity, ClusterAffinityTerm
from berthmaster.model.binding import Binding
from berthmaster.model.cluster import APIEnablement, APIResource, Cluster, ResourceSummary
from berthmaster.model.division_strategy import Strategy, strategy_of
from berthmaster.model.meta import with_spec
from berthmaster.model.placement import ClusterPreferences, Placement, ReplicaSchedulingStrategy, StaticClusterWeight
from berthmaster.model.quantity import MILLI_NANOS, NANOS, Quantity
from berthmaster.model.rebalancer import RebalancedWorkload, RebalancerSpec, WorkloadRebalancer
from berthmaster.scheduling.filter_remedies import (
    AffinityRemedy,
    ClusterRemedy,
    EvictionRemedy,
    ExclusionRemedy,
    FieldSelectorRemedy,
    FilterRemedy,
    LabelRemedy,
    LocationRemedy,
    NameRemedy,
    ServedKindRemedy,
    TaintRemedy,
)
from berthmaster.scheduling.resources import CPU, PODS
from berthmaster.simulation.changes import (
    NOT_READY,
    UNREACHABLE,
    AddLabel,
    ClusterEdit,
    Rebalance,
    RemoveLabel,
    RemoveTaint,
    Scale,
    SetPolicy,
    Up,
    with_changed_template,
)
from berthmaster.simulation.workload import ResourceName, SimulatedWorkload
from berthmaster.simulation.world import Change, World

MAX_FACTOR: Final = 2
"""How many times its present value a number may become."""
_MEBI: Final = 2**20


class RemedyKind(IntEnum):
    """What a remedy changes. Of sets of the same size, the one with the first kinds is the best."""

    RESCHEDULE = 0
    LABEL = 1
    TAINT = 2
    NAME = 3
    SELECTOR = 4
    SPREAD = 5
    DIVISION = 6
    WEIGHT = 7
    ORDER = 8
    ONLY_NAME = 9
    REQUESTS = 10
    REPLICAS = 11
    CAPACITY = 12
    EVICTION = 13
    LOCATION = 14
    SERVED_KIND = 15
    MORE_REPLICAS = 16


class NumberField(NamedTuple):
    """A number that can be changed in one direction.

    Attributes:
        limit: the last value to try, above or below the present one.
        parts: fields that change less by the same value, the smallest first.
    """

    kind: RemedyKind
    now: int
    limit: int
    text: Callable[[int], str]
    change: Callable[[int], Change]
    parts: Sequence["NumberField"] = ()

    def at(self, distance: int) -> "Remedy":
        value = self.now + (distance if self.limit > self.now else -distance)
        return Remedy(self.kind, self.text(value), self.change(value), self, distance)

    @property
    def distance(self) -> int:
        """How far the last value is from the present one."""
        return abs(self.limit - self.now)


class Remedy(NamedTuple):
    """A small change.

    Attributes:
        field: the number that it changes; None if it changes none.
        distance: by how much it changes the number.
    """

    kind: RemedyKind
    text: str
    change: Change
    field: NumberField | None = None
    distance: int = 0


PlacementEdit = Callable[[Placement], Placement]


@dataclass(frozen=True, slots=True)
class EditPlacement:
    """The placement of the policy that holds a workload is edited; without a policy, the one of its binding."""

    resource: ResourceName
    edit: PlacementEdit

    def applied(self, world: World, now: datetime) -> World:
        held_by = next(each.held_by for each in world.find(self.resource))
        policy = next((each for each in world.policies if each.reference == held_by), None)
        if policy is not None:
            after = with_spec(policy, placement=self.edit(policy.spec.placement or Placement()))
            return SetPolicy(after).applied(world, now)
        return _with_binding(world, self.resource, self._edited)

    def _edited(self, binding: Binding) -> Binding:
        return with_spec(binding, placement=self.edit(binding.spec.placement or Placement()))


@dataclass(frozen=True, slots=True)
class LowerRequest:
    """A template requests less of a resource."""

    resource: ResourceName
    name: str
    amount: Quantity

    def applied(self, world: World, now: datetime) -> World:  # noqa: ARG002 - the protocol's signature
        chosen = next(iter(world.find(self.resource)))
        return world.with_workload(chosen, with_changed_template(chosen, world.policies, self._lowered))

    def _lowered(self, binding: Binding) -> Binding:
        requirements = binding.spec.replica_requirements
        if requirements is None:
            return binding
        lowered = {**requirements.resource_request, self.name: self.amount}
        return with_spec(binding, replica_requirements=replace(requirements, resource_request=lowered))


@dataclass(frozen=True, slots=True)
class EndEviction:
    """The eviction of a workload from a cluster ends."""

    resource: ResourceName
    cluster: str

    def applied(self, world: World, now: datetime) -> World:  # noqa: ARG002 - the protocol's signature
        return _with_binding(world, self.resource, self._ended)

    def _ended(self, binding: Binding) -> Binding:
        kept = tuple(each for each in binding.spec.graceful_eviction_tasks if each.from_cluster != self.cluster)
        return with_spec(binding, graceful_eviction_tasks=kept)


class Serve(ClusterEdit, frozen=True):
    """A cluster serves one more kind."""

    api_version: str
    kind: str

    def changed(self, cluster: Cluster) -> Cluster:
        added = APIEnablement(self.api_version, (APIResource("", self.kind),))
        return meta.with_status(cluster, api_enablements=(*cluster.status.api_enablements, added))


class Locate(ClusterEdit, frozen=True):
    """A cluster that says no provider, region or zone says one that no other cluster has."""

    field: str

    def changed(self, cluster: Cluster) -> Cluster:
        value = f"a {self.field} of its own"
        return with_spec(cluster, **({"zones": (value,)} if self.field == "zone" else {self.field: value}))


class AddCapacity(ClusterEdit, frozen=True):
    """A cluster can allocate more, in the units of ``scheduling.resources``. Its resource models no longer count."""

    amounts: tuple[tuple[str, int], ...]

    def changed(self, cluster: Cluster) -> Cluster:
        summary = cluster.status.resource_summary or ResourceSummary()
        allocatable = dict(summary.allocatable)
        for name, amount in self.amounts:
            before = allocatable[name].nanos if name in allocatable else 0
            allocatable[name] = Quantity(min(before + _nanos(name, amount), meta.INT64_MAX * NANOS), "")
        summary = replace(summary, allocatable=allocatable, allocatable_modelings=())
        return meta.with_status(cluster, resource_summary=summary)


def _with_binding(world: World, resource: ResourceName, change: Callable[[Binding], Binding]) -> World:
    chosen = next(iter(world.find(resource)))
    if chosen.binding is None:
        return world
    return world.with_workload(chosen, replace(chosen, binding=change(chosen.binding)))


def affinity_at(placement: Placement, position: int) -> ClusterAffinity | None:
    """Return the affinity that decides which clusters are in a group; None if all are.

    As in Karmada, clusterAffinity decides for every group if both fields are set.
    """
    groups = placement.cluster_affinities
    return placement.cluster_affinity if groups is None or placement.cluster_affinity is not None else groups[position]


def filter_remedies(
    needed: Sequence[FilterRemedy], resource: ResourceName, placement: Placement, cluster: str, position: int
) -> list[Remedy]:
    """Return what makes a cluster pass all filters in one group; all of them together are needed.

    Args:
        needed: what the filters that reject the cluster need (``diagnosis.cluster_remedies``).
        position: the position of the group.
    """
    remedies = (
        _affinity_remedy(each, resource, placement, cluster, position)
        if isinstance(each, AffinityRemedy)
        else _cluster_remedy(each, resource, cluster)
        for each in needed
    )
    return sorted({each.text: each for each in remedies}.values(), key=lambda each: each.kind)


def _cluster_remedy(needed: ClusterRemedy, resource: ResourceName, name: str) -> Remedy:
    match needed:
        case TaintRemedy(taint) if taint.key in {NOT_READY, UNREACHABLE}:
            return Remedy(RemedyKind.TAINT, f"bring {name} back: it has the taint {taint}", Up(name))
        case TaintRemedy(taint):
            removed = RemoveTaint(name, taint.key, taint.effect)
            return Remedy(RemedyKind.TAINT, f"remove the taint {taint}, or tolerate it", removed)
        case ServedKindRemedy(api_version, kind):
            serves = Serve(name, api_version, kind)
            return Remedy(RemedyKind.SERVED_KIND, f"let {name} serve {api_version} {kind}", serves)
        case EvictionRemedy():
            return Remedy(RemedyKind.EVICTION, f"end the eviction from {name}", EndEviction(resource, name))
        case LabelRemedy(key, value):
            if value is None:
                return Remedy(RemedyKind.LABEL, f"remove the label {key} from {name}", RemoveLabel(name, key))
            return Remedy(RemedyKind.LABEL, f"label {name} with {key}={value}", AddLabel(name, key, value))
        case LocationRemedy(field):
            return Remedy(RemedyKind.LOCATION, f"set the {field} of {name}", Locate(name, field))
        case _:
            assert_never(needed)


def _affinity_remedy(
    needed: AffinityRemedy, resource: ResourceName, placement: Placement, name: str, position: int
) -> Remedy:
    def remedy(kind: RemedyKind, text: str, edit: Callable[[ClusterAffinity], ClusterAffinity]) -> Remedy:
        text = f"{text}{_group_text(placement, position)}"
        return Remedy(kind, text, EditPlacement(resource, _affinity_edit(position, edit)))

    match needed:
        case NameRemedy():
            return remedy(
                RemedyKind.NAME,
                f"add {name} to clusterNames",
                lambda each: replace(each, cluster_names=(*each.cluster_names, name)),
            )
        case ExclusionRemedy():
            return remedy(
                RemedyKind.SELECTOR,
                f"remove {name} from exclude",
                lambda each: replace(each, exclude=tuple(other for other in each.exclude if other != name)),
            )
        case FieldSelectorRemedy():
            return remedy(
                RemedyKind.SELECTOR,
                f"remove the fieldSelector that {name} does not match",
                lambda each: replace(each, field_selector=None),
            )
        case _:
            assert_never(needed)


def _group_text(placement: Placement, position: int) -> str:
    affinity = affinity_at(placement, position)
    return f" of group {affinity.affinity_name}" if isinstance(affinity, ClusterAffinityTerm) else ""


def _affinity_edit(position: int, edit: Callable[[ClusterAffinity], ClusterAffinity]) -> PlacementEdit:
    """Return the edit of the affinity of a group (``affinity_at``)."""

    def edited(placement: Placement) -> Placement:
        groups = placement.cluster_affinities
        if groups is None or placement.cluster_affinity is not None:
            return replace(placement, cluster_affinity=edit(placement.cluster_affinity or ClusterAffinity()))
        changed = (edit(each) if index == position else each for index, each in enumerate(groups))
        return replace(placement, cluster_affinities=tuple(changed))

    return edited


def only_name(resource: ResourceName, placement: Placement, position: int, cluster: str) -> Remedy:
    """Return the remedy that leaves no other cluster in a group."""
    text = f"name only {cluster} in clusterNames{_group_text(placement, position)}"
    edit = _affinity_edit(position, lambda each: replace(each, cluster_names=(cluster,)))
    return Remedy(RemedyKind.ONLY_NAME, text, EditPlacement(resource, edit))


def first_group(resource: ResourceName, placement: Placement, position: int) -> Remedy | None:
    """Return the remedy that makes a group the first one; None without groups, and for the first group."""
    if not placement.cluster_affinities or not position:
        return None
    name = placement.cluster_affinities[position].affinity_name

    def edit(placement: Placement) -> Placement:
        groups = placement.cluster_affinities or ()
        first = [each for each in groups if each.affinity_name == name]
        return replace(placement, cluster_affinities=(*first, *(each for each in groups if each not in first)))

    return Remedy(RemedyKind.ORDER, f"put group {name} first", EditPlacement(resource, edit))


def rescheduled(workload: SimulatedWorkload) -> Remedy:
    """Return the remedy that assigns all replicas anew."""
    of = workload.resource
    named = RebalancedWorkload(api_version=of.api_version, kind=of.kind, name=of.name, namespace=of.namespace)
    rebalancer = WorkloadRebalancer(RebalancerSpec((named,)))
    return Remedy(
        RemedyKind.RESCHEDULE, "reschedule the workload, for example by a WorkloadRebalancer", Rebalance(rebalancer)
    )


def division_remedies(resource: ResourceName, placement: Placement) -> Iterator[Remedy]:
    """Yield the other ways to divide the replicas that can bring some to a cluster."""
    preference = "replicaDivisionPreference: Weighted, dynamicWeight: AvailableReplicas"
    match strategy_of(placement.replica_scheduling):
        case Strategy.AGGREGATED:
            text = f"divide the replicas by capacity ({preference}) instead of Aggregated"
        case Strategy.DUPLICATED:
            text = f"divide the replicas (replicaSchedulingType: Divided, {preference}) instead of duplicating them"
        case Strategy.STATIC_WEIGHT | Strategy.DYNAMIC_WEIGHT | Strategy.UNKNOWN:
            return
    divided = ReplicaSchedulingStrategy("Divided", "Weighted", ClusterPreferences(dynamic_weight="AvailableReplicas"))
    edit = EditPlacement(resource, lambda each: replace(each, replica_scheduling=divided))
    yield Remedy(RemedyKind.DIVISION, text, edit)


def weight_fields(resource: ResourceName, placement: Placement, name: str) -> Iterator[NumberField]:
    """Yield the static weight of the cluster; nothing if no static weights divide the replicas."""
    scheduling = placement.replica_scheduling
    preference = scheduling.weight_preference if scheduling is not None else None
    if preference is None or not preference.static_weight_list or preference.dynamic_weight:
        return

    def change(value: int) -> Change:
        rule = StaticClusterWeight(ClusterAffinity(cluster_names=(name,)), value)

        def edit(placement: Placement) -> Placement:
            scheduling = placement.replica_scheduling or ReplicaSchedulingStrategy()
            weights = scheduling.weight_preference or ClusterPreferences()
            listed = (*weights.static_weight_list, rule)
            changed = replace(scheduling, weight_preference=replace(weights, static_weight_list=listed))
            return replace(placement, replica_scheduling=changed)

        return EditPlacement(resource, edit)

    largest = max(each.weight for each in preference.static_weight_list)
    limit = MAX_FACTOR * max(1, min(largest, meta.INT64_MAX // MAX_FACTOR))
    yield NumberField(RemedyKind.WEIGHT, 0, limit, lambda value: f"give {name} a static weight of {value}", change)


def spread_fields(resource: ResourceName, placement: Placement, clusters: int) -> Iterator[NumberField]:
    """Yield the bounds of the spread constraints, in both directions."""
    for index, each in enumerate(placement.spread_constraints):
        least, most = max(each.min_groups, 1), each.max_groups
        about = each.spread_by_field or each.spread_by_label
        for limit in {max(clusters, most), least} - {most} if most else ():
            yield _bound(resource, index, about, "maxGroups", most, limit)
        for limit in {1, max(clusters, least)} - {least}:
            yield _bound(resource, index, about, "minGroups", least, limit, most)


def _bound(
    resource: ResourceName, index: int, about: str, name: str, now: int, limit: int, most: int = 0
) -> NumberField:
    """Return a bound of a spread constraint. ``most`` is maxGroups, which rises with minGroups; 0 without limit."""

    def text(value: int) -> str:
        names, since = (f"{name} and maxGroups", "") if 0 < most < value else (name, f" from {now}")
        return f"{'raise' if value > now else 'lower'} {names} of the spread constraint by {about}{since} to {value}"

    def change(value: int) -> Change:
        def edit(placement: Placement) -> Placement:
            constraints = list(placement.spread_constraints)
            before = constraints[index]
            highest = max(value, before.max_groups) if name == "minGroups" and before.max_groups else before.max_groups
            bounds = {"max_groups": value} if name == "maxGroups" else {"min_groups": value, "max_groups": highest}
            constraints[index] = replace(before, **bounds)
            return replace(placement, spread_constraints=tuple(constraints))

        return EditPlacement(resource, edit)

    return NumberField(RemedyKind.SPREAD, now, limit, text, change)


def replica_fields(resource: ResourceName, binding: Binding) -> Iterator[NumberField]:
    """Yield the number of replicas, downwards and upwards."""
    replicas = binding.spec.replicas
    for kind, limit in (
        (RemedyKind.REPLICAS, -(-replicas // MAX_FACTOR)),
        (RemedyKind.MORE_REPLICAS, min(MAX_FACTOR * replicas, meta.INT32_MAX)),
    ):
        if limit != replicas:
            yield NumberField(
                kind, replicas, limit, lambda value: f"set {value} replicas instead of {replicas}",
                lambda value: Scale(resource, value),
            )  # fmt: skip


def request_fields(resource: ResourceName, binding: Binding) -> Iterator[NumberField]:
    """Yield what one replica requests of each resource, downwards, in steps that a person writes."""
    requirements = binding.spec.replica_requirements
    for name, quantity in requirements.resource_request.items() if requirements is not None else ():
        unit = MILLI_NANOS if name == CPU else NANOS * (_MEBI if quantity.nanos > _MEBI * NANOS else 1)
        now = -(-quantity.nanos // unit)
        limit = -(-now // MAX_FACTOR)
        if limit < now:
            yield _request(resource, name, quantity, unit, now, limit)


def _request(resource: ResourceName, name: str, quantity: Quantity, unit: int, now: int, limit: int) -> NumberField:
    def amount(value: int) -> Quantity:
        return Quantity(value * unit, quantity.text)

    def text(value: int) -> str:
        return f"request {amount(value).canonical()} {name} for each replica instead of {quantity.canonical()}"

    return NumberField(RemedyKind.REQUESTS, now, limit, text, lambda value: LowerRequest(resource, name, amount(value)))


def capacity_fields(requests: Mapping[str, int], cluster: Cluster) -> Iterator[NumberField]:
    """Yield the capacity of the cluster, in replicas more than now; nothing if it has no room for twice as many.

    ``requests``: what one replica requests, in the units of ``scheduling.resources``.
    """
    needed = {**requests, PODS: 1}
    whole = _capacity(needed, cluster)
    if whole.limit:
        fewer = [{each: amount} for each, amount in needed.items()] + ([dict(requests)] if requests else [])
        yield whole._replace(parts=[_capacity(each, cluster)._replace(limit=whole.limit) for each in fewer])
        return
    yield from (each for name in needed if (each := _capacity({name: needed[name]}, cluster)).limit)


def _capacity(requests: Mapping[str, int], cluster: Cluster) -> NumberField:
    """Return the capacity of a cluster by some resources, in replicas that request them."""
    summary = cluster.status.resource_summary or ResourceSummary()

    def amounts(replicas: int) -> dict[str, int]:
        return {each: amount * replicas for each, amount in requests.items()}

    def text(replicas: int) -> str:
        return f"add {_listed(amounts(replicas).items())} to {cluster.name}"

    extra = MAX_FACTOR - 1
    limit = min(
        (extra * summary.allocatable[each].nanos // _nanos(each, amount) if each in summary.allocatable else 0)
        for each, amount in requests.items()
    )
    return NumberField(
        RemedyKind.CAPACITY, 0, limit, text, lambda value: AddCapacity(cluster.name, tuple(amounts(value).items()))
    )


def _listed(amounts: Iterable[tuple[str, int]]) -> str:
    quantities = {name: Quantity(_nanos(name, each), "1Ki" if name == "memory" else "") for name, each in amounts}
    return ", ".join(f"{each.canonical()} {name}" for name, each in quantities.items())


def _nanos(name: str, amount: int) -> int:
    return amount * (MILLI_NANOS if name == CPU else NANOS)
