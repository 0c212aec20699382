"""A second, naive implementation of Karmada's algorithm on plain values, for the property tests only.

It shares only the model of the API with ``berthmaster.scheduling``. It enumerates where Karmada enumerates, and
therefore supports small fleets only: at most 12 clusters, up to which Go sorts stably.
"""

from dataclasses import dataclass
from math import inf

from berthmaster.model.affinity import AffinityTerm, ClusterAffinity, ClusterAffinityTerm
from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.placement import Placement
from berthmaster.model.taint import repelling_taints

UNLIMITED = 2**31 - 1


class GroupFailed(Exception):  # noqa: N818 - no error of the program: a group is left for the next one
    """A group fails. The argument is the kind of failure."""


@dataclass(frozen=True)
class Candidate:
    """A cluster that passed the filters."""

    cluster: Cluster
    tier: int
    score: int
    allocatable: int
    assigned: int

    @property
    def name(self):
        return self.cluster.name

    @property
    def available(self):
        return self.allocatable + self.assigned

    def order(self):
        return (self.tier, -self.score, -self.available, self.name)


def decide(clusters: list[Cluster], binding: Binding):
    """Return the group that won, replicas by cluster, and the kind of the first failure if no group won."""
    placement = binding.spec.placement or Placement()
    fresh = binding.reschedule_requested
    if placement.cluster_affinities is None:
        walk = [None]
    else:
        terms = placement.cluster_affinities
        observed = binding.status.scheduler_observing_affinity_name
        at = [index for index, term in enumerate(terms) if term.affinity_name == observed]
        walk = list(terms[0 if fresh or not at else at[0] :])
        if not walk:
            return None, {target.name: target.replicas for target in binding.spec.clusters}, None
    failures = []
    for term in walk:
        try:
            assignment = attempt(clusters, binding, placement, term, fresh=fresh)
        except GroupFailed as left:
            failures.append(left.args[0])
        else:
            return term and term.affinity_name, assignment, None
    return None, {}, failures[0]


def attempt(
    clusters: list[Cluster],
    binding: Binding,
    placement: Placement,
    term: ClusterAffinityTerm | None,
    *,
    fresh: bool,
):
    spec = binding.spec
    current = {target.name: target.replicas for target in spec.clusters}
    candidates = [
        Candidate(
            cluster,
            tier_of(cluster, placement, term),
            100 if cluster.name in current else 0,
            allocatable(cluster, binding),
            current.get(cluster.name, 0),
        )
        for cluster in clusters
        if passes(cluster, binding, placement, term)
    ]
    if not candidates:
        raise GroupFailed("NoFit")
    selected = select(sorted(candidates, key=Candidate.order), placement, spec.replicas)
    if not selected:
        raise GroupFailed("SelectFailed")
    if not (spec.replicas > 0 or spec.replica_requirements is not None) or len(spec.components) > 1:
        return {candidate.name: 0 for candidate in selected}
    if placement.cluster_affinity is None and term is not None and term.overflow_affinities is not None:
        assignment = assign_tiers(selected, binding, placement, fresh=fresh)
    else:
        assignment = assign(selected, binding, placement, spec.replicas, fresh=fresh)
    return {name: replicas for name, replicas in assignment.items() if replicas}


# Filters


def passes(cluster: Cluster, binding: Binding, placement: Placement, term: ClusterAffinityTerm | None):
    spec = binding.spec
    is_current = any(target.name == cluster.name for target in spec.clusters)
    resource = spec.resource
    serves = (resource.api_version, resource.kind) in set(cluster.enabled_kinds())
    tolerated = not repelling_taints(cluster.spec.taints, placement.cluster_tolerations)
    has = {"provider": cluster.spec.provider, "region": cluster.spec.region, "zone": cluster.spec.zones}
    return (
        not cluster.deleting
        and (is_current or (serves and tolerated))
        and means(cluster, binding, placement, term)
        and all(has.get(constraint.spread_by_field, True) for constraint in placement.spread_constraints)
        and all(task.from_cluster != cluster.name for task in spec.graceful_eviction_tasks)
    )


def means(cluster: Cluster, binding: Binding, placement: Placement, term: ClusterAffinityTerm | None):
    if placement.cluster_affinity is not None:
        return matches(placement.cluster_affinity, cluster)
    if term is None:
        return True
    overflow = term.overflow_affinities or () if binding.spec.is_workload else ()
    return any(matches(affinity, cluster) for affinity in (term, *overflow))


def matches(affinity: ClusterAffinity, cluster: Cluster):
    return AffinityTerm(affinity).matches(cluster)


def tier_of(cluster: Cluster, placement: Placement, term: ClusterAffinityTerm | None):
    if placement.cluster_affinity is not None or term is None:
        return 0
    affinities = [term, *(term.overflow_affinities or ())]
    return next((tier for tier, affinity in enumerate(affinities) if matches(affinity, cluster)), 1000)


# Capacity


def allocatable(cluster: Cluster, binding: Binding):
    spec = binding.spec
    if spec.replicas == 0 and not spec.components:
        return UNLIMITED
    requirements = spec.replica_requirements
    fits = capacity(cluster, None if requirements is None else requirements.resource_request)
    return spec.replicas if fits >= UNLIMITED else fits


def capacity(cluster: Cluster, requests):
    summary = cluster.status.resource_summary
    if summary is None:
        return 0
    parts = (summary.allocatable, summary.allocated, summary.allocating)
    total, *used = (part["pods"].value() if "pods" in part else 0 for part in parts)
    pods = total - sum(used)
    if pods <= 0:
        return 0
    if requests is None:
        return pods
    models, counts = cluster.spec.resource_models, summary.allocatable_modelings
    if models and counts and all(each.count >= 0 for each in counts):
        return min(pods, sum(on_node(model, requests) * nodes(model, counts) for model in models))
    return min(pods, *(on_summary(name, asked, summary) for name, asked in requests.items()), UNLIMITED)


def in_unit(name: str, quantity):
    return quantity.milli_value() if name == "cpu" else quantity.value()


def on_summary(name: str, asked, summary):
    if asked.nanos <= 0:
        return UNLIMITED
    if name not in summary.allocatable:
        return 0
    available = summary.allocatable[name].nanos
    available -= sum(part[name].nanos for part in (summary.allocated, summary.allocating) if name in part)
    if available <= 0:
        return 0
    # Rounded up to the unit, as Value() and MilliValue() do.
    unit = 10**6 if name == "cpu" else 10**9
    return -(-available // unit) // in_unit(name, asked)


def nodes(model, counts):
    return sum(each.count for each in counts if each.grade == model.grade)


def on_node(model, requests):
    minima = {each.name: each.min for each in model.ranges}
    fits = 110
    for name, asked in requests.items():
        if asked.nanos > 0 and (name in {"cpu", "memory", "ephemeral-storage"} or "/" in name):
            fits = min(fits, in_unit(name, minima[name]) // in_unit(name, asked) if name in minima else 0)
        if name == "pods" and asked.nanos > 0:
            fits = min(fits, 110 // asked.value())
    return fits


# Selection


def is_static(placement: Placement):
    scheduling = placement.replica_scheduling
    if scheduling is None or scheduling.replica_scheduling_type != "Divided":
        return False
    if scheduling.replica_division_preference != "Weighted":
        return False
    preference = scheduling.weight_preference
    return preference is None or (bool(preference.static_weight_list) and not preference.dynamic_weight)


def is_duplicated(placement: Placement):
    scheduling = placement.replica_scheduling
    return scheduling is None or scheduling.replica_scheduling_type == "Duplicated"


def select(candidates: list[Candidate], placement: Placement, replicas: int):
    if not placement.spread_constraints or is_static(placement):
        return candidates
    constraints = {each.spread_by_field: each for each in placement.spread_constraints}
    if "region" in constraints:
        return select_by_region(candidates, constraints, replicas, duplicated=is_duplicated(placement))
    if "cluster" not in constraints:
        raise GroupFailed("SelectFailed")
    constraint = constraints["cluster"]
    needed = None if is_duplicated(placement) else replicas
    return select_by_cluster(candidates, constraint.min_groups, constraint.max_groups, needed)


def select_by_cluster(candidates: list[Candidate], min_groups: int, max_groups: int, needed: int | None):
    if len(candidates) < min_groups:
        raise GroupFailed("SelectFailed")
    chosen, rest = candidates[:max_groups], candidates[max_groups:]
    if needed is None:
        return chosen
    for slot in reversed(range(len(chosen))):
        if sum(each.available for each in chosen) >= needed:
            break
        larger = [index for index, each in enumerate(rest) if each.available > chosen[slot].available]
        if larger:
            index = max(larger, key=lambda index: (rest[index].available, -index))
            chosen[slot], rest[index] = rest[index], chosen[slot]
    if not chosen or sum(each.available for each in chosen) < needed:
        raise GroupFailed("SelectFailed")
    return chosen


def select_by_region(candidates: list[Candidate], constraints, replicas: int, *, duplicated: bool):
    region = constraints["region"]
    cluster = constraints.get("cluster")
    min_clusters, max_clusters = (cluster.min_groups, cluster.max_groups) if cluster else (0, 0)
    members: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        members.setdefault(candidate.cluster.spec.region, []).append(candidate)
    if len(members) < region.min_groups:
        raise GroupFailed("SelectFailed")
    weigh = weight_of_duplicated if duplicated else weight_of_divided
    groups = [
        (name, len(each), weigh(each, replicas, region.min_groups, min_clusters)) for name, each in members.items()
    ]
    chosen = select_groups(groups, region.min_groups, region.max_groups, min_clusters)
    if not chosen:
        raise GroupFailed("SelectFailed")
    first = [members[name][0] for name in chosen]
    pool = sorted((each for name in chosen for each in members[name][1:]), key=Candidate.order)
    needed = min(len(first) + len(pool), max_clusters)
    return first + pool[: max(0, needed - len(first))]


def weight_of_duplicated(members: list[Candidate], replicas: int, _min_regions: int, _min_clusters: int):
    valid = [each for each in members if each.available >= replicas]
    return len(valid) * 1000 + sum(each.score for each in valid) // len(valid) if valid else 0


def weight_of_divided(members: list[Candidate], replicas: int, min_regions: int, min_clusters: int):
    target = -(-replicas // min_regions)
    enough = max(min_clusters, min_regions)
    count = available = score = 0
    for member in members:
        count, available, score = count + 1, available + member.available, score + member.score
        if count >= enough and available >= target:
            break
    if available < target:
        return available * 1000 + score // len(members)
    return target * 1000 + score // count


def select_groups(groups: list[tuple[str, int, int]], shortest: int, longest: int, target: int):
    """Return the names that Karmada's walk over all combinations selects. Groups are (name, value, weight)."""
    walk = sorted(groups, key=lambda group: (group[1], -group[2], group[0]))
    paths: list[tuple[int, int, int, tuple[str, ...]]] = []

    def descend(chosen, begin):
        value = sum(group[1] for group in chosen)
        if value >= target and shortest <= len(chosen) <= longest:
            heaviest_first = sorted(chosen, key=lambda group: (-group[2], group[0]))
            weight = sum(group[2] for group in chosen)
            paths.append((-weight, -value, len(paths), tuple(group[0] for group in heaviest_first)))
            return
        if len(chosen) < longest:
            for index in range(begin, len(walk)):
                descend([*chosen, walk[index]], index + 1)

    descend([], 0)
    best: tuple[str, ...] = ()
    for _, _, _, names in sorted(paths):
        if not best or (len(names) < len(best) and best[: len(names)] == names):
            best = names
    return best


# Assignment


def assign_tiers(selected: list[Candidate], binding: Binding, placement: Placement, *, fresh: bool):
    remaining = binding.spec.replicas
    assignment: dict[str, int] = {}
    for tier in sorted({candidate.tier for candidate in selected}):
        members = [candidate for candidate in selected if candidate.tier == tier]
        replicas = min(remaining, sum(member.available for member in members))
        assignment |= assign(members, binding, placement, replicas, fresh=fresh)
        remaining -= replicas
        if not remaining:
            return assignment
    raise GroupFailed("Insufficient")


def assign(selected: list[Candidate], binding: Binding, placement: Placement, replicas: int, *, fresh: bool):
    scheduling = placement.replica_scheduling
    if scheduling is None or scheduling.replica_scheduling_type == "Duplicated":
        return {candidate.name: replicas for candidate in selected}
    preference, weights = scheduling.replica_division_preference, scheduling.weight_preference
    if scheduling.replica_scheduling_type != "Divided" or preference not in {"Aggregated", "Weighted"}:
        raise GroupFailed("Insufficient")
    uid = binding.spec.resource.uid
    if preference == "Weighted" and not (weights and weights.dynamic_weight):
        rules = [(rule.target_cluster, rule.weight) for rule in (weights.static_weight_list if weights else ())]
        votes = {
            each.name: max((weight for affinity, weight in rules if matches(affinity, each.cluster)), default=0)
            for each in selected
        }
        return webster(replicas, votes if any(votes.values()) else dict.fromkeys(votes, 1), uid)
    return assign_by_capacity(selected, binding, replicas, aggregated=preference == "Aggregated", fresh=fresh)


def assign_by_capacity(selected: list[Candidate], binding: Binding, replicas: int, *, aggregated: bool, fresh: bool):
    names = {candidate.name for candidate in selected}
    scheduled = {target.name: target.replicas for target in binding.spec.clusters if target.name in names}
    assigned, base, target = sum(scheduled.values()), {}, replicas
    if fresh:
        # Karmada adds in 32 bits, so that the sum for an unlimited cluster is negative.
        votes = {each.name: wrapped(each.available) for each in selected}
    elif assigned > replicas:
        votes = scheduled
    elif assigned < replicas:
        votes, base, target = {each.name: each.allocatable for each in selected}, scheduled, replicas - assigned
    else:
        return scheduled
    if sum(votes.values()) < target:
        raise GroupFailed("Insufficient")
    if aggregated:
        order = sorted(votes, key=lambda name: (not base.get(name), -votes[name]))
        end = next(end for end in range(1, len(order) + 1) if sum(votes[name] for name in order[:end]) >= target)
        votes = {name: votes[name] for name in order[:end]}
    seats = webster(target, votes, binding.spec.resource.uid)
    return {name: base.get(name, 0) + seats.get(name, 0) for name in {**base, **seats}}


def wrapped(number: int):
    return (number + 2**31) % 2**32 - 2**31


def webster(seats: int, votes: dict[str, int], uid: str = ""):
    """Give seats one by one to the largest quotient. Ties are broken by fewer seats, then by name."""
    digest = 2166136261
    for byte in uid.encode():
        digest = (digest ^ byte) * 16777619 % 2**32
    by_name = sorted(votes, reverse=bool(uid) and digest % 2 == 1)
    given = dict.fromkeys(by_name, 0)
    for _ in range(seats if sum(votes.values()) else 0):
        best, best_quotient = "", -inf
        for name in by_name:
            quotient = float(votes[name]) / (2 * given[name] + 1)
            if quotient > best_quotient or (quotient == best_quotient and given[name] < given[best]):
                best, best_quotient = name, quotient
        given[best] += 1
    return given
