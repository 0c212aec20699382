"""The Binpack planner: fill one cluster after the other (KubeAdmiral ``plugins/preferencebinpack``)."""

from collections.abc import Mapping, Sequence

from berthmaster.scheduling.kubeadmiral.planner import Limits, Plan, Share


def may_replan(
    shares: Sequence[Share], current: Mapping[str, int], scheduled: Mapping[str, int], limits: Limits
) -> bool:
    """Whether what was planned before has settled, or cannot stay: only then is anything planned anew."""
    selected = {each.name for each in shares}
    if any(name not in selected for name in current):
        return True
    if any(name in limits.limited and count > limits.limited[name] for name, count in current.items()):
        return True
    return all(
        limits.estimated[name] == count if name in limits.estimated else current.get(name, 0) == count
        for name, count in scheduled.items()
    )


def plan(
    total: int,
    shares: Sequence[Share],
    current: Mapping[str, int],
    scheduled: Mapping[str, int],
    limits: Limits,
    *,
    avoid_disruption: bool,
    keep_unschedulable: bool,
) -> Plan:
    """Fill clusters in their order. Counts go by ``total``, not by what was planned, other than in Spread.

    Args:
        total: how many replicas there are.
        shares: the clusters, the first to be filled first; weights play no part.
        current: replicas that are there now.
        scheduled: replicas that are known to be scheduled.
        limits: what clusters hold.
        avoid_disruption: move no more of the current replicas than it takes.
        keep_unschedulable: count what an estimate cuts off in full.
    """
    if not may_replan(shares, current, scheduled, limits):
        return Plan(dict(current), {})
    keep = keep_unschedulable or not avoid_disruption
    desired, overflow = distribute(total, shares, limits)
    settled = {each.name: limits.capped(each.name, current.get(each.name, 0)) for each in shares}
    names = [each.name for each in shares if each.name in scheduled]
    running = sum(min(scheduled[name], limits.limited.get(name, scheduled[name])) for name in names)
    if not keep and running == total:
        return Plan({name: scheduled[name] for name in names}, {})
    if not avoid_disruption:
        return Plan(desired, overflow)
    if not keep:
        trimmed = {name: min(count, total - running) for name, count in overflow.items()}
        overflow = {name: count for name, count in trimmed.items() if count > 0}
    difference = sum(desired.values()) - sum(settled.values())
    if difference < 0:
        surplus = [each for each in reversed(shares) if desired[each.name] < settled[each.name]]
        bounds = [Share(each.name, 0, 0, settled[each.name]) for each in surplus]
        removed, _ = distribute(sum(settled.values()) - total, bounds, Limits())
        return Plan({name: count - removed.get(name, 0) for name, count in settled.items()}, overflow)
    if difference > 0:
        lacking = [each for each in shares if desired[each.name] > settled[each.name]]
        bounds = [
            Share(each.name, 0, each.minimum, None if each.maximum is None else each.maximum - settled[each.name])
            for each in lacking
        ]
        # The limit bounds the increment here, not the sum, as in KubeAdmiral.
        added, _ = distribute(total - sum(settled.values()), bounds, Limits(limited=limits.limited))
        return Plan({name: count + added.get(name, 0) for name, count in settled.items()}, overflow)
    return Plan(settled, overflow)


def distribute(total: int, shares: Sequence[Share], limits: Limits) -> Plan:
    """Give minima in order, then to each in turn as much as it takes."""
    remaining = total
    replicas: dict[str, int] = {}
    overflow: dict[str, int] = {}
    for each in shares:
        given = min(each.minimum, remaining)
        given = min(given, limits.limited.get(each.name, given))
        estimated = limits.estimated.get(each.name)
        if estimated is not None and estimated < given:
            overflow[each.name] = given - estimated
            given = estimated
        replicas[each.name] = given
        remaining -= given
    for each in shares:
        wanted = replicas[each.name] + remaining
        wanted = wanted if each.maximum is None else min(wanted, each.maximum)
        wanted = min(wanted, limits.limited.get(each.name, wanted))
        estimated = limits.estimated.get(each.name)
        if estimated is not None and estimated < wanted:
            overflow[each.name] = max(wanted - estimated, overflow.get(each.name, 0))
            wanted = estimated
        remaining -= wanted - replicas[each.name]
        replicas[each.name] = wanted
    return Plan(replicas, overflow)
