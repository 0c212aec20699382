"""What counts as given away while nobody knows whether it was written, and after somebody else gave it away."""

import msgspec
import pytest
from builders import cluster
from decisions import AGGREGATED, DUPLICATED, asked
from fake_clock import FakeClock

from berthmaster.controllers.binding_scheduler.assumptions import LIFETIME_S
from berthmaster.controllers.binding_scheduler.desk import Desk
from berthmaster.controllers.binding_scheduler.failover import FailoverOptions
from berthmaster.controllers.binding_scheduler.plan import Version
from berthmaster.controllers.binding_scheduler.step import Step
from berthmaster.kube.requests import Key
from berthmaster.model.binding import AggregatedStatusItem, Binding, WorkloadAffinityGroups
from berthmaster.scheduling.karmada.profile import built_in, karmada_profile

ROOM = 10


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def desk(clock: FakeClock) -> Desk:
    """A desk over one cluster with ten cores."""
    made = Desk(karmada_profile(built_in(workload_affinity=True)), clock, FailoverOptions())
    made.cluster_changed(cluster("m", cpu=ROOM))
    return made


def wanting(name: str, replicas: int, *, has: int = 0, uid: str = "", **fields: object) -> Binding:
    """A binding with replicas of one core, some of which it has already."""
    clusters = {"m": has} if has else {}
    made = asked(
        **{"name": name, "scheduling": AGGREGATED, "requests": {"cpu": 1}, "replicas": replicas, **fields},
        clusters=clusters,
    )
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, uid=uid))


def key(binding: Binding) -> Key:
    return binding.metadata.namespace, binding.metadata.name


def decide(desk: Desk, binding: Binding) -> Step:
    return desk.decide(key(binding), binding)


def free(desk: Desk) -> int:
    """How many replicas of one core a new binding still gets."""
    for replicas in range(ROOM, 0, -1):
        probe = wanting("probe", replicas)
        step = decide(desk, probe)
        desk.gone(key(probe), probe)
        if step.verdict.ok:
            return replicas
    return 0


def reported(binding: Binding, health: str = "Healthy") -> Binding:
    items = (AggregatedStatusItem("m", applied=True, health=health),)
    return msgspec.structs.replace(binding, status=msgspec.structs.replace(binding.status, aggregated_status=items))


def test_room_stays_taken_while_nobody_knows_whether_it_was_written(desk: Desk):
    binding = wanting("web", 4)
    desk.unsure(key(binding), decide(desk, binding))
    assert free(desk) == 6


def test_what_was_written_although_its_answer_was_lost_goes_on_to_count(desk: Desk):
    binding = wanting("web", 4)
    desk.unsure(key(binding), decide(desk, binding))
    desk.settle(key(binding), wanting("web", 4, has=4))
    assert free(desk) == 6


@pytest.mark.parametrize(
    "now",
    [
        pytest.param(wanting("web", 4), id="it is as it was"),
        pytest.param(None, id="it is gone"),
        pytest.param(wanting("web", 4, has=4, uid="another"), id="it was made anew by somebody else"),
    ],
)
def test_what_was_not_written_counts_no_more_once_that_is_seen(desk: Desk, now: Binding | None):
    binding = wanting("web", 4)
    step = decide(desk, binding)
    desk.freed()
    desk.unsure(key(binding), step)
    desk.settle(key(binding), now)
    assert free(desk) == ROOM


def test_a_second_try_counts_once(desk: Desk):
    binding = wanting("web", 4)
    for _ in range(3):
        desk.settle(key(binding), binding)
        desk.unsure(key(binding), decide(desk, binding))
    assert free(desk) == 6
    desk.settle(key(binding), binding)
    assert free(desk) == ROOM


def test_what_arrives_meanwhile_does_not_come_back(desk: Desk):
    first = wanting("web", 2)
    step = decide(desk, first)
    assert step.write is not None
    grown = wanting("web", 5, has=2)
    desk.unsure(key(first), decide(desk, grown))
    desk.arrived(key(first), ["m"])
    desk.settle(key(first), grown)
    assert desk.assumptions() == 0


def test_a_binding_that_is_gone_leaves_nothing_behind(desk: Desk):
    binding = wanting("web", 4)
    desk.unsure(key(binding), decide(desk, binding))
    desk.gone(key(binding), binding)
    desk.settle(key(binding), wanting("web", 4))
    assert (desk.assumptions(), free(desk)) == (0, ROOM)


def test_peers_are_where_they_are_and_not_where_a_write_failed_to_put_them(desk: Desk):
    desk.cluster_changed(cluster("n", cpu=ROOM))
    groups = {"workload_affinity_groups": WorkloadAffinityGroups(anti_affinity_group="app=web")}
    first = wanting("first", 2, scheduling=AGGREGATED, **groups)
    other = wanting("other", 2, scheduling=DUPLICATED, **groups)
    step = decide(desk, first)
    assert step.clusters is not None
    [taken] = step.clusters
    assert taken not in (decide(desk, other).clusters or {})
    desk.unsure(key(first), step)
    desk.settle(key(first), first)
    desk.placed(other)
    assert set(decide(desk, wanting("third", 2, scheduling=DUPLICATED, **groups)).clusters or {}) == {"m", "n"}


def test_what_another_leader_gave_away_counts_until_the_cluster_reports_of_it(desk: Desk, clock: FakeClock):
    clock.skew_s = -600.0  # whose clock told when it was scheduled plays no part
    scheduled = wanting("web", 4, has=4)
    desk.assigned(key(scheduled), None, scheduled)
    assert free(desk) == 6
    desk.arrived(key(scheduled), ["m"])
    assert free(desk) == ROOM


def test_what_runs_already_does_not_count_again_after_a_takeover(desk: Desk):
    running = reported(wanting("web", 4, has=4), health="Unhealthy")
    desk.assigned(key(running), None, running)
    assert desk.assumptions() == 0


def test_growth_that_somebody_else_wrote_counts(desk: Desk):
    before, after = reported(wanting("web", 4, has=1)), reported(wanting("web", 4, has=4))
    desk.assigned(key(after), before, after)
    assert free(desk) == ROOM - 3


def test_to_hear_of_an_assignment_of_its_own_changes_nothing(desk: Desk):
    binding = wanting("web", 4)
    step = decide(desk, binding)
    assert step.write is not None
    desk.assigned(key(binding), binding, step.write.applied(binding, Version("2", 2)))
    assert free(desk) == 6


@pytest.mark.parametrize(
    "elsewhere",
    [pytest.param({}, id="it is evicted"), pytest.param({"n": 4}, id="it goes elsewhere")],
)
def test_room_is_given_up_where_somebody_else_has_moved_a_binding_away(desk: Desk, elsewhere: dict[str, int]):
    step = decide(desk, wanting("web", 4))
    assert step.write is not None
    before = step.write.applied(step.binding, Version("2", 2))
    after = asked(name="web", scheduling=AGGREGATED, requests={"cpu": 1}, replicas=4, clusters=elsewhere)
    desk.moved(key(before), before, after)
    assert desk.freed() == {"m"}
    assert free(desk) == ROOM


@pytest.mark.parametrize(
    ("has", "left"),
    [
        pytest.param(0, ROOM, id="it has none any more"),
        pytest.param(3, ROOM - 3, id="it has fewer"),
        pytest.param(4, ROOM - 4, id="it has as many"),
        pytest.param(6, ROOM - 4, id="it has more, of which some are there"),
    ],
)
def test_no_more_is_on_its_way_than_a_binding_is_seen_to_have(desk: Desk, has: int, left: int):
    binding = wanting("web", 4)
    decide(desk, binding)
    desk.settle(key(binding), wanting("web", 4, has=has))
    assert free(desk) == left


def scheduled(desk: Desk, binding: Binding) -> Binding:
    """A binding as it is after it was scheduled, with its status."""
    step = decide(desk, binding)
    written = step.binding if step.write is None else step.write.applied(step.binding, Version("2", 2))
    return step.status_write(written, FakeClock().now(), written).applied(written, Version("3", 2))


def test_what_fits_nowhere_is_no_success_although_it_has_all_of_its_no_replicas(desk: Desk):
    desk.cluster_changed(cluster("m", cpu=ROOM, taints=["broken:NoSchedule"]))
    binding = scheduled(desk, wanting("web", 0))
    step = decide(desk, binding)
    assert (step.verdict.reason, step.waits_for_room) == ("NoClusterFit", True)
    desk.cluster_changed(cluster("m", cpu=ROOM))
    assert decide(desk, binding).verdict.ok


@pytest.mark.parametrize(
    ("others", "clusters"),
    [
        pytest.param(("n",), {"n": 4}, id="the replicas go to others"),
        pytest.param((), None, id="unless there are none: that is more likely a fault"),
    ],
)
def test_a_cluster_that_is_gone_is_left(desk: Desk, others: tuple[str, ...], clusters: dict[str, int] | None):
    binding = scheduled(desk, wanting("web", 4))
    assert decide(desk, binding).clusters is None
    for name in others:
        desk.cluster_changed(cluster(name, cpu=ROOM))
    desk.cluster_gone("m")
    assert decide(desk, binding).clusters == clusters


@pytest.mark.parametrize(
    "give_up",
    [
        pytest.param(lambda desk, binding, _: desk.gone(key(binding), binding), id="its binding is deleted"),
        pytest.param(lambda desk, binding, _: desk.arrived(key(binding), ["m"]), id="it has arrived"),
        pytest.param(
            lambda desk, _, clock: (clock.pass_by(LIFETIME_S), desk.expire()), id="nothing was heard of it for long"
        ),
        pytest.param(
            lambda desk, binding, _: desk.decide(key(binding), wanting("web", 1, has=4)), id="the workload shrinks"
        ),
    ],
)
def test_room_that_is_given_up_is_told_once(desk: Desk, clock: FakeClock, give_up):
    binding = wanting("web", 4)
    decide(desk, binding)
    assert desk.freed() == set()
    give_up(desk, binding, clock)
    assert desk.freed() == {"m"}
    assert desk.freed() == set()
