"""The cases of docs/differences.md about overcommit: what one cluster with a free CPU per replica still takes.

karmada-scheduler 1.18.2 with the gate ``SchedulingOvercommitProtection`` has run through the same cases.
"""

from collections.abc import Callable

import msgspec
import pytest
from builders import cluster
from decisions import AGGREGATED, asked
from fake_clock import FakeClock

from berthmaster.controllers.binding_scheduler.cluster_cache import ClusterCache
from berthmaster.deciding.failover import FailoverOptions
from berthmaster.model.binding import AggregatedStatusItem, Binding
from berthmaster.scheduling.karmada.profile import karmada_profile


class Fleet:
    """A scheduler with one cluster."""

    def __init__(self, cpu: int) -> None:
        self._cpu = cpu
        self._cache = ClusterCache(karmada_profile(), FakeClock(), FailoverOptions())
        self.in_use(0)

    def in_use(self, replicas: int) -> None:
        """The cluster reports how many replicas it runs."""
        allocated = {"cpu": replicas, "pods": replicas}
        self._cache.update_cluster(cluster("m", cpu=self._cpu, allocated=allocated))

    def decide(self, name: str, replicas: int, *, has: int = 0) -> bool:
        """Whether a workload gets its replicas. Each requests one CPU."""
        binding = _binding(name, replicas, has)
        return self._cache.decide_and_assume(binding.metadata.key, binding).result.ok

    def report(self, name: str, replicas: int, health: str = "Healthy") -> None:
        """The cluster reports a workload, which it has not reported before."""
        before, after = (_binding(name, replicas, replicas, reported) for reported in ((), (_report(health),)))
        self._cache.observe_health(after.metadata.key, before, after)

    def observe_other(self, name: str, replicas: int) -> None:
        """Another scheduler, or the leader before a restart, assigned a workload."""
        binding = _binding(name, replicas, replicas)
        self._cache.adopt(binding.metadata.key, None, binding)


def _binding(name: str, replicas: int, has: int, reports: tuple[AggregatedStatusItem, ...] = ()) -> Binding:
    given = {"m": has} if has else {}
    made = asked(name=name, scheduling=AGGREGATED, requests={"cpu": 1}, replicas=replicas, clusters=given)
    return msgspec.structs.replace(made, status=msgspec.structs.replace(made.status, aggregated_status=reports))


def _report(health: str) -> AggregatedStatusItem:
    return AggregatedStatusItem("m", applied=True, health=health)


def burst(fleet: Fleet) -> bool:
    assert fleet.decide("a", 4)
    return fleet.decide("b", 4)


def growth(fleet: Fleet) -> bool:
    fleet.in_use(4)
    assert fleet.decide("a", 6, has=4)
    return fleet.decide("b", 3)


def growth_that_runs(fleet: Fleet) -> bool:
    assert growth(fleet)
    fleet.in_use(6)
    fleet.report("a", 6)
    return fleet.decide("c", 1)


def healthy_before_the_summary(fleet: Fleet) -> bool:
    assert fleet.decide("a", 4)
    fleet.report("a", 4)
    return fleet.decide("b", 4)


def other_scheduler(fleet: Fleet) -> bool:
    fleet.observe_other("a", 4)
    return fleet.decide("b", 4)


def own_growth(fleet: Fleet) -> bool:
    assert fleet.decide("a", 4)
    fleet.in_use(4)
    return fleet.decide("a", 6, has=4)


def own_growth_once_healthy(fleet: Fleet) -> bool:
    assert not own_growth(fleet)
    fleet.report("a", 4)
    return fleet.decide("a", 6, has=4)


@pytest.mark.parametrize(
    ("cpu", "case", "assigned"),
    [
        pytest.param(6, burst, False, id="4 and 4 of 6"),
        pytest.param(10, growth, True, id="a growth from 4 to 6 of 10 leaves 4"),
        pytest.param(10, growth_that_runs, True, id="once the growth runs, 1 is left beside 3 that are assumed"),
        pytest.param(6, healthy_before_the_summary, True, id="a healthy workload counts as the cluster reports it"),
        pytest.param(6, other_scheduler, False, id="assignments of another scheduler count"),
        pytest.param(6, own_growth, False, id="replicas that run and are not healthy count twice"),
        pytest.param(6, own_growth_once_healthy, True, id="once they are healthy, they count once"),
    ],
)
def test_what_a_cluster_still_takes(cpu: int, case: Callable[[Fleet], bool], assigned: bool):  # noqa: FBT001
    assert case(Fleet(cpu)) == assigned
