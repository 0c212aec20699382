"""Where decisions are made: the fleet, what is on its way to it, and one lock around both.

A decision takes some tens of microseconds and Python runs one thread at a time anyway, so that one lock costs less than
any cleverness; what takes long, the writes, happens outside.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from berthmaster.controllers.binding_scheduler import words
from berthmaster.controllers.binding_scheduler.assumptions import Assumptions
from berthmaster.controllers.binding_scheduler.failover import FailoverOptions, Replacement, eviction_tasks, replacement
from berthmaster.controllers.binding_scheduler.loads import Load
from berthmaster.controllers.binding_scheduler.plan import (
    REASONS,
    SUCCESS,
    Verdict,
    assignment_write,
    effective,
    targets,
)
from berthmaster.controllers.binding_scheduler.step import Step, as_it_was, fits_nowhere
from berthmaster.controllers.estimators.bounds import Question, question_of
from berthmaster.kube.requests import Key
from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.placement import Placement
from berthmaster.runtime.clock import Clock
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.trigger import Trigger, trigger_of
from berthmaster.scheduling.profile import Profile
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler


class Desk:
    """Decides. Safe for several threads.

    With ``ask``, what estimators inside members say bounds decisions; it may wait for them, and must not fail.
    """

    def __init__(
        self,
        profile: Profile,
        clock: Clock,
        failover: FailoverOptions,
        ask: Callable[[Question], Mapping[str, int]] | None = None,
    ) -> None:
        self._lock = threading.Lock()
        self._scheduler = Scheduler(Fleet(), profile)
        self._assumptions = Assumptions()
        self._clock = clock
        self._failover = failover
        self._ask = ask
        self._unready_since_s: dict[str, float] = {}
        self._unsure: dict[Key, Step] = {}
        self._freed: set[str] = set()

    def cluster_changed(self, cluster: Cluster) -> None:
        """A cluster is new, or has changed."""
        with self._lock:
            self._scheduler.fleet.apply(self._assumptions.cluster_changed(cluster))
            if cluster.ready:
                self._unready_since_s.pop(cluster.name, None)
            else:
                self._unready_since_s.setdefault(cluster.name, self._clock.monotonic_s())

    def cluster_gone(self, name: str) -> None:
        """A cluster is not there any more."""
        with self._lock:
            self._scheduler.fleet.remove(name)
            self._assumptions.cluster_gone(name)
            self._unready_since_s.pop(name, None)

    def placed(self, binding: Binding) -> None:
        """A binding is assigned as it says: its peers keep with it, or apart from it."""
        if binding.spec.workload_affinity_groups is not None:
            with self._lock:
                self._scheduler.peers.place(Request.of(binding), targets(binding))

    def assigned(self, key: Key, before: Binding | None, after: Binding) -> None:
        """A binding of ours is heard to be assigned: by us, or by the process that led before this one.

        What it was given counts as on its way unless it does already. Of a binding that is new here that is what no
        cluster has reported of yet; it does not need to be known when, or by whose clock, it was assigned.
        """
        if before is not None and before.spec.clusters == after.spec.clusters:
            return
        request = Request.of(after)
        if not request.divides_replicas:
            return
        shown = targets(before) if before is not None else _reported(after)
        added = {name: replicas - shown.get(name, 0) for name, replicas in request.current.items()}
        with self._lock:
            self._see(self._assumptions.adopt(key, added, request.requests, self._clock.monotonic_s()))

    def moved(self, key: Key, before: Binding, after: Binding) -> None:
        """A binding was moved by somebody else: nothing is on its way any more to where it is not assigned now."""
        self.arrived(key, targets(before).keys() - targets(after).keys())

    def arrived(self, key: Key, clusters: Iterable[str]) -> None:
        """A binding's replicas run on these clusters: they show in the clusters' numbers from now on."""
        names = list(clusters)
        with self._lock:
            self._free(self._assumptions.release(key, names))
            if (step := self._unsure.get(key)) is not None and step.assumed_before:
                left = {name: load for name, load in step.assumed_before.items() if name not in names}
                self._unsure[key] = replace(step, assumed_before=left)

    def gone(self, key: Key, binding: Binding) -> None:
        """A binding is not there any more."""
        with self._lock:
            self._unsure.pop(key, None)
            self._free(self._assumptions.release(key))
            self._scheduler.peers.place(Request.of(binding), ())

    def unsure(self, key: Key, step: Step) -> None:
        """What was decided was not written, or its answer was lost; it counts until ``settle`` sees which of the two.

        To give its room away meanwhile would give it away twice if the API server did carry the write out.
        """
        if step.clusters is not None:
            with self._lock:
                self._unsure[key] = step

    def settle(self, key: Key, binding: Binding | None) -> None:
        """A binding is as it is (None for gone): what was decided for it and is not so, counts no more."""
        with self._lock:
            if binding is not None and key not in self._unsure:
                self._free(self._assumptions.trim(key, targets(binding)))
            step = self._unsure.pop(key, None)
            if step is None:
                return
            if binding is None or binding.metadata.uid != step.binding.metadata.uid:
                self._free(self._assumptions.release(key))
            elif targets(binding) == step.clusters:
                return
            elif step.assumed_before is not None:
                self._free(self._assumptions.restore(key, step.assumed_before))
            self._scheduler.peers.place(Request.of(binding or step.binding), targets(binding) if binding else ())

    def expire(self) -> None:
        """Forget assumptions that are too old."""
        with self._lock:
            self._free(self._assumptions.expire(self._clock.monotonic_s()))

    def freed(self) -> set[str]:
        """The clusters on which room that was held was given up since this was asked last."""
        with self._lock:
            freed, self._freed = self._freed, set()
            return freed

    def assumptions(self) -> int:
        """How many assumptions there are."""
        with self._lock:
            return len(self._assumptions)

    def could_go_to(self, placement: Placement, clusters: Iterable[str]) -> bool:
        """Whether any of these clusters is in any of a placement's groups, or in the overflow of one."""
        with self._lock:
            fleet = self._scheduler.fleet
            rows = [fleet.row_of[name] for name in clusters if name in fleet.row_of]
            return any(
                affinity is None or bool(affinity.current()[rows].any())
                for group in self._scheduler.compile(placement).groups
                for affinity in (group.own, *(group.overflow or ()))
            )

    def decide(self, key: Key, binding: Binding) -> Step:
        """What is to be done for a binding with a placement."""
        binding = effective(binding)
        request = self._bounded(binding)
        with self._lock:
            request = self._less_assumed(request)
            lost, again_s = self._lost(binding)
            warning = ""
            if lost:
                found = replacement(self._scheduler, request, lost)
                if isinstance(found, Replacement):
                    return self._replace(key, binding, request, found)
                warning = f"stays on {', '.join(sorted(lost))}, which is not ready: {found}"
            trigger = self._trigger(binding)
            if trigger is Trigger.NONE:
                return Step(trigger, binding, as_it_was(binding), warning=warning, again_s=again_s)
            return self._schedule(key, binding, request, trigger, warning, again_s)

    def _trigger(self, binding: Binding) -> Trigger:
        """Why a binding has to be scheduled: in two cases more than Karmada's, which would never be looked at again.

        What fits nowhere is tried even where there is nothing to place. And a cluster that is gone is left, although
        nobody may have seen how it began to be deleted; not so if all are gone, which is more likely a fault.
        """
        fleet = self._scheduler.fleet
        trigger = trigger_of(binding, fleet)
        if trigger is not Trigger.NONE:
            return trigger
        if fits_nowhere(binding):
            return Trigger.RECONCILE
        gone = len(fleet) > 0 and any(fleet.get(each.name) is None for each in binding.spec.clusters)
        return Trigger.FAILOVER if gone else Trigger.NONE

    def _bounded(self, binding: Binding) -> Request:
        """What a binding asks, with what estimators say to it; nothing is locked while they think."""
        request = Request.of(binding)
        if self._ask is None:
            return request
        with self._lock:
            lost, _ = self._lost(binding)
            if not lost and self._trigger(binding) is Trigger.NONE:
                return request
            question = question_of(self._scheduler, request, binding.spec)
        return request if question is None else replace(request, bounds=self._ask(question))

    def _less_assumed(self, request: Request) -> Request:
        """The same with what is on its way deducted from what estimators say, for they do not see it yet."""
        if not request.bounds:
            return request
        left = {name: bound - self._assumptions.held(name, request.requests) for name, bound in request.bounds.items()}
        return replace(request, bounds={name: max(0, bound) for name, bound in left.items()})

    def _schedule(
        self, key: Key, binding: Binding, request: Request, trigger: Trigger, warning: str, again_s: float | None
    ) -> Step:
        decision = self._scheduler.schedule(request)
        if decision.failure is not None:
            verdict = Verdict(REASONS[decision.failure.kind], words.failure(self._scheduler, request, decision))
            if not decision.clears_assignment:
                return Step(trigger, binding, verdict, warning=warning, again_s=again_s)
            write = assignment_write(binding, request.placement, {}, "")
            before = self._assume(key, request, {})
            return Step(
                trigger, binding, verdict, write, warning=warning, again_s=again_s, assumed_before=before, clusters={}
            )
        group = decision.group or ""
        write = assignment_write(binding, request.placement, decision.assignment, group)
        return Step(
            trigger,
            binding,
            Verdict(SUCCESS, words.success(decision), group),
            write,
            write is not None or binding.reschedule_requested,
            warning,
            self._unready_in_s(decision.assignment, but=binding) if write is not None else again_s,
            self._assume(key, request, decision.assignment),
            decision.assignment,
        )

    def _replace(self, key: Key, binding: Binding, request: Request, found: Replacement) -> Step:
        tasks = eviction_tasks(binding, found, self._failover.producer)
        message = f"scheduled to {words.assignment(found.clusters)} in place of {', '.join(found.left)}, not ready"
        requested = binding.reschedule_requested  # what is healthy was kept: it is still to be done
        return Step(
            Trigger.FAILOVER,
            binding,
            Verdict(SUCCESS, message, found.group),
            assignment_write(binding, request.placement, found.clusters, found.group, tasks),
            refresh=not requested,
            again_s=0.0 if requested else self._unready_in_s(found.clusters, but=binding),
            assumed_before=self._assume(key, request, found.clusters),
            clusters=found.clusters,
        )

    def _assume(self, key: Key, request: Request, clusters: Mapping[str, int]) -> Mapping[str, Load] | None:
        """Count what an assignment adds; what was counted before, or None if this one counts for nothing."""
        if request.affinity_group or request.anti_affinity_group:
            self._scheduler.peers.place(request, clusters)
        if not request.divides_replicas:
            return None
        before = self._assumptions.of(key)
        now_s = self._clock.monotonic_s()
        self._see(self._assumptions.assume(key, request.current, clusters, request.requests, now_s))
        self._freed.update(
            name for name, load in before.items() if clusters.get(name, 0) < request.current.get(name, 0)
        )
        return before

    def _lost(self, binding: Binding) -> tuple[frozenset[str], float | None]:
        """The assigned clusters that were not ready for too long; in how many seconds the next one will be."""
        waits_s = self._waits_s(each.name for each in binding.spec.clusters)
        lost = frozenset(name for name, wait_s in waits_s.items() if wait_s <= 0)
        return lost, min((wait_s for wait_s in waits_s.values() if wait_s > 0), default=None)

    def _unready_in_s(self, clusters: Iterable[str], *, but: Binding) -> float | None:
        """In how many seconds one of the clusters that a binding goes to will be lost, or at once; None for never.

        One that it was on, and that is lost already, cannot be replaced: it is waited for in another way.
        """
        lost, _ = self._lost(but)
        waits_s = self._waits_s(name for name in clusters if name not in lost)
        return max(0.0, min(waits_s.values())) if waits_s else None

    def _waits_s(self, clusters: Iterable[str]) -> dict[str, float]:
        """In how many seconds those of the clusters that are not ready will be lost; not above 0 if they are."""
        after_s, since_s = self._failover.after_s, self._unready_since_s
        if after_s is None or not since_s:
            return {}
        now_s = self._clock.monotonic_s()
        return {name: since_s[name] + after_s - now_s for name in clusters if name in since_s}

    def _free(self, clusters: Iterable[Cluster]) -> None:
        for cluster in clusters:
            self._freed.add(cluster.name)
            self._scheduler.fleet.apply(cluster)

    def _see(self, clusters: Iterable[Cluster]) -> None:
        for cluster in clusters:
            self._scheduler.fleet.apply(cluster)


def _reported(binding: Binding) -> dict[str, int]:
    """The replicas on clusters that have reported of the workload: they show in the clusters' numbers."""
    reported = {each.cluster_name for each in binding.status.aggregated_status}
    return {target.name: target.replicas for target in binding.spec.clusters if target.name in reported}
