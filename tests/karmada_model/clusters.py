"""Karmada's cluster controller: taints by the condition Ready, and the deletion of a cluster.

Source: karmada-moves.md, "Health" and "The detector and policies"; ``pkg/controllers/cluster``.
"""

from functools import partial
from typing import Final

from karmada_model import bindings
from karmada_model.agenda import Agenda
from karmada_model.objects import Ident, News, Objects, ident
from karmada_model.works import EXECUTION, cluster_of
from kube_store import JSON

FINALIZER: Final = "karmada.io/cluster-controller"
CHECK_S: Final = 5.0
_TAINTS: Final = {"False": "cluster.karmada.io/not-ready", "Unknown": "cluster.karmada.io/unreachable"}


class ClusterController:
    """It implements ``Controller``."""

    def __init__(self, objects: Objects, agenda: Agenda) -> None:
        self._objects = objects
        self._agenda = agenda

    def observe(self, news: News) -> None:
        if news.after is not None and news.after["kind"] == "Cluster":
            which = ident(news.after)
            self._agenda.add("clusters", which, partial(self._cluster, which))

    def _cluster(self, which: Ident) -> None:
        cluster = self._objects.get(which)
        if cluster is None:
            return
        if "deletionTimestamp" not in cluster["metadata"]:
            self._objects.change(which, _set_taints)
            self._objects.change(which, _add_finalizer)
            return
        works = [each for each in self._objects.all("Work") if cluster_of(each) == which.name]
        for work in works:
            self._objects.delete(ident(work))
            if _ready(cluster) != "True":
                self._objects.change(ident(work), _abandon)
        if works or self._is_target(which.name):
            self._agenda.add_after(CHECK_S, "clusters", which, partial(self._cluster, which))
        else:
            self._objects.change(which, lambda content: content["metadata"].pop("finalizers", None))

    def _is_target(self, name: str) -> bool:
        return any(
            each["name"] == name
            for kind in bindings.PERMANENT_ID
            for binding in self._objects.all(kind)
            for each in binding["spec"].get("clusters") or ()
        )


def _ready(cluster: JSON) -> str:
    conditions = cluster.get("status", {}).get("conditions") or ()
    return next((str(each["status"]) for each in conditions if each["type"] == "Ready"), "False")


def _set_taints(cluster: JSON) -> None:
    """Set the one taint that fits the condition, and remove the other. Foreign taints stay."""
    wanted = _TAINTS.get(_ready(cluster))
    taints = cluster.get("spec", {}).get("taints") or []
    kept = [
        each
        for each in taints
        if each["key"] not in _TAINTS.values() or each["key"] == wanted or each["effect"] != "NoSchedule"
    ]
    if wanted is not None and not any(each["key"] == wanted and each["effect"] == "NoSchedule" for each in kept):
        kept.append({"key": wanted, "effect": "NoSchedule"})
    if kept != taints:
        cluster.setdefault("spec", {})["taints"] = kept
        if not kept:
            del cluster["spec"]["taints"]


def _add_finalizer(cluster: JSON) -> None:
    finalizers = cluster["metadata"].setdefault("finalizers", [])
    if FINALIZER not in finalizers:
        finalizers.append(FINALIZER)


def _abandon(work: JSON) -> None:
    work["metadata"]["finalizers"] = [each for each in work["metadata"].get("finalizers", ()) if each != EXECUTION]
