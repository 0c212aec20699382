"""Karmada's deployment-replicas-syncer: from what members run to the replicas of a template.

It is off in Karmada unless ``--controllers`` names it. It serves Deployments that a HorizontalPodAutoscaler scales in
the members. The status of the template is not modelled: it is the sum of what the binding reports.
"""

from functools import partial
from typing import Final

from karmada_model.agenda import Agenda
from karmada_model.objects import Ident, News, Objects, ident
from kube_store import JSON

RETAINED: Final = {"resourcetemplate.karmada.io/retain-replicas": "true"}
"""The label of the Deployments that it serves."""


class ReplicasSyncer:
    """It implements ``Controller``."""

    def __init__(self, objects: Objects, agenda: Agenda) -> None:
        self._objects = objects
        self._agenda = agenda

    def observe(self, news: News) -> None:
        after = news.after
        if after is not None and after["kind"] == "ResourceBinding":
            which = ident(after)
            self._agenda.add("replicas", which, partial(self._binding, which))

    def _binding(self, which: Ident) -> None:
        binding = self._objects.get(which)
        template = self._objects.get(ident(binding["spec"]["resource"])) if binding is not None else None
        if binding is None or template is None or not _serves(template, binding):
            return
        replicas = reported_replicas(binding)
        if replicas is not None and template["spec"]["replicas"] == binding["spec"].get("replicas", 0):
            self._objects.change(ident(template), lambda content: content["spec"].update(replicas=replicas))


def reported_replicas(binding: JSON) -> int | None:
    """Return the sum of what all clusters of an assignment report; None if they have not reported it yet."""
    status = binding.get("status", {})
    items = status.get("aggregatedStatus") or ()
    if status.get("schedulerObservedGeneration", 0) != binding["metadata"]["generation"]:
        return None
    if len(items) != len(binding["spec"].get("clusters") or ()):
        return None
    counts = [each.get("status", {}).get("replicas", 0) for each in items]
    return sum(counts) if all(counts) else None


def _serves(template: JSON, binding: JSON) -> bool:
    division = binding["spec"].get("placement", {}).get("replicaScheduling", {})
    labels = template["metadata"].get("labels") or {}
    divided = division.get("replicaSchedulingType") == "Divided"
    return template["kind"] == "Deployment" and divided and RETAINED.items() <= labels.items()
