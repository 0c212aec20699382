"""Karmada's own controller works on the same rebalancers at the same time: nothing goes back, and both come to rest.

``Karmada`` is a model of it, written after its rules and not after our plan: it reads from a cache that lags behind,
writes bindings as a whole under their version, and its status without any guard, just what changed.
"""

import json
from collections.abc import Generator
from datetime import timedelta
from typing import Any

import msgspec
from faults import nothing
from hypothesis import given, settings
from hypothesis import strategies as st
from kube_in_memory import KubeInMemory
from kube_store import JSON
from patches import merged
from rebalancing import CREATED, EARLIER, LATER, NIGHT, binding_path, manifest, put_binding, text, workload

from berthmaster.controllers.controller import Requeue
from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.controllers.rebalancer.reconciler import REBALANCERS, RebalancerReconciler
from berthmaster.kube.requests import Collection, delete, merge_patch, replace
from berthmaster.model.errors import ApiError

BINDINGS = Collection.of("work.karmada.io/v1alpha2", "resourcebindings")
KEY = ("", "night")
NAMES = "abc"


class World:
    """One API server, both controllers, a clock; every write to it is looked at."""

    def __init__(self, content: JSON, marks: dict[str, Any]) -> None:
        self.api = KubeInMemory()
        self.minutes = 0
        self.context = ControllerContext(self.api, self, self, self)
        self.ours = RebalancerReconciler(self.context)
        self.marks: dict[str, str] = {}
        for name, marked in marks.items():
            put_binding(self.api, name, marked=marked)
        self.api.put(NIGHT, content)
        self.karmada = Karmada(self)
        self.look()

    def now(self):
        return LATER + timedelta(minutes=self.minutes)

    def monotonic_s(self) -> float:
        return 0.0

    def record(self, *_: object) -> None:
        pass

    def reconciled(self, *_: object) -> None:
        pass

    def rebalancer(self) -> JSON | None:
        return self.api.get(NIGHT)

    def look(self) -> None:
        """Our informer hears of what there is."""
        if (stored := self.rebalancer()) is None:
            self.context.informers[REBALANCERS].drop(KEY)
        else:
            self.context.informers[REBALANCERS].put(KEY, msgspec.Raw(json.dumps(stored).encode()))

    def check(self) -> None:
        """No mark has gone back."""
        for name in NAMES:
            if stored := self.api.get(binding_path(name)):
                marked = stored["spec"].get("rescheduleTriggeredAt", "")
                assert marked >= self.marks.get(name, "")
                assert stored["spec"]["clusters"] == [{"name": "member1"}]
                self.marks[name] = marked

    def we_reconcile(self) -> bool:
        """Whether that was all for now."""
        try:
            again = self.ours.reconcile(KEY)
        except ApiError:
            return False
        self.check()
        return again is None or isinstance(again, Requeue)


class Karmada:
    """The other controller, one request at a time."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.cached = world.rebalancer()

    def reconcile(self) -> Generator[None, None, bool]:
        """Work on the rebalancer as the cache has it, and stop before each write; whether that was all for now."""
        known = self.cached
        if known is None:
            return True
        status, retries = self._listed(known), 0
        for each in status["observedWorkloads"]:
            if each.get("result") not in ("Successful", "Failed"):
                yield
                retries += self._tried(each, known["metadata"]["creationTimestamp"])
        if retries == 0 and status != known.get("status"):
            status["finishTime"] = text(self.world.now())
        changes = {field: value for field, value in status.items() if value != known.get("status", {}).get(field)}
        if changes:
            yield
            if not self._sent(merge_patch(REBALANCERS, KEY, {"status": changes}, "status")):
                return False
        ttl_s = known["spec"].get("ttlSecondsAfterFinished")
        if retries or (ttl_s is not None and "finishTime" not in status):
            return False
        if ttl_s == 0:
            yield
            return self._sent(delete(REBALANCERS, KEY, resource_version=known["metadata"]["resourceVersion"]))
        return True

    def catch_up(self) -> None:
        self.cached = self.world.rebalancer()

    def _listed(self, known: JSON) -> JSON:
        status, spec = known.get("status", {}), list(known["spec"]["workloads"])
        observed = status.get("observedWorkloads", [])
        kept = [dict(each) for each in observed if each["workload"] in spec or each.get("result") == "Successful"]
        have = [each["workload"] for each in kept]
        for each in spec:
            if each not in have:
                have.append(each)
                kept.append({"workload": each})
        kept.sort(key=lambda each: each["workload"]["name"])
        finish = {"finishTime": status["finishTime"]} if "finishTime" in status else {}
        return {"observedWorkloads": kept, "observedGeneration": known["metadata"]["generation"], **finish}

    def _tried(self, each: JSON, created: str) -> int:
        name = each["workload"]["name"]
        stored = self.world.api.get(binding_path(name))
        if stored is None:
            each |= {"result": "Failed", "reason": "ReferencedBindingNotFound"}
            return 0
        if stored["spec"].get("rescheduleTriggeredAt", "") < created:
            changed = merged(stored, {"spec": {"rescheduleTriggeredAt": created}})
            if not self._sent(replace(BINDINGS, ("shop", f"{name}-deployment"), changed)):
                return 1
        each["result"] = "Successful"
        return 0

    def _sent(self, request) -> bool:
        try:
            self.world.api.send(request)
        except ApiError:
            return False
        self.world.check()
        return True


marks = st.fixed_dictionaries({}, optional={name: st.sampled_from([None, EARLIER, CREATED, LATER]) for name in NAMES})
specs = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4)
steps = st.lists(st.integers(0, 3), max_size=30)


@settings(max_examples=200)
@given(specs, specs, marks, st.sampled_from([None, 0, 3600]), steps, st.booleans())
def test_however_their_writes_interleave_both_come_to_rest_and_agree(
    spec, edited, bindings, ttl_s, pace, karmada_first
):
    world = World(manifest(spec, ttl_s=ttl_s), bindings)
    pace = list(pace)
    theirs = world.karmada.reconcile()

    def advance(count: int) -> None:
        nonlocal theirs
        hook, world.api.before = world.api.before, nothing  # nothing comes between a request of theirs
        for _ in range(count):
            try:
                next(theirs)
            except StopIteration:
                theirs = world.karmada.reconcile()  # from the cache as it was: it lags behind as long as it can
        world.api.before = hook

    def between(_) -> None:
        advance(pace.pop() if pace else 0)
        world.minutes += 1

    world.api.before = between
    if karmada_first:
        advance(1)
    world.we_reconcile()
    if world.rebalancer() is not None:  # a person edits the spec in the middle of all that
        world.api.edit(NIGHT, spec={"workloads": [workload(name) for name in edited]})
    advance(len(edited))
    world.api.before = nothing

    rounds = settle(world)
    assert rounds <= 6
    stored, writes = world.rebalancer(), len(world.api.writes())
    if ttl_s == 0:
        assert stored is None
    else:
        results = {each["workload"]["name"]: each["result"] for each in stored["status"]["observedWorkloads"]}
        assert {name for name, result in results.items() if name in edited} == set(edited)
        assert all(results[name] == ("Successful" if name in bindings else "Failed") for name in edited)
        assert stored["status"]["observedGeneration"] == stored["metadata"]["generation"]
        assert "finishTime" in stored["status"]
        assert all(world.marks[name] >= text(CREATED) for name in results if results[name] == "Successful")
    settle(world)
    assert world.rebalancer() == stored
    assert len(world.api.writes()) == writes


def whole(theirs: Generator[None, None, bool]) -> bool:
    """All of a reconciliation at once; whether that was all for now."""
    while True:
        try:
            next(theirs)
        except StopIteration as stop:
            return bool(stop.value)


def settle(world: World) -> int:
    """Let both work in turns, with caches that have caught up, until neither writes; how many turns that took."""
    for turn in range(20):
        writes = len(world.api.writes())
        world.karmada.catch_up()
        done = whole(world.karmada.reconcile())
        world.look()
        if world.we_reconcile() and done and len(world.api.writes()) == writes:
            return turn
    raise AssertionError("they keep each other awake")
