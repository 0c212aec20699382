"""A lease and those who want it: by the book, and when things go wrong."""

import random
import re
import threading
import time

import pytest
from answers import ReadyAnswer
from fake_clock import FakeClock
from faults import Fault, in_turn, lose, nothing, only, refuse
from kube_in_memory import KubeInMemory

from berthmaster.kube.election import Candidate
from berthmaster.kube.lease import Lease, LeaseOptions, own_identity
from berthmaster.model.errors import ApiError, InputError
from berthmaster.runtime.clock import SystemClock

PATH = "/apis/coordination.k8s.io/v1/namespaces/karmada-system/leases/berthmaster"
MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


def options(identity: str = "me", **more) -> LeaseOptions:
    return LeaseOptions("karmada-system", "berthmaster", identity, **more)


class World:
    """One API server, and candidates with clocks of their own that all run."""

    def __init__(self) -> None:
        self.api = KubeInMemory()
        self.clocks: list[FakeClock] = []

    def lease(self, identity: str = "me", skew_s: float = 0.0, **more) -> Lease:
        clock = FakeClock(passed_s=1000.0 * (1 + len(self.clocks)), skew_s=skew_s)
        self.clocks.append(clock)
        return Lease(self.api, options(identity, **more), clock)

    def pass_by(self, seconds: float) -> None:
        for clock in self.clocks:
            clock.pass_by(seconds)

    def next_meets(self, fault: Fault) -> None:
        """Something befalls the next request."""
        self.api.before = in_turn(fault)

    @property
    def spec(self) -> dict:
        return self.api.objects[PATH]["spec"]

    def held_by(self, holder: str | None, **spec) -> None:
        """Somebody holds it, whose record is as given."""
        content = {"holderIdentity": holder, "leaseDurationSeconds": 15, **spec}
        metadata = {"name": "berthmaster", "labels": {"kept": "yes"}}
        self.api.put(PATH, {"kind": "Lease", "metadata": metadata, "spec": content})


@pytest.fixture
def world() -> World:
    return World()


class TestByTheBook:
    def test_who_comes_first_makes_it(self, world):
        lease = world.lease()
        assert lease.attempt()
        assert lease.leading
        assert world.spec == {
            "holderIdentity": "me",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-01T00:16:40.000000Z",
            "renewTime": "2026-01-01T00:16:40.000000Z",
            "leaseTransitions": 0,
        }

    def test_renewing_is_one_request_and_keeps_since_when_it_is_held(self, world):
        lease = world.lease()
        lease.attempt()
        world.pass_by(2)
        world.api.requests.clear()
        assert lease.attempt()
        assert world.api.methods == ["PUT"]
        assert world.spec["acquireTime"] < world.spec["renewTime"]
        assert world.spec["leaseTransitions"] == 0
        assert all(MICRO_TIME.fullmatch(world.spec[name]) for name in ("acquireTime", "renewTime"))

    def test_another_waits_while_it_is_renewed_and_takes_it_once_it_was_not_for_long_enough(self, world):
        holder, other = world.lease("a"), world.lease("b")
        holder.attempt()
        for _ in range(10):
            assert not other.attempt()
            world.pass_by(2)
            assert holder.attempt()
        assert not other.attempt()
        world.pass_by(14.9)
        assert not other.attempt()
        world.pass_by(0.2)
        assert not holder.leading, "its renew deadline was over long before"
        assert other.attempt()
        assert world.spec["holderIdentity"] == "b"
        assert world.spec["leaseTransitions"] == 1
        assert not holder.attempt()
        assert holder.holder == "b"

    def test_what_others_wrote_into_it_stays(self, world):
        world.held_by("", strategy="OldestEmulationVersion")
        lease = world.lease()
        assert lease.attempt()
        assert world.api.objects[PATH]["metadata"]["labels"] == {"kept": "yes"}
        assert world.spec["strategy"] == "OldestEmulationVersion"

    @pytest.mark.parametrize(
        "spec",
        [
            pytest.param({}, id="nothing in it"),
            pytest.param({"holderIdentity": None}, id="no holder"),
            pytest.param({"holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 7}, id="released"),
        ],
    )
    def test_what_nobody_holds_is_taken_at_once(self, world, spec):
        world.api.put(PATH, {"metadata": {}, "spec": spec})
        assert world.lease().attempt()
        assert world.spec["leaseTransitions"] == spec.get("leaseTransitions", 0) + 1

    @pytest.mark.parametrize(
        ("duration", "waits_s"),
        [
            pytest.param(40, 40, id="the holder's duration counts"),
            pytest.param(None, 15, id="ours where it says none"),
            pytest.param(0, 15, id="ours where it says nonsense"),
        ],
    )
    def test_another_is_waited_for_as_long_as_its_record_says(self, world, duration, waits_s):
        world.held_by("other", leaseDurationSeconds=duration)
        lease = world.lease()
        assert not lease.attempt()
        assert lease.lapses_in_s == waits_s
        world.pass_by(waits_s - 0.1)
        assert not lease.attempt()
        world.pass_by(0.2)
        assert lease.attempt()

    def test_released_it_is_anybodys_at_once(self, world):
        holder, other = world.lease("a"), world.lease("b")
        holder.attempt()
        assert not other.attempt()
        holder.release()
        assert not holder.leading
        assert world.spec["holderIdentity"] == ""
        assert world.spec["leaseDurationSeconds"] == 1
        assert other.attempt()

    def test_releasing_what_is_not_ours_changes_nothing(self, world):
        world.held_by("other")
        lease = world.lease()
        lease.attempt()
        before = dict(world.spec)
        lease.release()
        assert world.spec == before

    def test_an_identity_is_nobody_elses(self):
        assert own_identity() != own_identity()
        assert re.fullmatch(r".+_[0-9a-f-]{36}", own_identity())


@pytest.mark.parametrize("skew_s", [-3600.0, -20.0, 20.0, 3600.0], ids=lambda skew: f"by {skew:g} s")
@pytest.mark.parametrize("whose", ["holder", "other"])
def test_a_clock_that_is_wrong_neither_elects_two_nor_none(world, whose, skew_s):
    holder = world.lease("a", skew_s=skew_s if whose == "holder" else 0.0)
    other = world.lease("b", skew_s=skew_s if whose == "other" else 0.0)
    holder.attempt()
    for _ in range(20):
        world.pass_by(2)
        holder.attempt()
        assert not other.attempt()
    world.pass_by(15.1)
    assert other.attempt()


class TestFaults:
    @pytest.mark.parametrize("status", [0, 401, 403, 429, 500, 503], ids=str)
    def test_a_renewal_that_failed_keeps_the_old_deadline_and_the_next_may_succeed(self, world, status):
        lease = world.lease()
        lease.attempt()
        deadline_s = lease.until_s
        world.pass_by(2)
        world.next_meets(refuse(status))
        with pytest.raises(ApiError):
            lease.attempt()
        assert lease.leading
        assert lease.until_s == deadline_s
        assert lease.attempt()
        assert lease.until_s == deadline_s + 2

    def test_leading_ends_with_the_renew_deadline_and_not_a_moment_later(self, world):
        lease = world.lease()
        lease.attempt()
        world.pass_by(9.99)
        assert lease.leading
        world.pass_by(0.01)
        assert not lease.leading

    def test_a_slow_answer_counts_from_when_it_was_asked_for(self, world):
        lease = world.lease()
        world.api.before = lambda _: world.pass_by(3)
        lease.attempt()
        assert lease.until_s == world.clocks[0].passed_s - 3 + 10

    def test_an_answer_that_was_lost_although_the_renewal_took_effect(self, world):
        lease = world.lease()
        lease.attempt()
        world.pass_by(2)
        world.api.after = only(lose, "POST", "PUT", times=1)
        with pytest.raises(ApiError):
            lease.attempt()
        world.api.requests.clear()
        assert lease.attempt()
        assert world.api.methods == ["PUT", "GET", "PUT"], "a conflict with itself, and a look"
        assert world.spec["leaseTransitions"] == 0

    @pytest.mark.parametrize("there", [False, True], ids=["made", "taken"])
    def test_an_answer_that_was_lost_although_it_is_ours_now(self, world, there):
        if there:
            world.held_by("")
        lease = world.lease()
        world.api.after = only(lose, "POST", "PUT", times=1)
        with pytest.raises(ApiError):
            lease.attempt()
        assert not lease.leading, "nobody knows yet"
        assert lease.attempt()
        assert lease.leading
        assert world.spec["leaseTransitions"] == int(there), "it was taken once"

    def test_of_two_that_take_it_at_once_one_gets_it(self, world):
        world.held_by("")
        first, second = world.lease("a"), world.lease("b")
        world.api.before = in_turn(nothing, lambda _: second.attempt())  # while the first one writes
        with pytest.raises(ApiError) as caught:
            first.attempt()
        assert caught.value.conflict
        assert world.spec["holderIdentity"] == "b"
        assert (first.leading, second.leading) == (False, True)

    def test_of_two_that_make_it_at_once_one_gets_it(self, world):
        first, second = world.lease("a"), world.lease("b")
        world.api.before = in_turn(nothing, lambda _: second.attempt())
        with pytest.raises(ApiError) as caught:
            first.attempt()
        assert caught.value.conflict
        assert (first.leading, second.leading) == (False, True)

    def test_deleted_it_is_made_anew_by_its_holder(self, world):
        lease = world.lease()
        lease.attempt()
        world.pass_by(2)
        world.api.remove(PATH)
        assert lease.attempt()
        assert lease.leading
        assert world.spec["holderIdentity"] == "me"

    def test_deleted_and_taken_by_another_it_is_lost_at_once(self, world):
        lease, other = world.lease("a"), world.lease("b")
        lease.attempt()
        world.api.remove(PATH)
        other.attempt()
        world.pass_by(1)
        assert not lease.attempt()
        assert not lease.leading

    def test_taken_by_another_it_is_lost_at_once(self, world):
        lease = world.lease()
        lease.attempt()
        world.held_by("other")
        assert not lease.attempt()
        assert not lease.leading

    def test_somebody_who_labels_it_does_not_make_its_holder_look_alive(self, world):
        holder, other = world.lease("a"), world.lease("b")
        holder.attempt()
        other.attempt()
        world.pass_by(14)
        world.api.put(PATH, {**world.api.objects[PATH], "metadata": {"labels": {"a": "b"}}})
        assert not other.attempt()
        world.pass_by(1.1)
        assert other.attempt()

    @pytest.mark.parametrize("body", [b"", b"[]", b"<html>", b"\xff"], ids=repr)
    def test_an_answer_that_is_no_lease_is_an_error(self, body):
        class Odd:
            def send(self, _request):
                return ReadyAnswer([body])

        with pytest.raises(ApiError, match="not readable"):
            Lease(Odd(), options(), FakeClock()).attempt()

    def test_a_release_that_meets_a_change_by_others_is_tried_once_more(self, world):
        lease = world.lease()
        lease.attempt()
        world.api.put(PATH, {**world.api.objects[PATH], "metadata": {"labels": {"a": "b"}}})
        lease.release()
        assert world.spec["holderIdentity"] == ""

    def test_a_release_whose_answer_was_lost_leads_no_more(self, world):
        lease = world.lease()
        lease.attempt()
        world.api.after = only(lose, "POST", "PUT", times=1)
        with pytest.raises(ApiError):
            lease.release()
        assert not lease.leading

    def test_a_request_leaves_time_for_another_within_the_deadline(self, world):
        lease = world.lease()
        lease.attempt()
        assert {request.silence_s for request in world.api.requests} == {5.0}


@pytest.mark.parametrize(
    ("times", "told"),
    [
        pytest.param({"lease_s": 10}, "must last longer", id="no time for requests under way"),
        pytest.param({"retry_s": 9}, "times the retry period", id="no time for a second try"),
        pytest.param({"retry_s": 0}, "times the retry period", id="no pause"),
    ],
)
def test_times_that_do_not_fit_together_are_refused(times, told):
    with pytest.raises(InputError, match=told):
        options(**times).check()


def test_the_defaults_fit_together():
    options().check()


class Loop:
    """A candidate whose loop runs in this thread, on a fake clock, until ``steps`` are used up."""

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
    def test_is_elected_and_stays(self, world):
        loop = Loop(world)
        loop.run(*[None] * 50)
        assert loop.candidate.leading
        assert not loop.lost
        assert loop.candidate.problem() == ""

    def test_waits_for_another_and_takes_over_the_moment_the_lease_is_over(self, world):
        world.held_by("other")
        loop = Loop(world)
        began_s = world.clocks[0].passed_s
        loop.run(*[None] * 9)
        taken = loop.candidate.elected.is_set()
        assert taken
        assert 15 <= loop.lease.until_s - 10 - began_s + 2 <= 20

    def test_gives_up_when_it_cannot_renew_in_time(self, world):
        loop = Loop(world)
        loop.run(*[lambda: world.next_meets(refuse(500))] * 20)
        assert loop.lost == ["the lease could not be renewed within 10 s"]
        assert not loop.candidate.leading

    def test_a_few_failures_do_no_harm(self, world):
        loop = Loop(world)
        failing = lambda: world.next_meets(refuse(503))  # noqa: E731 - a step
        loop.run(failing, failing, failing, None, failing, failing, failing, None)
        assert not loop.lost
        assert loop.candidate.leading

    def test_is_told_at_once_who_has_it_now(self, world):
        loop = Loop(world)
        loop.run(None, lambda: world.held_by("other"), None, None)
        assert loop.lost == ["other holds the lease"]
        assert len(loop.steps) == 2

    def test_stopping_gives_it_back_and_is_no_loss(self, world):
        loop = Loop(world)
        loop.run(None)
        loop.candidate.stop()
        assert world.spec["holderIdentity"] == ""
        assert not loop.lost
        assert not loop.candidate.leading

    def test_what_cannot_be_given_back_is_left_to_run_out(self, world, caplog):
        loop = Loop(world)
        loop.run(None)
        world.next_meets(refuse(503))
        loop.candidate.stop()
        assert "will run out" in caplog.text

    def test_a_loop_that_hangs_is_no_healthy_one(self, world):
        loop = Loop(world)
        assert loop.candidate.problem() == "", "it has not begun"
        loop.run(None)
        world.pass_by(30)
        assert loop.candidate.problem() == ""
        world.pass_by(6)
        assert "ago" in loop.candidate.problem()

    def test_tries_are_spread(self, world):
        candidate = Loop(world).candidate
        pauses = {round(candidate._pause_s(), 6) for _ in range(20)}
        assert len(pauses) > 10
        assert all(1.5 <= pause <= 2.0 for pause in pauses)


class TestThreads:
    def candidate(self, api: KubeInMemory, lost: threading.Event) -> Candidate:
        lease = Lease(api, options(lease_s=2, renew_s=0.5, retry_s=0.05), SystemClock())
        return Candidate(lease, SystemClock(), lambda _why: lost.set())

    def test_a_renewal_that_hangs_does_not_hold_up_the_end(self):
        api, lost, let_go = KubeInMemory(), threading.Event(), threading.Event()
        candidate = self.candidate(api, lost)
        candidate.start()
        assert candidate.elected.wait(5)
        api.before = lambda _: let_go.wait(10)
        hung_s = time.monotonic()
        assert lost.wait(1.9), "others may take it after two seconds"
        assert not candidate.leading
        assert time.monotonic() - hung_s < 1.9
        let_go.set()

    def test_started_and_stopped_it_leaves_a_lease_that_nobody_holds(self):
        api, lost = KubeInMemory(), threading.Event()
        candidate = self.candidate(api, lost)
        candidate.start()
        assert candidate.elected.wait(5)
        candidate.stop()
        assert api.objects[PATH]["spec"]["holderIdentity"] == ""
        asked = len(api.requests)
        time.sleep(0.2)
        assert len(api.requests) == asked, "nobody renews it any more"
        assert not lost.is_set()
