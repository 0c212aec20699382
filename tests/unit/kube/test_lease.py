"""Leases, their removal, and leader election."""

import random
import re
import threading
import time

import pytest
from fake_clock import FakeClock
from faults import Fault, in_turn, lose, nothing, only, refuse
from kube_in_memory import KubeInMemory, ReadyResponse
from tables import cases
from waiting import LIMIT_S

from berthmaster.kube.election import Candidate
from berthmaster.kube.lease import Lease, LeaseOptions, own_identity
from berthmaster.model.errors import ApiError, InputError
from berthmaster.runtime.clock import SystemClock

PATH = "/apis/coordination.k8s.io/v1/namespaces/karmada-system/leases/berthmaster"
PATIENCE_S = 60.0
MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


def options(identity: str = "me", **more) -> LeaseOptions:
    return LeaseOptions("karmada-system", "berthmaster", identity, **more)


class World:
    """One API server, and candidates that each have a clock."""

    def __init__(self) -> None:
        self.api = KubeInMemory()
        self.clocks: list[FakeClock] = []

    def lease(self, identity: str = "me", skew_s: float = 0.0, **more) -> Lease:
        clock = FakeClock(passed_s=1000.0 * (1 + len(self.clocks)), skew_s=skew_s)
        self.clocks.append(clock)
        return Lease(self.api, options(identity, **more), clock)

    def leader(self, identity: str = "me") -> Lease:
        lease = self.lease(identity)
        assert lease.try_acquire_or_renew()
        return lease

    def pass_by(self, seconds: float) -> None:
        for clock in self.clocks:
            clock.pass_by(seconds)

    def fail_next(self, fault: Fault) -> None:
        self.api.before = in_turn(fault)

    @property
    def spec(self) -> dict:
        return self.api.objects[PATH]["spec"]

    def held_by(self, holder: str | None, **spec) -> None:
        content = {"holderIdentity": holder, "leaseDurationSeconds": 15, **spec}
        metadata = {"name": "berthmaster", "labels": {"kept": "yes"}}
        self.api.put(PATH, {"kind": "Lease", "metadata": metadata, "spec": content})


@pytest.fixture
def world() -> World:
    return World()


class TestLease:
    def test_the_first_candidate_creates_the_lease(self, world):
        lease = world.lease()
        assert lease.try_acquire_or_renew()
        assert lease.leading
        assert world.spec == {
            "holderIdentity": "me",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-01T00:16:40.000000Z",
            "renewTime": "2026-01-01T00:16:40.000000Z",
            "leaseTransitions": 0,
        }

    def test_a_renewal_is_one_request_and_keeps_the_acquire_time(self, world):
        lease = world.leader()
        world.pass_by(2)
        world.api.requests.clear()
        assert lease.try_acquire_or_renew()
        assert world.api.methods == ["PUT"]
        assert world.spec["acquireTime"] < world.spec["renewTime"]
        assert world.spec["leaseTransitions"] == 0
        assert all(MICRO_TIME.fullmatch(world.spec[name]) for name in ("acquireTime", "renewTime"))

    def test_a_candidate_waits_while_the_lease_is_renewed_and_takes_it_after_it_expires(self, world):
        holder, other = world.leader("a"), world.lease("b")
        for _ in range(10):
            assert not other.try_acquire_or_renew()
            world.pass_by(2)
            assert holder.try_acquire_or_renew()
        assert not other.try_acquire_or_renew()
        world.pass_by(14.9)
        assert not other.try_acquire_or_renew()
        world.pass_by(0.2)
        assert not holder.leading, "its renew deadline has passed long ago"
        assert other.try_acquire_or_renew()
        assert world.spec["holderIdentity"] == "b"
        assert world.spec["leaseTransitions"] == 1
        assert not holder.try_acquire_or_renew()
        assert holder.holder == "b"

    def test_fields_of_other_writers_stay(self, world):
        world.held_by("", strategy="OldestEmulationVersion")
        lease = world.lease()
        assert lease.try_acquire_or_renew()
        assert world.api.objects[PATH]["metadata"]["labels"] == {"kept": "yes"}
        assert world.spec["strategy"] == "OldestEmulationVersion"

    @cases(
        "spec",
        {
            "an empty spec": {},
            "no holder": {"holderIdentity": None},
            "released": {"holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 7},
        },
    )
    def test_a_lease_without_a_holder_is_taken_at_once(self, world, spec):
        world.api.put(PATH, {"metadata": {}, "spec": spec})
        assert world.lease().try_acquire_or_renew()
        assert world.spec["leaseTransitions"] == spec.get("leaseTransitions", 0) + 1

    @cases(
        ("duration", "waits_s"),
        {
            "the duration in the record": (40, 40),
            "the own duration if the record has none": (None, 15),
            "the own duration if that of the record is invalid": (0, 15),
        },
    )
    def test_a_candidate_waits_for_the_duration_in_the_record(self, world, duration, waits_s):
        world.held_by("other", leaseDurationSeconds=duration)
        lease = world.lease()
        assert not lease.try_acquire_or_renew()
        assert lease.expires_in_s == waits_s
        world.pass_by(waits_s - 0.1)
        assert not lease.try_acquire_or_renew()
        world.pass_by(0.2)
        assert lease.try_acquire_or_renew()

    def test_a_released_lease_is_taken_at_once(self, world):
        holder, other = world.leader("a"), world.lease("b")
        assert not other.try_acquire_or_renew()
        holder.release()
        assert not holder.leading
        assert world.spec["holderIdentity"] == ""
        assert world.spec["leaseDurationSeconds"] == 1
        assert other.try_acquire_or_renew()

    def test_releasing_the_lease_of_another_holder_changes_nothing(self, world):
        world.held_by("other")
        lease = world.lease()
        lease.try_acquire_or_renew()
        before = dict(world.spec)
        lease.release()
        assert world.spec == before

    def test_an_identity_is_unique(self):
        assert own_identity() != own_identity()
        assert re.fullmatch(r".+_[0-9a-f-]{36}", own_identity())


@pytest.mark.parametrize("skew_s", [-3600.0, -20.0, 20.0, 3600.0], ids=lambda skew: f"by {skew:g} s")
@pytest.mark.parametrize("skewed", ["holder", "other"])
def test_a_wrong_clock_elects_neither_two_leaders_nor_none(world, skewed, skew_s):
    holder = world.lease("a", skew_s=skew_s if skewed == "holder" else 0.0)
    other = world.lease("b", skew_s=skew_s if skewed == "other" else 0.0)
    holder.try_acquire_or_renew()
    for _ in range(20):
        world.pass_by(2)
        holder.try_acquire_or_renew()
        assert not other.try_acquire_or_renew()
    world.pass_by(15.1)
    assert other.try_acquire_or_renew()


class TestFaults:
    @pytest.mark.parametrize("status", [0, 401, 403, 429, 500, 503], ids=str)
    def test_a_failed_renewal_keeps_the_old_deadline_and_the_next_one_may_succeed(self, world, status):
        lease = world.leader()
        deadline_s = lease.leads_until_s
        world.pass_by(2)
        world.fail_next(refuse(status))
        with pytest.raises(ApiError):
            lease.try_acquire_or_renew()
        assert lease.leading
        assert lease.leads_until_s == deadline_s
        assert lease.try_acquire_or_renew()
        assert lease.leads_until_s == deadline_s + 2

    def test_leadership_ends_at_the_renew_deadline(self, world):
        lease = world.leader()
        world.pass_by(9.99)
        assert lease.leading
        world.pass_by(0.01)
        assert not lease.leading

    def test_the_renew_deadline_counts_from_the_time_of_the_request(self, world):
        lease = world.lease()
        world.api.before = lambda _: world.pass_by(3)
        lease.try_acquire_or_renew()
        assert lease.leads_until_s == world.clocks[0].passed_s - 3 + 10

    def test_the_response_of_a_successful_renewal_is_lost(self, world):
        lease = world.leader()
        world.pass_by(2)
        world.api.after = only(lose, "POST", "PUT", times=1)
        with pytest.raises(ApiError):
            lease.try_acquire_or_renew()
        world.api.requests.clear()
        assert lease.try_acquire_or_renew()
        assert world.api.methods == ["PUT", "GET", "PUT"], "a conflict with its own write, then a read"
        assert world.spec["leaseTransitions"] == 0

    @cases("there", {"created": False, "taken": True})
    def test_the_response_of_a_successful_acquisition_is_lost(self, world, there):
        if there:
            world.held_by("")
        lease = world.lease()
        world.api.after = only(lose, "POST", "PUT", times=1)
        with pytest.raises(ApiError):
            lease.try_acquire_or_renew()
        assert not lease.leading, "not known yet"
        assert lease.try_acquire_or_renew()
        assert lease.leading
        assert world.spec["leaseTransitions"] == int(there), "taken once"

    @cases("there", {"create": False, "take": True})
    def test_one_of_two_candidates_that_write_it_at_once_gets_it(self, world, there):
        if there:
            world.held_by("")
        first, second = world.lease("a"), world.lease("b")
        world.api.before = in_turn(nothing, lambda _: second.try_acquire_or_renew())  # while the first one writes
        with pytest.raises(ApiError) as caught:
            first.try_acquire_or_renew()
        assert caught.value.conflict
        assert world.spec["holderIdentity"] == "b"
        assert (first.leading, second.leading) == (False, True)

    def test_the_holder_creates_a_deleted_lease_again(self, world):
        lease = world.leader()
        world.pass_by(2)
        world.api.remove(PATH)
        assert lease.try_acquire_or_renew()
        assert lease.leading
        assert world.spec["holderIdentity"] == "me"

    @cases("deleted", {"taken": False, "deleted and created again": True})
    def test_a_lease_of_another_candidate_is_lost_at_once(self, world, deleted):
        lease = world.leader()
        if deleted:
            world.api.remove(PATH)
        world.held_by("other")
        assert not lease.try_acquire_or_renew()
        assert not lease.leading

    def test_a_new_label_does_not_make_the_holder_look_alive(self, world):
        world.leader("a")
        other = world.lease("b")
        other.try_acquire_or_renew()
        world.pass_by(14)
        world.api.put(PATH, {**world.api.objects[PATH], "metadata": {"labels": {"a": "b"}}})
        assert not other.try_acquire_or_renew()
        world.pass_by(1.1)
        assert other.try_acquire_or_renew()

    @pytest.mark.parametrize("body", [b"", b"[]", b"<html>", b"\xff"], ids=repr)
    def test_a_response_that_is_not_a_lease_is_an_error(self, body):
        class Odd:
            def send(self, _request):
                return ReadyResponse([body])

        with pytest.raises(ApiError, match="cannot decode the lease"):
            Lease(Odd(), options(), FakeClock()).try_acquire_or_renew()

    def test_a_release_that_conflicts_with_another_write_is_retried_once(self, world):
        lease = world.leader()
        world.api.put(PATH, {**world.api.objects[PATH], "metadata": {"labels": {"a": "b"}}})
        lease.release()
        assert world.spec["holderIdentity"] == ""

    def test_a_candidate_stops_leading_even_if_the_response_of_the_release_is_lost(self, world):
        lease = world.leader()
        world.api.after = only(lose, "POST", "PUT", times=1)
        with pytest.raises(ApiError):
            lease.release()
        assert not lease.leading

    def test_the_read_timeout_leaves_time_for_another_request_before_the_deadline(self, world):
        world.leader()
        assert {request.read_timeout_s for request in world.api.requests} == {5.0}


@cases(
    ("times", "problem"),
    {
        "no time for requests under way": ({"lease_s": 10}, "must be longer"),
        "no time for a second try": ({"retry_s": 9}, "times the retry period"),
        "no pause": ({"retry_s": 0}, "times the retry period"),
    },
)
def test_durations_that_do_not_fit_together_are_rejected(times, problem):
    with pytest.raises(InputError, match=problem):
        options(**times).check()


def test_the_default_durations_fit_together():
    options().check()


class Loop:
    """A candidate that runs in this thread with a fake clock until ``steps`` are used up."""

    def __init__(self, world: World, identity: str = "me") -> None:
        self.lost: list[str] = []
        self.steps = []
        self.lease = world.lease(identity)
        self.world = world
        self.candidate = Candidate(self.lease, world.clocks[-1], self.lost.append, random.Random(1), self._wait)

    def _wait(self, seconds: float) -> bool:
        assert 0 < seconds <= 2
        self.world.pass_by(seconds)
        if not self.steps:
            return True
        step = self.steps.pop(0)
        if step is not None:
            step()
        return False

    def run(self, *steps) -> None:
        self.steps = list(steps)
        self.candidate.run()


class TestCandidate:
    def test_an_elected_candidate_keeps_leading(self, world):
        loop = Loop(world)
        loop.run(*[None] * 50)
        assert loop.candidate.leading
        assert not loop.lost
        assert loop.candidate.problem() == ""

    def test_a_candidate_takes_over_as_soon_as_the_lease_expires(self, world):
        world.held_by("other")
        loop = Loop(world)
        began_s = world.clocks[0].passed_s
        loop.run(*[None] * 18)
        taken = loop.candidate.elected.is_set()
        assert taken
        assert 15 <= loop.lease.leads_until_s - 10 - began_s + 2 <= 20

    def test_leadership_is_lost_without_a_timely_renewal(self, world):
        loop = Loop(world)
        loop.run(*[lambda: world.fail_next(refuse(500))] * 20)
        assert loop.lost == ["the lease was not renewed within 10 s"]
        assert not loop.candidate.leading

    def test_a_few_failed_renewals_do_not_end_the_leadership(self, world):
        loop = Loop(world)
        failing = lambda: world.fail_next(refuse(503))  # noqa: E731 - a step
        loop.run(failing, failing, failing, None, failing, failing, failing, None)
        assert not loop.lost
        assert loop.candidate.leading

    def test_the_reason_of_the_loss_names_the_new_holder(self, world):
        loop = Loop(world)
        loop.run(None, lambda: world.held_by("other"), None, None)
        assert loop.lost == ["other holds the lease"]
        assert len(loop.steps) == 2

    def test_a_lease_that_cannot_be_released_expires(self, world, caplog):
        loop = Loop(world)
        loop.run(None)
        world.fail_next(refuse(503))
        loop.candidate.stop()
        assert "will expire" in caplog.text

    def test_a_loop_that_hangs_is_reported(self, world):
        loop = Loop(world)
        assert loop.candidate.problem() == "", "it has not started"
        loop.run(None)
        world.pass_by(30)
        assert loop.candidate.problem() == ""
        world.pass_by(6)
        assert "ago" in loop.candidate.problem()

    def test_the_pauses_have_jitter(self, world):
        candidate = Loop(world).candidate
        pauses = {round(candidate._pause_s(), 6) for _ in range(20)}  # noqa: SLF001 - pauses are slept
        assert len(pauses) > 10
        assert all(0.75 <= pause <= 1.0 for pause in pauses), "a candidate looks twice as often as a leader renews"
        candidate.elected.set()
        assert 1.5 <= candidate._pause_s() <= 2.0  # noqa: SLF001 - the same


class TestThreads:
    def candidate(self, api: KubeInMemory, lost: threading.Event) -> Candidate:
        lease = Lease(api, options(lease_s=20, renew_s=0.5, retry_s=0.05), SystemClock())
        return Candidate(lease, SystemClock(), lambda _reason: lost.set())

    def test_leadership_ends_on_time_while_a_renewal_hangs(self):
        api, lost, let_go = KubeInMemory(), threading.Event(), threading.Event()
        candidate = self.candidate(api, lost)
        candidate.start()
        assert candidate.elected.wait(LIMIT_S)
        api.before = lambda _: let_go.wait(LIMIT_S)
        assert lost.wait(19), "other candidates may take it after 20 seconds"
        assert not candidate.leading
        let_go.set()

    def test_a_stopped_candidate_leaves_a_lease_without_a_holder(self):
        api, lost = KubeInMemory(), threading.Event()
        candidate = self.candidate(api, lost)
        candidate.start()
        assert candidate.elected.wait(LIMIT_S)
        candidate.stop()
        assert api.objects[PATH]["spec"]["holderIdentity"] == ""
        asked = len(api.requests)
        time.sleep(0.2)
        assert len(api.requests) == asked, "it is not renewed any more"
        assert not lost.is_set()
        assert not candidate.leading


class Removal:
    """An API server with a Lease that its holder renews for some time."""

    def __init__(self, holder: str = "", *, renewed_until_s: float = 0.0, **spec) -> None:
        self.api = KubeInMemory()
        self.clock = FakeClock()
        self._renewed_until_s = renewed_until_s
        self._spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, **spec}
        self.slept_s = 0.0
        self._store_lease()

    def _store_lease(self) -> None:
        spec = {**self._spec, "renewTime": f"{self.slept_s:.6f}"}
        self.api.put(PATH, {"kind": "Lease", "metadata": {"name": "berthmaster", "uid": "1"}, "spec": spec})

    def sleep(self, seconds: float) -> None:
        self.slept_s += seconds
        self.clock.pass_by(seconds)
        if self.slept_s <= self._renewed_until_s:
            self._store_lease()

    def remove(self) -> str:
        return Lease(self.api, options(""), self.clock).remove(PATIENCE_S, self.sleep)


@cases(
    ("removal", "outcome", "after_s"),
    {
        "released": (Removal(), "removed", 0),
        "expired": (Removal("me"), "removed", 15),
        "renewed for some time": (Removal("me", renewed_until_s=20), "removed", 35),
        "in use": (Removal("other", renewed_until_s=1000), "in use", 60),
        "without a duration": (Removal("me", leaseDurationSeconds=None), "removed", 15),
    },
)
def test_remove_lease(removal, outcome, after_s):
    assert removal.remove() == outcome
    assert after_s <= removal.slept_s <= after_s + 1
    assert (PATH in removal.api.objects) == (outcome == "in use")


def test_removing_a_missing_lease_is_not_an_error():
    removal = Removal()
    removal.api.remove(PATH)
    assert removal.remove() == "gone already"


def test_a_lease_that_changes_during_the_removal_is_read_again():
    removal = Removal()
    removal.api.before = in_turn(nothing, refuse(409))
    version = removal.api.objects[PATH]["metadata"]["resourceVersion"]
    assert removal.remove() == "removed"
    assert removal.api.methods == ["GET", "DELETE", "GET", "DELETE"]
    assert removal.api.bodies("DELETE")[0]["preconditions"] == {"uid": "1", "resourceVersion": version}


def test_a_lease_that_another_client_deletes_during_the_removal_is_removed():
    removal = Removal()
    removal.api.before = in_turn(nothing, refuse(404))
    assert removal.remove() == "removed"


@cases("before", {"get": [refuse(403)], "delete": [nothing, refuse(403)]})
def test_other_errors_of_the_removal_are_raised(before):
    removal = Removal()
    removal.api.before = in_turn(*before)
    with pytest.raises(ApiError, match="403"):
        removal.remove()


def annotations_of(world: World) -> dict:
    return world.api.objects[PATH]["metadata"].get("annotations", {})


def test_an_annotation_is_written_with_the_next_renewal_and_stays(world):
    mine = world.leader()
    mine.annotate("a", "1")
    assert annotations_of(world) == {}
    mine.try_acquire_or_renew()
    assert annotations_of(world) == {"a": "1"}
    mine.annotate("a", None)
    mine.annotate("b", "2")
    mine.try_acquire_or_renew()
    assert annotations_of(world) == {"b": "2"}


def test_an_annotation_that_another_client_wrote_is_observed_with_the_next_renewal_and_kept(world):
    mine = world.leader()
    stored = world.api.objects[PATH]
    world.api.put(PATH, {**stored, "metadata": {**stored["metadata"], "annotations": {"theirs": "1"}}})
    mine.annotate("mine", "2")
    assert mine.try_acquire_or_renew()
    assert mine.annotation("theirs") == "1"
    assert annotations_of(world) == {"theirs": "1", "mine": "2"}


def test_an_annotation_survives_a_failed_renewal_and_a_change_of_the_holder(world):
    mine, other = world.leader(), world.lease("other")
    mine.annotate("a", "1")
    world.fail_next(lose)
    with pytest.raises(ApiError):
        mine.try_acquire_or_renew()
    mine.release()
    assert annotations_of(world) == {"a": "1"}
    assert other.try_acquire_or_renew()
    assert other.annotation("a") == "1"
