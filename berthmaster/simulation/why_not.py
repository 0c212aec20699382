"""Why a workload does not run on a cluster: the smallest change under which it would, confirmed by deciding again."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, combinations
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from berthmaster.model import meta
from berthmaster.model.cluster import APIEnablement, APIResource, Cluster, ResourceSummary, Taint, repelling_taints
from berthmaster.model.errors import InputError, name_list
from berthmaster.model.policy import ClusterAffinity, ClusterAffinityTerm, Placement, StaticClusterWeight
from berthmaster.scheduling.diagnosis import explain
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.resources import CPU, PODS
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster.simulation.run import WorkloadResult
from berthmaster.simulation.workload import NotScheduled

MOST_EXTRA: Final = 2**20
"""The largest change of a number that is tried."""
_SPREAD_FIELDS: Final = ("provider", "region", "zone")


class Case(msgspec.Struct, frozen=True):
    """A workload and the cluster in question, as they are or as changes would make them."""

    request: Request
    cluster: Cluster


class Remedy(NamedTuple):
    """A small change."""

    kind: str
    text: str
    applied: Callable[[Case], Case]
    field: "NumberField | None" = None
    value: int = 0


class NumberField(NamedTuple):
    """A number that can be changed in one direction.

    Attributes:
        limit: the last value to try, above or below the present one.
        parts: fields that change less by the same value, the smallest first.
    """

    kind: str
    now: int
    limit: int
    text: Callable[[int], str]
    changed: Callable[[Case, int], Case]
    parts: Sequence["NumberField"] = ()

    def at(self, distance: int) -> Remedy:
        value = self.now + (distance if self.limit > self.now else -distance)
        return Remedy(self.kind, self.text(value), lambda case: self.changed(case, value), self, value)

    @property
    def distance(self) -> int:
        """How far the last value is from the present one."""
        return abs(self.limit - self.now)


def terms_of(placement: Placement) -> Sequence[ClusterAffinity | None]:
    """Return the affinities that are tried in order; None for one that any cluster matches."""
    return (placement.cluster_affinity,) if placement.cluster_affinities is None else placement.cluster_affinities


def filter_remedies(case: Case, term: ClusterAffinity | None) -> list[Remedy]:
    """Return what makes the cluster pass all filters in one group; all of them together are needed.

    What no small change removes has no remedy: a deletion, and the workloads that a group must avoid.
    """
    request, cluster = case.request, case.cluster
    taints = repelling_taints(cluster.spec.taints, request.placement.cluster_tolerations)
    found = [_untainted(taint) for taint in taints]
    if (request.api_version, request.kind) not in set(cluster.enabled_kinds()):
        found.append(Remedy("kind", f"let {cluster.name} serve {request.api_version} {request.kind}", _served))
    if cluster.name in request.evicted_from:
        others = request.evicted_from - {cluster.name}
        ended = f"end the eviction from {cluster.name}"
        found.append(
            Remedy("eviction", ended, lambda case: replace(case, request=replace(case.request, evicted_from=others)))
        )
    if term is not None:
        found += _affinity_remedies(cluster, request.placement, term)
    fields = {each.spread_by_field for each in request.placement.spread_constraints}
    present = {"provider": cluster.spec.provider, "region": cluster.spec.region, "zone": cluster.spec.zones}
    found += [_located(field, cluster.name) for field in _SPREAD_FIELDS if field in fields and not present[field]]
    return found


def _of_cluster(kind: str, text: str, change: Callable[[Cluster], Cluster]) -> Remedy:
    return Remedy(kind, text, lambda case: replace(case, cluster=change(case.cluster)))


def _untainted(taint: Taint) -> Remedy:
    def changed(cluster: Cluster) -> Cluster:
        return meta.with_spec(cluster, taints=tuple(each for each in cluster.spec.taints if str(each) != str(taint)))

    return _of_cluster("taint", f"remove the taint {taint}, or tolerate it", changed)


def _served(case: Case) -> Case:
    enablements = case.cluster.status.api_enablements
    added = APIEnablement(case.request.api_version, (APIResource("", case.request.kind),))
    return replace(case, cluster=meta.with_status(case.cluster, api_enablements=(*enablements, added)))


def _located(field: str, name: str) -> Remedy:
    value = f"a {field} of its own"
    fields = {"zones": (value,)} if field == "zone" else {field: value}
    return _of_cluster("location", f"set the {field} of {name}", lambda cluster: meta.with_spec(cluster, **fields))


def _affinity_remedies(cluster: Cluster, placement: Placement, term: ClusterAffinity) -> Iterator[Remedy]:
    name = cluster.name
    if name in term.exclude:
        yield _with_term(
            placement, term, f"remove {name} from exclude", exclude=tuple(each for each in term.exclude if each != name)
        )
    if term.cluster_names and name not in term.cluster_names:
        yield _with_term(placement, term, f"add {name} to clusterNames", cluster_names=(*term.cluster_names, name))
    requirements = term.label_selector.requirements() if term.label_selector is not None else ()
    for each in requirements or ():
        if each.matches(cluster.metadata.labels):
            continue
        if each.operator in {"In", "Exists"}:
            value = min(each.values, default="")
            yield _labelled(f"label {name} with {each.key}={value}", each.key, value)
        elif each.operator in {"NotIn", "DoesNotExist"}:
            yield _labelled(f"remove the label {each.key} from {name}", each.key, None)
    fields = term.field_selector
    if fields is not None and fields.match_expressions:
        yield _with_term(placement, term, f"remove the fieldSelector that {name} does not match", field_selector=None)


def _labelled(text: str, key: str, value: str | None) -> Remedy:
    def changed(cluster: Cluster) -> Cluster:
        labels = {each: text for each, text in cluster.metadata.labels.items() if each != key}
        return meta.with_metadata(cluster, labels=labels if value is None else {**labels, key: value})

    return _of_cluster("label", text, changed)


def _with_term(placement: Placement, term: ClusterAffinity, text: str, **fields: object) -> Remedy:
    position = next(index for index, each in enumerate(terms_of(placement)) if each is term)
    group = f" of group {term.affinity_name}" if isinstance(term, ClusterAffinityTerm) else ""

    def applied(case: Case) -> Case:
        now = case.request.placement
        if now.cluster_affinities is None:
            return _with_placement(case, cluster_affinity=replace(now.cluster_affinity or ClusterAffinity(), **fields))
        terms = list(now.cluster_affinities)
        terms[position] = replace(terms[position], **fields)
        return _with_placement(case, cluster_affinities=tuple(terms))

    return Remedy("affinity", f"{text}{group}", applied)


def first_group(placement: Placement, position: int) -> Remedy | None:
    """Return the remedy that makes a group the first one, and schedules anew; None without groups."""
    if not placement.cluster_affinities:
        return None
    name = placement.cluster_affinities[position].affinity_name

    def applied(case: Case) -> Case:
        terms = list(case.request.placement.cluster_affinities or ())
        terms.insert(0, terms.pop(next(at for at, each in enumerate(terms) if each.affinity_name == name)))
        moved = _with_placement(case, cluster_affinities=tuple(terms))
        return replace(moved, request=replace(moved.request, fresh=True))

    return Remedy("group order", f"put group {name} first, and reschedule the workload", applied)


def rescheduled() -> Remedy:
    """Return the remedy that assigns all replicas anew."""
    return Remedy(
        "rescheduling",
        "reschedule the workload, for example by a WorkloadRebalancer",
        lambda case: replace(case, request=replace(case.request, fresh=True)),
    )


def replica_fields(case: Case) -> Iterator[NumberField]:
    """Yield the number of replicas, downwards and upwards; nothing for a workload that is not divided."""
    request = case.request
    if not request.divides_replicas:
        return
    for kind, limit in (("replicas", 1), ("more replicas", min(request.replicas + MOST_EXTRA, meta.INT32_MAX))):
        yield NumberField(
            kind,
            request.replicas,
            limit,
            lambda value: f"set {value} replicas instead of {request.replicas}",
            lambda case, value: replace(case, request=replace(case.request, replicas=value)),
        )


def spread_fields(placement: Placement, clusters: int) -> Iterator[NumberField]:
    """Yield the bounds of the spread constraints, in both directions."""
    for index, each in enumerate(placement.spread_constraints):
        least, most = max(each.min_groups, 1), each.max_groups
        about = each.spread_by_field or each.spread_by_label
        for limit in {max(clusters, most), least} - {most} if most else ():
            yield _bound(index, about, "maxGroups", most, limit)
        for limit in {1, max(clusters, least)} - {least}:
            yield _bound(index, about, "minGroups", least, limit, most)


def _bound(index: int, about: str, name: str, now: int, limit: int, most: int = 0) -> NumberField:
    """Return a bound of a spread constraint. ``most`` is maxGroups, which rises with minGroups; 0 without limit."""

    def text(value: int) -> str:
        names, since = (f"{name} and maxGroups", "") if 0 < most < value else (name, f" from {now}")
        return f"{'raise' if value > now else 'lower'} {names} of the spread constraint by {about}{since} to {value}"

    def changed(case: Case, value: int) -> Case:
        constraints = list(case.request.placement.spread_constraints)
        before = constraints[index]
        highest = max(value, before.max_groups) if name == "minGroups" and before.max_groups else before.max_groups
        bounds = {"max_groups": value} if name == "maxGroups" else {"min_groups": value, "max_groups": highest}
        constraints[index] = replace(before, **bounds)
        return _with_placement(case, spread_constraints=tuple(constraints))

    return NumberField("spread constraint", now, limit, text, changed)


def weight_fields(placement: Placement, name: str) -> Iterator[NumberField]:
    """Yield the static weight of the cluster; nothing if no static weights divide the replicas."""
    scheduling = placement.replica_scheduling
    preference = scheduling.weight_preference if scheduling is not None else None
    if scheduling is None or preference is None or not preference.static_weight_list:
        return

    def changed(case: Case, value: int) -> Case:
        rule = StaticClusterWeight(ClusterAffinity(cluster_names=(name,)), value)
        weights = replace(preference, static_weight_list=(*preference.static_weight_list, rule))
        return _with_placement(case, replica_scheduling=replace(scheduling, weight_preference=weights))

    yield NumberField("weight", 0, MOST_EXTRA, lambda value: f"give {name} a static weight of {value}", changed)


def capacity_field(case: Case) -> NumberField:
    """Return the capacity of the cluster, in replicas more than now."""
    requests = {**dict(case.request.requests or ()), PODS: 1}
    name = case.cluster.name
    fewer = [{each: amount} for each, amount in requests.items()] + [dict(case.request.requests or ())]
    return _capacity(name, requests)._replace(parts=[_capacity(name, each) for each in fewer])


def _capacity(name: str, requests: Mapping[str, int]) -> NumberField:
    """Return the capacity of a cluster by some resources, in replicas that request them."""

    def amounts(replicas: int) -> dict[str, int]:
        return {each: amount * replicas for each, amount in requests.items()}

    def text(replicas: int) -> str:
        quantities = {
            each: meta.Quantity(_nanos(each, amount), "1Ki" if each == "memory" else "")
            for each, amount in amounts(replicas).items()
        }
        return f"add {', '.join(f'{amount.canonical()} {each}' for each, amount in quantities.items())} to {name}"

    def changed(case: Case, replicas: int) -> Case:
        summary = case.cluster.status.resource_summary or ResourceSummary()
        allocatable = dict(summary.allocatable)
        for each, amount in amounts(replicas).items():
            before = allocatable[each].nanos if each in allocatable else 0
            nanos = before + _nanos(each, amount)
            allocatable[each] = meta.Quantity(min(nanos, meta.INT64_MAX * meta.NANOS), "")
        summary = replace(summary, allocatable=allocatable, allocatable_modelings=())
        bounds = case.request.bounds
        if bounds is not None and name in bounds:
            bounds = {**bounds, name: bounds[name] + replicas}
        return Case(replace(case.request, bounds=bounds), meta.with_status(case.cluster, resource_summary=summary))

    return NumberField("capacity", 0, MOST_EXTRA, text, changed)


def multiplies_capacity(case: Case, remedy: Remedy) -> bool:
    """Return whether a remedy asks for more of a resource than the whole cluster has now."""
    if remedy.kind != "capacity":
        return False
    summary = case.cluster.status.resource_summary or ResourceSummary()
    amounts = dict(case.request.requests or ()) or {PODS: 1}
    return any(
        _nanos(name, amount * remedy.value) > summary.allocatable[name].nanos
        for name, amount in amounts.items()
        if name in summary.allocatable
    )


def _nanos(name: str, amount: int) -> int:
    return amount * (meta.MILLI_NANOS if name == CPU else meta.NANOS)


def _with_placement(case: Case, **fields: object) -> Case:
    placement = replace(case.request.placement, **fields)
    return replace(case, request=replace(case.request, placement=placement))


_MOST_GROUPS: Final = 64
_MOST_CHANGES: Final = 64
_MOST_SHOWN: Final = 5
_SLACK: Final = 1
"""How many more changes than the smallest set so far are tried: some of them may turn out to be unnecessary."""
_EDITS: Final = frozenset({"affinity", "label", "location", "weight"})
_OF_THE_CLUSTER: Final = frozenset({"capacity", "eviction", "kind", "label", "location", "taint"})
"""Changes after which Karmada does not schedule a divided workload again that has its replicas."""


class WhyNot(msgspec.Struct, frozen=True, rename="camel"):
    """Why a workload does not run on a cluster.

    Attributes:
        taken: whether a decision takes the cluster without any change.
        reasons: why not: for each group that was tried, what rejected the cluster or preferred others.
        changes: the smallest set of changes that was found; empty if none helps or none is needed.
        clusters: the replicas by cluster after the changes; the decision without changes if none were found.
        unknown: what was not tried, and what no change of this kind can help. One sentence each.
    """

    cluster: str
    taken: bool
    reasons: list[str]
    changes: list[str]
    clusters: dict[str, int]
    unknown: list[str] = []
    alternatives: list[list[str]] = []


def request_of(result: WorkloadResult) -> Request:
    """Return the request of a workload that was examined.

    Raises:
        InputError: no scheduler places the workload. The message says why.
    """
    binding = result.workload.binding
    unscheduled = result.unscheduled
    if binding is None or (unscheduled is not None and unscheduled.reason is not NotScheduled.NOT_RETRIED):
        reason = unscheduled.message if unscheduled is not None else "it has no binding"
        raise InputError(f"no scheduler places {result.workload}: {reason}")
    return Request.of(binding)


def why_not(
    scheduler: Scheduler, request: Request, cluster: str, check: Callable[[], None] = lambda: None, *, due: bool = True
) -> WhyNot:
    """Find the smallest change under which a workload would be on a cluster.

    Tries changes of the cluster and of the workload, alone and together: taints, labels, names, kinds, evictions,
    locations, capacity, group order, replicas, spread constraints, rescheduling. The answer is confirmed: the changed
    decision takes the cluster, and no part of the change can be left out.

    Args:
        scheduler: decides. Its fleet is changed and restored.
        due: whether something triggers scheduling. Otherwise the workload stays where it is until something does.
    """
    found = scheduler.fleet.get(cluster)
    if found is None:
        known = name_list(sorted(scheduler.fleet.row_of))
        raise InputError(f"there is no cluster {cluster!r}; known are {known}")
    search = Search(scheduler, request, found, check)
    decided = search.assignment(())
    if cluster in decided:
        if not due and cluster not in request.current:
            return _not_due(search, request, cluster)
        return WhyNot(cluster, taken=True, reasons=[], changes=[], clusters=decided)
    reasons = search.reasons()
    if cluster in request.current:
        follows = "the next scheduling removes it" if due else "it stays until something triggers scheduling"
        held = f"{cluster} has the workload now (replicas: {request.current[cluster]}), and {follows}"
        reasons = [held, *reasons]
    unknown = [f"{cluster} is being deleted; no change helps"] if found.deleting else []
    smallest = search.smallest()
    if not smallest:
        unknown.append("no combination of the changes that were tried helps")
        return WhyNot(cluster, taken=False, reasons=reasons, changes=[], clusters=decided, unknown=unknown)
    if not due and {each.kind for each in smallest[0]} <= _OF_THE_CLUSTER:
        unknown.append(f"the changes alone do not trigger scheduling: then {rescheduled().text}")
    best, *others = [[each.text for each in remedies] for remedies in smallest]
    return WhyNot(
        cluster, taken=False, reasons=reasons, changes=best, clusters=search.assignment(smallest[0]), unknown=unknown,
        alternatives=others,
    )  # fmt: skip


def _not_due(search: "Search", request: Request, cluster: str) -> WhyNot:
    """Return the answer for a cluster that the next decision takes, if nothing triggers this decision."""
    reasons = [f"nothing triggers scheduling: the workload stays on {', '.join(request.current) or 'no cluster'}"]
    anew = search.assignment([rescheduled()])
    if cluster in anew:
        return WhyNot(cluster, taken=False, reasons=reasons, changes=[rescheduled().text], clusters=anew)
    unknown = [f"a decision that something else triggers would take {cluster}"]
    return WhyNot(cluster, taken=False, reasons=reasons, changes=[], clusters=request.current, unknown=unknown)


def _preference(remedies: Sequence[Remedy]) -> tuple[int, int, int]:
    """Order equally small sets: more replicas come last, and before them what concerns other workloads.

    Of the others, a change of the workload comes before one of the cluster, which its owner often cannot make.
    """
    kinds = [each.kind for each in remedies]
    of_cluster = sum(each in _OF_THE_CLUSTER for each in kinds)
    return kinds.count("more replicas"), sum(each in _EDITS for each in kinds), of_cluster


class Search:
    """Tries changes on one workload and one cluster."""

    def __init__(self, scheduler: Scheduler, request: Request, cluster: Cluster, check: Callable[[], None]) -> None:
        self._scheduler = scheduler
        self._check = check
        self._case = Case(request, cluster)
        self._least = _MOST_CHANGES

    def assignment(self, remedies: Sequence[Remedy]) -> dict[str, int]:
        self._check()
        case = self._case
        for remedy in remedies:
            case = remedy.applied(case)
        fleet = self._scheduler.fleet
        fleet.apply(case.cluster)
        try:
            return self._scheduler.schedule(case.request).assignment
        finally:
            fleet.apply(self._case.cluster)

    def reasons(self) -> list[str]:
        """Return why the cluster is not taken, one sentence for each group that was tried."""
        request, name = self._case.request, self._case.cluster.name
        diagnosis = explain(self._scheduler, request, self._scheduler.schedule(request))
        found = []
        for group in diagnosis.groups:
            prefix = f"group {group.group}: " if group.group else ""
            for each in group.clusters:
                if each.cluster == name:
                    why = "; ".join(f"{name} {rejection.reason}" for rejection in each.rejections) or each.reason
                    found.append(f"{prefix}{why}")
        if diagnosis.untried:
            found.append(f"not tried, because a group before fits: {', '.join(diagnosis.untried)}")
        return found

    def smallest(self) -> list[list[Remedy]]:
        """Return the smallest sets of changes that help, those that a user can make and edit few selectors first."""
        found: dict[tuple[str, ...], list[Remedy]] = {}
        terms = terms_of(self._case.request.placement)[:_MOST_GROUPS] or (None,)
        for position, term in enumerate(terms):
            needed = filter_remedies(self._case, term)
            for more in self._additions(needed, position):
                if len(needed) + len(more) <= self._least + _SLACK and self._takes([*needed, *more]):
                    reduced = self._narrowed(self._nearest(self._reduced([*needed, *more])))
                    self._least = min(self._least, len(reduced))
                    found.setdefault(tuple(sorted(each.text for each in reduced)), reduced)
        smallest = [each for each in found.values() if len(each) == self._least]
        modest = [each for each in smallest if not any(multiplies_capacity(self._case, remedy) for remedy in each)]
        return sorted(modest or smallest, key=_preference)[:_MOST_SHOWN]

    def _takes(self, remedies: Sequence[Remedy]) -> bool:
        return self._case.cluster.name in self.assignment(remedies)

    def _reduced(self, remedies: list[Remedy]) -> list[Remedy]:
        """Return the remedies without those that can be left out."""
        for remedy in list(remedies):
            fewer = [each for each in remedies if each is not remedy]
            if self._takes(fewer):
                remedies = fewer
        return remedies

    def _nearest(self, remedies: list[Remedy]) -> list[Remedy]:
        """Return the remedies with each number as near to its present value as the others allow."""
        while True:
            before = [each.value for each in remedies]
            for index, remedy in enumerate(remedies):
                if remedy.field is not None:
                    others = [*remedies[:index], *remedies[index + 1 :]]
                    remedies[index] = self._bisected(
                        others, remedy.field, 0, abs(remedy.value - remedy.field.now), self._takes
                    )
            if before == [each.value for each in remedies]:
                return remedies

    def _narrowed(self, remedies: list[Remedy]) -> list[Remedy]:
        """Return the remedies, of which a capacity has only the resources that are needed."""
        for index, remedy in enumerate(remedies):
            for part in remedy.field.parts if remedy.field is not None else ():
                fewer = [*remedies[:index], part.at(remedy.value), *remedies[index + 1 :]]
                if self._takes(fewer):
                    remedies = fewer
                    break
        return remedies

    def _additions(self, needed: list[Remedy], position: int) -> Iterator[list[Remedy]]:
        """Yield what may be needed beside the filters of a group, the smallest additions first."""
        yield []
        placement = self._case.request.placement
        order = first_group(placement, position)
        basic = [*([] if order is None else [order]), rescheduled()]
        yield from ([each] for each in basic)
        spreads = list(spread_fields(placement, len(self._scheduler.fleet)))
        fields = [*spreads, *weight_fields(placement, self._case.cluster.name)]
        for start in chain([[]], ([each] for each in basic)):
            if len(needed) + len(start) + 1 > self._least:
                continue  # these searches take many decisions
            for field in (*replica_fields(self._case), *fields, capacity_field(self._case)):
                if (found := self._helping([*needed, *start], field)) is not None:
                    yield [*start, found]
        farthest = [each.at(each.distance) for each in fields]
        for one, other in combinations(farthest, 2):
            if len(needed) + 2 <= self._least and one.field is not other.field:
                yield [one, other]
        for one in farthest:
            for field in (capacity_field(self._case), *replica_fields(self._case)):
                if len(needed) + 2 <= self._least and (found := self._helping([*needed, one], field)):
                    yield [one, found]

    def _helping(self, before: list[Remedy], field: NumberField) -> Remedy | None:
        """Return the value of a number nearest to the present one that helps; None if none does."""
        # Fewer replicas than fit may all go to other clusters.
        anywhere = field.kind == "replicas" and not self.assignment(before)
        helps = (lambda remedies: bool(self.assignment(remedies))) if anywhere else self._takes
        useless, distance = 0, 1
        while not helps([*before, field.at(min(distance, field.distance))]):
            if distance >= field.distance:
                return None
            useless, distance = distance, distance * 4
        found = self._bisected(before, field, useless, min(distance, field.distance), helps)
        return found if self._takes([*before, found]) else None

    def _bisected(
        self,
        before: list[Remedy],
        field: NumberField,
        useless: int,
        helping: int,
        helps: Callable[[Sequence[Remedy]], bool],
    ) -> Remedy:
        """Return the nearest value that helps, between a distance that does not help and one that does."""
        while helping - useless > 1:
            middle = (helping + useless) // 2
            if helps([*before, field.at(middle)]):
                helping = middle
            else:
                useless = middle
        return field.at(helping)
