"""Karmada's graceful eviction controllers (karmada-moves.md, "Tasks"), and the eviction of a cluster by its clients."""

from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from karmada_model import bindings
from karmada_model.agenda import Agenda
from karmada_model.objects import Ident, News, Objects, ident, stamp
from kube_store import JSON

TIMEOUT_S: Final = 600.0


class EvictionController:
    """It implements ``Controller``.

    Args:
        objects: what it reads and writes.
        agenda: where it queues its tasks.
        now: the time of day.
        timeout_s: ``--graceful-eviction-timeout``.
    """

    def __init__(self, objects: Objects, agenda: Agenda, now: Any, timeout_s: float = TIMEOUT_S) -> None:
        self._objects = objects
        self._agenda = agenda
        self._now = now
        self._timeout_s = timeout_s

    def observe(self, news: News) -> None:
        after = news.after
        if after is not None and after["kind"] in bindings.PERMANENT_ID and after["spec"].get("gracefulEvictionTasks"):
            which = ident(after)
            self._agenda.add("evictions", which, partial(self._binding, which))

    def _binding(self, which: Ident) -> None:
        binding = self._objects.get(which)
        if binding is None or "deletionTimestamp" in binding["metadata"]:
            return
        now = self._now()
        kept = assessed(binding, now, self._timeout_s)
        if kept != (binding["spec"].get("gracefulEvictionTasks") or []):
            self._objects.change(which, partial(_set_tasks, tasks=kept))
        timed = [each for each in kept if each.get("suppressDeletion") is None]
        if timed:
            wait_s = min((_ends(each, self._timeout_s) - now).total_seconds() for each in timed)
            self._agenda.add_after(max(wait_s, 0.0) + 1.0, "evictions", which, partial(self._binding, which))


def assessed(binding: JSON, now: datetime, timeout_s: float = TIMEOUT_S) -> list[JSON]:
    kept: list[JSON] = []
    for task in binding["spec"].get("gracefulEvictionTasks") or ():
        if not task.get("creationTimestamp"):
            kept.append({**task, "creationTimestamp": stamp(now)})
        elif _stays(task, binding, now, timeout_s):
            kept.append(task)
    return kept


def evict(binding: JSON, cluster: str, **task: Any) -> None:
    """Move a cluster of the assignment to an eviction task, as ``GracefulEvictCluster`` does (3.8)."""
    spec = binding["spec"]
    found = next((each for each in spec.get("clusters") or () if each["name"] == cluster), None)
    if found is None:
        return
    spec["clusters"] = [each for each in spec["clusters"] if each["name"] != cluster]
    tasks = spec.setdefault("gracefulEvictionTasks", [])
    if not any(each["fromCluster"] == cluster for each in tasks):
        replicas = {"replicas": found["replicas"]} if found.get("replicas") else {}
        tasks.append(
            {
                "fromCluster": cluster,
                "reason": "TaintUntolerated",
                "producer": "TaintManager",
                "purgeMode": "Gracefully",
                **replicas,
                **task,
            }
        )


def healthy_everywhere(binding: JSON) -> bool:
    reported = {
        each["clusterName"]: each.get("health") for each in binding.get("status", {}).get("aggregatedStatus", ())
    }
    return all(reported.get(each["name"]) == "Healthy" for each in binding["spec"].get("clusters") or ())


def _stays(task: JSON, binding: JSON, now: datetime, timeout_s: float) -> bool:
    if task.get("suppressDeletion") is not None:
        return bool(task["suppressDeletion"])
    if now > _ends(task, timeout_s):
        return False
    observed = binding.get("status", {}).get("schedulerObservedGeneration", 0)
    return not (observed == binding["metadata"]["generation"] and healthy_everywhere(binding))


def _ends(task: JSON, timeout_s: float) -> datetime:
    seconds = task["gracePeriodSeconds"] if task.get("gracePeriodSeconds") is not None else timeout_s
    return datetime.fromisoformat(task["creationTimestamp"]) + timedelta(seconds=seconds)


def _set_tasks(binding: JSON, tasks: list[JSON]) -> None:
    if tasks:
        binding["spec"]["gracefulEvictionTasks"] = tasks
    else:
        del binding["spec"]["gracefulEvictionTasks"]
