"""Karmada's controller reconciles the same rebalancers at the same time: no mark goes back, and both converge.

``Karmada`` models that controller after its own rules. It reads from a stale cache, replaces whole bindings guarded by
their version, and patches the changed fields of the status without a guard.
"""

import json
from collections.abc import Generator
from typing import Any

import msgspec
from fake_clock import FakeClock
from faults import nothing
from hypothesis import given, settings
from hypothesis import strategies as st
from karmada_model.rebalancer import working_list
from kube_in_memory import KubeInMemory
from kube_store import JSON, merged
from rebalancing import CREATED, EARLIER, LATER, NIGHT, binding_path, manifest, put_binding, text, workload

from berthmaster.controllers.controller import Requeue
from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.controllers.rebalancer.reconciler import REBALANCERS, RebalancerReconciler
from berthmaster.kube.requests import Collection, delete, merge_patch, replace
from berthmaster.model.errors import ApiError

BINDINGS = Collection.of("work.karmada.io/v1alpha2", "resourcebindings")
KEY = ("", "night")
NAMES = "abc"


class ControlPlane:
    """One API server, both controllers and a clock. Every write is checked."""

    def __init__(self, content: JSON, marks: dict[str, Any]) -> None:
        self.api = KubeInMemory()
        self.clock = FakeClock.at(LATER)
        self.context = ControllerContext(self.api, self.clock, self)
        self.ours = RebalancerReconciler(self.context)
        self.marks: dict[str, str] = {}
        for name, marked in marks.items():
            put_binding(self.api, name, marked=marked)
        self.api.put(NIGHT, content)
        self.karmada = Karmada(self)
        self.sync()

    def record(self, *_: object) -> None:
        pass

    def rebalancer(self) -> JSON | None:
        return self.api.get(NIGHT)

    def sync(self) -> None:
        if (stored := self.rebalancer()) is None:
            self.context.informers[REBALANCERS].delete(KEY)
        else:
            self.context.informers[REBALANCERS].put(KEY, msgspec.Raw(json.dumps(stored).encode()))

    def check(self) -> None:
        for name in NAMES:
            if stored := self.api.get(binding_path(name)):
                marked = stored["spec"].get("rescheduleTriggeredAt", "")
                assert marked >= self.marks.get(name, "")
                assert stored["spec"]["clusters"] == [{"name": "member1"}]
                self.marks[name] = marked

    def we_reconcile(self) -> bool:
        """Reconcile with our controller. Return whether nothing is left to do now."""
        try:
            again = self.ours.reconcile(KEY)
        except ApiError:
            return False
        self.check()
        return again is None or isinstance(again, Requeue)


class Karmada:
    """Karmada's controller, one request at a time."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.cached = plane.rebalancer()

    def reconcile(self) -> Generator[None, None, bool]:
        """Reconcile the cached rebalancer and stop before each write. Return whether nothing is left to do now."""
        known = self.cached
        if known is None:
            return True
        status, retries = self._listed(known), 0
        for each in status["observedWorkloads"]:
            if each.get("result") not in ("Successful", "Failed"):
                yield
                retries += self._tried(each, known["metadata"]["creationTimestamp"])
        if retries == 0 and status != known.get("status"):
            status["finishTime"] = text(self.plane.clock.now())
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
        self.cached = self.plane.rebalancer()

    def _listed(self, known: JSON) -> JSON:
        status, kept = known.get("status", {}), [dict(each) for each in working_list(known)]
        finish = {"finishTime": status["finishTime"]} if "finishTime" in status else {}
        return {"observedWorkloads": kept, "observedGeneration": known["metadata"]["generation"], **finish}

    def _tried(self, each: JSON, created: str) -> int:
        name = each["workload"]["name"]
        stored = self.plane.api.get(binding_path(name))
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
            self.plane.api.send(request)
        except ApiError:
            return False
        self.plane.check()
        return True


marks = st.fixed_dictionaries({}, optional={name: st.sampled_from([None, EARLIER, CREATED, LATER]) for name in NAMES})
specs = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4)
steps = st.lists(st.integers(0, 3), max_size=30)


@settings(max_examples=200)
@given(specs, specs, marks, st.sampled_from([None, 0, 3600]), steps, st.booleans())
def test_both_controllers_converge_for_every_interleaving(spec, edited, bindings, ttl_s, pace, karmada_first):
    plane = ControlPlane(manifest(spec, ttl_s=ttl_s), bindings)
    pace = list(pace)
    theirs = plane.karmada.reconcile()

    def advance(count: int) -> None:
        nonlocal theirs
        hook, plane.api.before = plane.api.before, nothing  # no other request comes between theirs
        for _ in range(count):
            try:
                next(theirs)
            except StopIteration:
                theirs = plane.karmada.reconcile()  # the cache stays stale
        plane.api.before = hook

    def between(_) -> None:
        advance(pace.pop() if pace else 0)
        plane.clock.skew_s += 60

    plane.api.before = between
    if karmada_first:
        advance(1)
    plane.we_reconcile()
    if plane.rebalancer() is not None:  # a user edits the spec in the meantime
        plane.api.edit(NIGHT, spec={"workloads": [workload(name) for name in edited]})
    advance(len(edited))
    plane.api.before = nothing

    rounds = settle(plane)
    assert rounds <= 6
    stored, writes = plane.rebalancer(), len(plane.api.writes())
    if ttl_s == 0:
        assert stored is None
    else:
        results = {each["workload"]["name"]: each["result"] for each in stored["status"]["observedWorkloads"]}
        assert {name for name, result in results.items() if name in edited} == set(edited)
        assert all(results[name] == ("Successful" if name in bindings else "Failed") for name in edited)
        assert stored["status"]["observedGeneration"] == stored["metadata"]["generation"]
        assert "finishTime" in stored["status"]
        assert all(plane.marks[name] >= text(CREATED) for name in results if results[name] == "Successful")
    settle(plane)
    assert plane.rebalancer() == stored
    assert len(plane.api.writes()) == writes


def whole(theirs: Generator[None, None, bool]) -> bool:
    """Run a whole reconciliation. Return whether nothing is left to do now."""
    while True:
        try:
            next(theirs)
        except StopIteration as stop:
            return bool(stop.value)


def settle(plane: ControlPlane) -> int:
    """Let both reconcile alternately with current caches until neither writes. Return the number of rounds."""
    for number in range(20):
        writes = len(plane.api.writes())
        plane.karmada.catch_up()
        done = whole(plane.karmada.reconcile())
        plane.sync()
        if plane.we_reconcile() and done and len(plane.api.writes()) == writes:
            return number
    raise AssertionError("the controllers do not converge")
