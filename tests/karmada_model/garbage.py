"""The garbage collector of Kubernetes, as far as bindings need it: a binding goes with its template."""

from functools import partial

from karmada_model import bindings
from karmada_model.agenda import Agenda
from karmada_model.objects import Ident, News, Objects, ident
from kube_store import JSON


class GarbageCollector:
    """It implements ``Controller``."""

    def __init__(self, objects: Objects, agenda: Agenda) -> None:
        self._objects = objects
        self._agenda = agenda
        self._owned: dict[str, dict[Ident, None]] = {}

    def observe(self, news: News) -> None:
        latest = news.latest
        which = ident(latest)
        for owner in latest["metadata"].get("ownerReferences", ()):
            owned = self._owned.setdefault(owner["uid"], {})
            if news.after is None:
                owned.pop(which, None)
            elif which not in owned:
                owned[which] = None
                self._queue(which)
        if news.after is None:
            for each in self._owned.get(latest["metadata"].get("uid", ""), {}):
                self._queue(each)

    def _queue(self, which: Ident) -> None:
        if which.kind in bindings.PERMANENT_ID:
            self._agenda.add("garbage", which, partial(self._collect, which))

    def _collect(self, which: Ident) -> None:
        found = self._objects.get(which)
        if found is not None and not any(
            self._exists(each, which.namespace) for each in found["metadata"].get("ownerReferences", ())
        ):
            self._objects.delete(which)

    def _exists(self, reference: JSON, namespace: str) -> bool:
        owner = self._objects.get(Ident(reference["apiVersion"], reference["kind"], namespace, reference["name"]))
        return owner is not None and bool(owner["metadata"]["uid"] == reference["uid"])
