"""Karmada's dependencies distributor: what a workload needs follows it (``pkg/dependenciesdistributor``).

A binding with ``propagateDeps`` lists what its workload needs in an annotation, and stands in ``requiredBy`` of the
binding of each of these resources. Dependencies by labels are not modelled.
"""

import json
import zlib
from functools import partial
from typing import Final

from karmada_model import bindings
from karmada_model.agenda import Agenda
from karmada_model.detector import binding_of, is_template
from karmada_model.objects import Ident, News, Objects, ident
from karmada_model.works import binding_id
from kube_store import JSON

from berthmaster.model.dependencies import DEPENDENCIES, dependencies_of

FINALIZER: Final = "karmada.io/dependencies-distributor"
DEPENDED_BY: Final = "resourcebinding.karmada.io/depended-by-"


class DependenciesDistributor:
    """It implements ``Controller``."""

    def __init__(self, objects: Objects, agenda: Agenda) -> None:
        self._objects = objects
        self._agenda = agenda

    def observe(self, news: News) -> None:
        after = news.after
        if after is None:
            return
        if after["kind"] == "ResourceBinding":
            before = news.before
            if before is not None and before["metadata"]["generation"] == after["metadata"]["generation"]:
                return
            wants = any(each is not None and each["spec"].get("propagateDeps") for each in news)
            if wants and (before is not None or after["spec"].get("clusters")):
                self._queue(ident(after))
        elif news.before is None and is_template(after):
            for binding in self._objects.all("ResourceBinding"):
                if _lists(binding, after):
                    self._queue(ident(binding))

    def _queue(self, which: Ident) -> None:
        self._agenda.add("dependencies", which, partial(self._binding, which))

    def _binding(self, which: Ident) -> None:
        binding = self._objects.get(which)
        if binding is None:
            return
        if not binding["spec"].get("propagateDeps") or "deletionTimestamp" in binding["metadata"]:
            self._detach(binding, keep=set())
            self._objects.change(which, _remove_finalizer)
            return
        template = self._objects.get(ident(binding["spec"]["resource"]))
        found = dependencies_of(template) if template is not None else None
        if found is None:
            return
        named = [
            {"apiVersion": each.api_version, "kind": each.kind, "namespace": each.namespace, "name": each.name}
            for each in found
        ]
        self._objects.change(which, partial(_record, dependencies=named))
        latest = self._objects.get(which) or binding
        self._detach(latest, keep={ident(each) for each in named})
        for each in named:
            needed = self._objects.get(ident(each))
            if needed is not None:
                self._attach(latest, needed)

    def _attach(self, binding: JSON, needed: JSON) -> None:
        which, snapshot = binding_of(needed), _snapshot(binding)
        label = {_label(binding): binding_id(binding)}
        if self._objects.get(which) is None:
            self._objects.create(_attached(needed, label, snapshot))
        else:
            self._objects.change(which, partial(_require, label=label, snapshot=snapshot))

    def _detach(self, binding: JSON, keep: set[Ident]) -> None:
        """Take a binding out of what it does not need any more."""
        label = _label(binding)
        for attached in self._objects.all("ResourceBinding"):
            if label in attached["metadata"].get("labels", {}) and ident(attached["spec"]["resource"]) not in keep:
                self._objects.change(ident(attached), partial(_release, binding=binding))


def _label(binding: JSON) -> str:
    name = f"{binding['metadata']['namespace']}/{binding['metadata']['name']}"
    return f"{DEPENDED_BY}{zlib.crc32(name.encode()):08x}"


def _snapshot(binding: JSON) -> JSON:
    metadata = binding["metadata"]
    clusters = binding["spec"].get("clusters") or []
    return {"namespace": metadata["namespace"], "name": metadata["name"], "clusters": clusters}


def _lists(binding: JSON, template: JSON) -> bool:
    recorded = binding["metadata"].get("annotations", {}).get(DEPENDENCIES)
    return recorded is not None and any(ident(each) == ident(template) for each in json.loads(recorded) or ())


def _attached(needed: JSON, label: dict[str, str], snapshot: JSON) -> JSON:
    built = bindings.build(needed, _NO_POLICY)
    metadata, spec = built["metadata"], built["spec"]
    labels = {bindings.PERMANENT_ID["ResourceBinding"]: binding_id(built), **label}
    kept = {field: metadata[field] for field in ("name", "namespace", "finalizers", "ownerReferences")}
    metadata = {**kept, "labels": labels}
    return {**built, "metadata": metadata, "spec": {"resource": spec["resource"], "requiredBy": [snapshot]}}


_NO_POLICY: Final[JSON] = {"kind": "PropagationPolicy", "metadata": {"name": "", "namespace": ""}, "spec": {}}


def _record(binding: JSON, dependencies: list[JSON]) -> None:
    finalizers = binding["metadata"].setdefault("finalizers", [])
    if FINALIZER not in finalizers:
        finalizers.append(FINALIZER)
    text = json.dumps(dependencies, separators=(",", ":")) if dependencies else "null"
    binding["metadata"].setdefault("annotations", {})[DEPENDENCIES] = text


def _require(attached: JSON, label: dict[str, str], snapshot: JSON) -> None:
    attached["metadata"].setdefault("labels", {}).update(label)
    required_by = attached["spec"].setdefault("requiredBy", [])
    for number, each in enumerate(required_by):
        if (each["namespace"], each["name"]) == (snapshot["namespace"], snapshot["name"]):
            required_by[number] = snapshot
            return
    required_by.append(snapshot)


def _release(attached: JSON, binding: JSON) -> None:
    attached["metadata"]["labels"].pop(_label(binding), None)
    gone = binding["metadata"]["namespace"], binding["metadata"]["name"]
    kept = [each for each in attached["spec"].get("requiredBy") or () if (each["namespace"], each["name"]) != gone]
    if kept:
        attached["spec"]["requiredBy"] = kept
    else:
        attached["spec"].pop("requiredBy", None)


def _remove_finalizer(binding: JSON) -> None:
    kept = [each for each in binding["metadata"].get("finalizers", ()) if each != FINALIZER]
    binding["metadata"]["finalizers"] = kept
