"""Karmada's status controllers: from the status of Works to the status of a binding (karmada-moves.md, "Health")."""

from collections.abc import Callable
from datetime import datetime
from functools import partial

from karmada_model import bindings
from karmada_model.agenda import Agenda
from karmada_model.objects import Ident, News, Objects, ident, stamp
from karmada_model.works import WorkIndex, cluster_of, kept_clusters
from kube_store import JSON


class StatusController:
    """It implements ``Controller``.

    Args:
        objects: what it reads and writes.
        agenda: where it queues its tasks.
        works: knows the Works of a binding.
        now: the time of day.
        delay_s: until a changed status of a Work is in the status of its binding.
    """

    def __init__(
        self,
        objects: Objects,
        agenda: Agenda,
        works: WorkIndex,
        now: Callable[[], datetime],
        delay_s: float = 0.0,
    ) -> None:
        self._objects = objects
        self._agenda = agenda
        self._works = works
        self._now = now
        self._delay_s = delay_s

    def observe(self, news: News) -> None:
        before, after = news
        kind = news.latest["kind"]
        if kind == "Work":
            # A new Work has no status yet.
            if after is None or (before is not None and before.get("status") != after.get("status")):
                self._queue(_binding_of(news.latest))
        elif (
            kind in bindings.PERMANENT_ID
            and after is not None
            and after.get("status", {}).get("lastScheduledTime")
            # A new assignment alone collects nothing, so an old entry can stay (karmada ``bindingPredicateFn``).
            and (before is None or _template_of(before) != _template_of(after))
        ):
            self._queue(ident(after))

    def restart(self) -> None:
        """Report nothing of any binding until the Works were looked at again, as after a start of the controllers."""
        for kind in bindings.PERMANENT_ID:
            for binding in list(self._objects.all(kind)):
                at = stamp(self._now())
                self._objects.change(ident(binding), partial(_set_status, items=[], complete=False, at=at), status=True)
                self._queue(ident(binding))

    def _queue(self, which: Ident) -> None:
        run = partial(self._binding, which)
        if self._delay_s:
            self._agenda.add_after(self._delay_s, "statuses", which, run)
        else:
            self._agenda.add("statuses", which, run)

    def _binding(self, which: Ident) -> None:
        binding = self._objects.get(which)
        if binding is None or "deletionTimestamp" in binding["metadata"]:
            return
        works = [each for each in self._works.of(binding) if "deletionTimestamp" not in each["metadata"]]
        items = sorted(map(_item, works), key=lambda item: str(item["clusterName"]))
        applied = {item["clusterName"] for item in items if item.get("applied")}
        complete = bool(items) and applied == kept_clusters(binding) and len(applied) == len(items)
        at = stamp(self._now())
        self._objects.change(which, partial(_set_status, items=items, complete=complete, at=at), status=True)


def _template_of(binding: JSON) -> str:
    return str(binding["spec"]["resource"].get("resourceVersion", ""))


def _binding_of(work: JSON) -> Ident:
    annotations = work["metadata"]["annotations"]
    for kind in bindings.PERMANENT_ID:
        name = annotations.get(f"{kind.lower()}.karmada.io/name")
        if name is not None:
            return Ident(bindings.WORK, kind, annotations.get(f"{kind.lower()}.karmada.io/namespace", ""), name)
    raise AssertionError(f"{work['metadata']['name']} names no binding")


def _item(work: JSON) -> JSON:
    status = work.get("status", {})
    condition = next((each for each in status.get("conditions", ()) if each["type"] == "Applied"), {})
    item: JSON = {"clusterName": cluster_of(work), "health": "Unknown"}
    if condition.get("status") != "True":
        return {**item, **({"appliedMessage": condition["message"]} if condition.get("message") else {})}
    item["applied"] = True
    for entry in status.get("manifestStatuses", ()):
        item["health"] = entry.get("health", "")
        if "status" in entry:
            item["status"] = entry["status"]
    return item


def _set_status(binding: JSON, items: list[JSON], *, complete: bool, at: str) -> None:
    status = binding.setdefault("status", {})
    if items or "aggregatedStatus" in status:
        status["aggregatedStatus"] = items
    conditions = status.setdefault("conditions", [])
    wanted = "True" if complete else "False"
    known = next((each for each in conditions if each["type"] == "FullyApplied"), None)
    if known is None:
        conditions.append({"type": "FullyApplied", "reason": "Played", "message": "", "lastTransitionTime": at})
        known = conditions[-1]
    elif known["status"] != wanted:
        known["lastTransitionTime"] = at
    known["status"] = wanted
    known["reason"] = "FullyAppliedSuccess" if complete else "FullyAppliedFailed"
