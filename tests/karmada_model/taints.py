"""Karmada's taint manager: evictions by NoExecute taints (``pkg/controllers/cluster/taint_manager.go``).

It runs only with the gate ``Failover`` and ``--enable-no-execute-taint-eviction``, which are both off by default.
"""

import json
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from karmada_model import bindings
from karmada_model.agenda import Agenda
from karmada_model.evictions import evict
from karmada_model.objects import Ident, News, Objects, ident
from kube_store import JSON

_RETRY_S: Final = 10.0
_APPLIED: Final = "policy.karmada.io/applied-placement"


class TaintManager:
    """It implements ``Controller``. A cluster with NoExecute taints is looked at again every few seconds.

    Args:
        objects: what it reads and writes.
        agenda: where it queues its tasks.
        now: the time of day.
        enabled: whether eviction is on.
    """

    def __init__(self, objects: Objects, agenda: Agenda, now: Any, *, enabled: bool) -> None:
        self._objects = objects
        self._agenda = agenda
        self._now = now
        self._enabled = enabled

    def observe(self, news: News) -> None:
        if self._enabled and news.after is not None and news.after["kind"] == "Cluster":
            which = ident(news.after)
            self._agenda.add("taints", which, partial(self._cluster, which))

    def _cluster(self, which: Ident) -> None:
        cluster = self._objects.get(which)
        taints = [each for each in _taints(cluster) if each["effect"] == "NoExecute"]
        if not taints:
            return
        for kind in bindings.PERMANENT_ID:
            for binding in self._objects.all(kind):
                assigned = any(each["name"] == which.name for each in binding["spec"].get("clusters") or ())
                if assigned and "deletionTimestamp" not in binding["metadata"] and self._evicts(binding, taints):
                    self._objects.change(ident(binding), partial(evict, cluster=which.name))
        self._agenda.add_after(_RETRY_S, "taints", which, partial(self._cluster, which))

    def _evicts(self, binding: JSON, taints: list[JSON]) -> bool:
        applied = binding["metadata"].get("annotations", {}).get(_APPLIED)
        if not applied:
            return False
        given = json.loads(applied).get("clusterTolerations") or ()
        used = [next((each for each in given if _tolerates(each, taint)), None) for taint in taints]
        if None in used:
            return True
        ends = [
            datetime.fromisoformat(taint["timeAdded"]) + timedelta(seconds=each["tolerationSeconds"])
            for each in used
            for taint in taints
            if each is not None and each.get("tolerationSeconds") is not None and _tolerates(each, taint)
        ]
        return bool(ends) and min(ends) <= self._now()


def _taints(cluster: JSON | None) -> list[JSON]:
    return list((cluster or {}).get("spec", {}).get("taints") or ())


def _tolerates(toleration: JSON, taint: JSON) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    return toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", "")
