"""Karmada's WorkloadRebalancer controller (karmada-semantics.md, section 4.1). The time to live is not modelled."""

from collections.abc import Callable
from datetime import datetime
from functools import partial

from karmada_model import bindings
from karmada_model.agenda import Agenda
from karmada_model.objects import Ident, News, Objects, ident, stamp
from kube_store import JSON


class RebalancerController:
    """It implements ``Controller``."""

    def __init__(self, objects: Objects, agenda: Agenda, now: Callable[[], datetime]) -> None:
        self._objects = objects
        self._agenda = agenda
        self._now = now

    def observe(self, news: News) -> None:
        if news.after is None or news.after["kind"] != "WorkloadRebalancer":
            return
        if news.before is None or news.before["spec"] != news.after["spec"]:
            which = ident(news.after)
            self._agenda.add("rebalancers", which, partial(self._rebalance, which))

    def _rebalance(self, which: Ident) -> None:
        rebalancer = self._objects.get(which)
        if rebalancer is None:
            return
        before = rebalancer.get("status", {})
        items = [self._rebalanced(item, rebalancer) for item in working_list(rebalancer)]
        status = {**before, "observedGeneration": rebalancer["metadata"]["generation"], "observedWorkloads": items}
        if status != before:
            status["finishTime"] = stamp(self._now())
            self._objects.change(which, lambda content: content.update(status=status), status=True)

    def _rebalanced(self, item: JSON, rebalancer: JSON) -> JSON:
        if item.get("result"):
            return item
        workload = item["workload"]
        namespace = workload.get("namespace", "")
        kind = "ResourceBinding" if namespace else "ClusterResourceBinding"
        name = bindings.binding_name(workload["kind"], workload["name"])
        binding = Ident(bindings.WORK, kind, namespace, name)
        if self._objects.get(binding) is None:
            return {**item, "result": "Failed", "reason": "ReferencedBindingNotFound"}
        created = rebalancer["metadata"]["creationTimestamp"]
        self._objects.change(binding, partial(_trigger, created=created))
        return {**item, "result": "Successful"}


def working_list(rebalancer: JSON) -> list[JSON]:
    left = [dict(each) for each in rebalancer["spec"]["workloads"]]
    items = []
    for item in rebalancer.get("status", {}).get("observedWorkloads", ()):
        if item["workload"] in left:
            left = [each for each in left if each != item["workload"]]
            items.append(item)
        elif item.get("result") == "Successful":
            items.append(item)
    for workload in left:
        if not any(each["workload"] == workload for each in items):
            items.append({"workload": workload})
    fields = ("apiVersion", "kind", "namespace", "name")
    return sorted(items, key=lambda item: " ".join(item["workload"].get(field, "") for field in fields))


def _trigger(binding: JSON, created: str) -> None:
    known = binding["spec"].get("rescheduleTriggeredAt")
    if known is None or datetime.fromisoformat(known) < datetime.fromisoformat(created):
        binding["spec"]["rescheduleTriggeredAt"] = created
