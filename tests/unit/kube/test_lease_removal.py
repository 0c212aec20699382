"""A Lease goes when nobody holds it, and stays as long as somebody does."""

import pytest
from fake_clock import FakeClock
from faults import in_turn, nothing, refuse
from kube_in_memory import KubeInMemory

from berthmaster.kube.lease import remove_lease
from berthmaster.model.errors import ApiError

KEY = ("karmada-system", "berthmaster")
PATH = "/apis/coordination.k8s.io/v1/namespaces/karmada-system/leases/berthmaster"
PATIENCE_S = 60.0


class World:
    """An API server with a Lease, and a holder that renews it for some time."""

    def __init__(self, holder: str = "", *, renewed_until_s: float = 0.0, **spec) -> None:
        self.api = KubeInMemory()
        self.clock = FakeClock()
        self._renewed_until_s = renewed_until_s
        self._spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, **spec}
        self.slept_s = 0.0
        self._store()

    def _store(self) -> None:
        spec = {**self._spec, "renewTime": f"{self.slept_s:.6f}"}
        self.api.put(PATH, {"kind": "Lease", "metadata": {"name": "berthmaster", "uid": "1"}, "spec": spec})

    def sleep(self, seconds: float) -> None:
        self.slept_s += seconds
        self.clock.pass_by(seconds)
        if self.slept_s <= self._renewed_until_s:
            self._store()

    def remove(self) -> str:
        return remove_lease(self.api, KEY, self.clock, PATIENCE_S, self.sleep)


@pytest.mark.parametrize(
    ("world", "outcome", "after_s"),
    [
        pytest.param(World(), "removed", 0, id="one that was given back goes at once"),
        pytest.param(World("me"), "removed", 15, id="one whose holder went without a word when it has run out"),
        pytest.param(World("me", renewed_until_s=20), "removed", 35, id="one whose holder takes a while to stop"),
        pytest.param(World("other", renewed_until_s=1000), "in use", 60, id="one that somebody else uses stays"),
        pytest.param(World("me", leaseDurationSeconds=None), "removed", 0, id="one that never said how long it lasts"),
    ],
)
def test_what_becomes_of_a_lease(world, outcome, after_s):
    assert world.remove() == outcome
    assert after_s <= world.slept_s <= after_s + 1
    assert (PATH in world.api.objects) == (outcome == "in use")


def test_one_that_is_gone_is_no_error():
    world = World()
    world.api.remove(PATH)
    assert world.remove() == "gone already"


def test_one_that_is_taken_at_the_last_moment_is_looked_at_again():
    world = World()
    world.api.before = in_turn(nothing, refuse(409))
    version = world.api.objects[PATH]["metadata"]["resourceVersion"]
    assert world.remove() == "removed"
    assert world.api.methods == ["GET", "DELETE", "GET", "DELETE"]
    assert world.api.bodies("DELETE")[0]["preconditions"] == {"uid": "1", "resourceVersion": version}


def test_one_that_somebody_else_deleted_meanwhile_is_removed():
    world = World()
    world.api.before = in_turn(nothing, refuse(404))
    assert world.remove() == "removed"


@pytest.mark.parametrize("before", [[refuse(403)], [nothing, refuse(403)]], ids=["to look", "to delete"])
def test_a_refusal_is_told(before):
    world = World()
    world.api.before = in_turn(*before)
    with pytest.raises(ApiError, match="403"):
        world.remove()
