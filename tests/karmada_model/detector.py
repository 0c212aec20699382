"""Karmada's detector: it claims templates for policies and keeps their bindings (karmada-semantics.md, section 2).

Not modelled: dependent overrides, skipped namespaces by regular expressions, and bindings of several pod templates.
"""

from collections.abc import Iterator
from functools import partial
from typing import Final

from karmada_model import bindings, claiming
from karmada_model.agenda import Agenda
from karmada_model.claiming import NAMESPACED, RECORDS
from karmada_model.objects import Ident, News, Objects, ident
from kube_store import JSON

POLICY: Final = "policy.karmada.io/v1alpha1"
_SKIPPED_GROUPS: Final = ("cluster", "policy", "work", "config", "networking", "autoscaling", "remedy", "apps")
_SKIPPED_KINDS: Final = ("Event", "Lease", "Namespace", "PriorityClass")
_RESERVED: Final = ("karmada-system", "karmada-cluster", "karmada-es-", "kube-")
_LANES: Final = {"PropagationPolicy": "policies", "ClusterPropagationPolicy": "cluster policies"}
_KEPT_LABEL: Final = "namespace.karmada.io/skip-auto-propagation"


class Detector:
    """It implements ``Controller``.

    Args:
        objects: what it reads and writes.
        agenda: where it queues its tasks.
        preemption: the gate PropagationPolicyPreemption.
    """

    def __init__(self, objects: Objects, agenda: Agenda, *, preemption: bool = False) -> None:
        self._objects = objects
        self._agenda = agenda
        self._preemption = preemption
        self._waiting: dict[Ident, None] = {}
        self._deleted: dict[Ident, JSON] = {}

    def observe(self, news: News) -> None:
        kind = news.latest["kind"]
        if kind in RECORDS:
            self._observe_policy(news)
        elif kind in bindings.PERMANENT_ID:
            self._observe_binding(news)
        elif is_template(news.latest):
            self._observe_template(news)

    def _observe_template(self, news: News) -> None:
        """Queue a template that is new, deleted, or changed in more than its status (2.1). See 2.5 for ``lazy``."""
        by_karmada = False
        if news.before is not None and news.after is not None:
            if _specified(news.before) == _specified(news.after):
                return
            lazy = self._is_held_by_lazy_policy(news.after)
            by_karmada = lazy and _of_users(news.before) == _of_users(news.after)
        self._add_template(ident(news.latest), by_karmada=by_karmada)

    def _observe_binding(self, news: News) -> None:
        """Queue a template again whose binding was still the one of an earlier template of its name (2.4, step 4)."""
        if news.after is None:
            template = self._objects.get(ident(news.latest["spec"]["resource"]))
            if template is not None and _owner_uid(news.latest) != template["metadata"]["uid"]:
                self._add_template(ident(template))

    def _observe_policy(self, news: News) -> None:
        """Queue a policy (2.6), and after a drop in priority those that may preempt now, highest first (2.9)."""
        before, after = news
        which = ident(news.latest)
        if after is None:
            self._deleted[which] = news.latest
        if before is not None and after is not None and _generation(before) == _generation(after):
            return
        self._add_policy(which)
        if self._preemption and before is not None and after is not None:
            low, high = claiming.priority(after), claiming.priority(before)
            candidates = [
                each
                for each in self._objects.all(after["kind"])
                if each["metadata"].get("namespace") == after["metadata"].get("namespace")
                and each["spec"].get("preemption") == "Always"
                and low < claiming.priority(each) < high
            ]
            for each in sorted(candidates, key=claiming.priority, reverse=True):
                self._add_policy(ident(each))

    def _add_template(self, which: Ident, *, by_karmada: bool = False) -> None:
        self._agenda.add("templates", (which, by_karmada), partial(self._template, which, by_karmada=by_karmada))

    def _add_policy(self, which: Ident) -> None:
        self._agenda.add(_LANES[which.kind], which, partial(self._policy, which))

    def _template(self, which: Ident, *, by_karmada: bool) -> None:
        """Reconcile a template (2.2)."""
        template = self._objects.get(which)
        if template is None or claiming.CLAIMED_BY in template["metadata"].get("labels", {}):
            self._waiting.pop(which, None)
            return
        for kind, record in RECORDS.items():
            holder = record.holder(template)
            if holder is not None:
                self._held(template, kind, holder, by_karmada=by_karmada)
                return
        policy = self._first(template)
        if policy is None:
            self._waiting[which] = None
        else:
            self._waiting.pop(which, None)
            self._apply(template, policy, by_karmada=by_karmada)

    def _held(self, template: JSON, kind: str, holder: tuple[str, str], *, by_karmada: bool) -> None:
        policy = self._objects.get(Ident(POLICY, kind, *holder))
        if policy is None:
            self._release(template, kind, template["metadata"]["labels"][RECORDS[kind].label])
        elif "deletionTimestamp" not in policy["metadata"] and claiming.level(policy, template):
            # Without these conditions the policy's own reconcile changes the claim, which queues the template again.
            self._apply(template, policy, by_karmada=by_karmada)

    def _first(self, template: JSON) -> JSON | None:
        namespace = template["metadata"].get("namespace", "")
        if namespace:
            found = claiming.first(
                (each for each in self._objects.all("PropagationPolicy") if _namespace(each) == namespace), template
            )
            if found is not None:
                return found
        return claiming.first(self._objects.all("ClusterPropagationPolicy"), template)

    def _apply(self, template: JSON, policy: JSON, *, by_karmada: bool) -> None:
        """Claim a template, then create or update its binding (2.4)."""
        which = ident(template)
        self._objects.change(which, lambda content: claiming.claim(content, policy))
        if by_karmada and _is_lazy(policy):
            return
        latest = self._objects.get(which)
        if latest is None:
            return
        wanted = bindings.build(latest, policy, self._priority(policy))
        found = self._objects.get(ident(wanted))
        if found is None:
            self._objects.create(wanted)
        elif _owner_uid(found) in ("", latest["metadata"]["uid"]):
            self._objects.change(ident(wanted), lambda content: bindings.merge(content, wanted, policy))
        # Else the garbage collector deletes the binding of an earlier template, which queues this one again.

    def _priority(self, policy: JSON) -> int | None:
        wanted = policy["spec"].get("schedulePriority")
        if wanted is None:
            return None
        found = self._objects.get(Ident("scheduling.k8s.io/v1", "PriorityClass", "", wanted["priorityClassName"]))
        return int(found["value"]) if found is not None else None

    def _release(self, template: JSON, kind: str, policy_id: str) -> None:
        """Remove a claim from a binding and then from its template, if both still carry it (2.7)."""
        record = RECORDS[kind]

        def remove(content: JSON) -> None:
            if claiming.carries(content, record, policy_id):
                record.remove(content)

        self._objects.change(binding_of(template), remove)
        self._objects.change(ident(template), remove)

    def _is_held_by_lazy_policy(self, template: JSON) -> bool:
        for kind, record in RECORDS.items():
            holder = record.holder(template)
            if holder is not None:
                policy = self._objects.get(Ident(POLICY, kind, *holder))
                return policy is not None and _is_lazy(policy)
        return False

    def _policy(self, which: Ident) -> None:
        """Reconcile a policy (2.6 to 2.8)."""
        policy = self._objects.get(which)
        gone = self._deleted.pop(which, None)
        if policy is None:
            if gone is not None:
                self._clean_up(gone)
            return
        if "deletionTimestamp" in policy["metadata"]:
            self._clean_up(policy)
            self._objects.change(which, lambda content: content["metadata"].pop("finalizers", None))
            return
        for binding in list(self._bindings_of(policy)):
            self._remove_unmatched_claim(binding, policy)
        lazy = _is_lazy(policy)
        for binding in self._bindings_of(policy):
            self._add_template(ident(binding["spec"]["resource"]), by_karmada=lazy)
        for each in self._waiting_for(policy):
            del self._waiting[each]
            self._add_template(each, by_karmada=lazy)
        if self._preemption and policy["spec"].get("preemption") == "Always":
            self._preempt(policy)

    def _clean_up(self, policy: JSON) -> None:
        kinds = {(each["apiVersion"], each["kind"]) for each in policy["spec"].get("resourceSelectors", ())}
        policy_id, record = claiming.permanent_id(policy), RECORDS[policy["kind"]]
        for api_version, kind in sorted(kinds):
            for template in self._objects.all(kind):
                if template["apiVersion"] == api_version and claiming.carries(template, record, policy_id):
                    self._release(template, policy["kind"], policy_id)

    def _bindings_of(self, policy: JSON) -> Iterator[JSON]:
        policy_id, record = claiming.permanent_id(policy), RECORDS[policy["kind"]]
        for kind in bindings.PERMANENT_ID:
            for binding in self._objects.all(kind):
                if claiming.carries(binding, record, policy_id) and (
                    record is not NAMESPACED or _namespace(binding) == _namespace(policy)
                ):
                    yield binding

    def _remove_unmatched_claim(self, binding: JSON, policy: JSON) -> None:
        template = self._objects.get(ident(binding["spec"]["resource"]))
        if template is not None and not claiming.level(policy, template):
            record = RECORDS[policy["kind"]]
            self._objects.change(ident(template), record.remove)
            self._objects.change(ident(binding), record.remove)

    def _waiting_for(self, policy: JSON) -> list[Ident]:
        found = []
        for each in self._waiting:
            template = self._objects.get(each)
            if template is not None and claiming.level(policy, template):
                found.append(each)
        return found

    def _preempt(self, policy: JSON) -> None:
        for selector in policy["spec"].get("resourceSelectors", ()):
            namespace = selector.get("namespace") or _namespace(policy)
            which = Ident(selector["apiVersion"], selector["kind"], namespace, selector.get("name", ""))
            template = self._objects.get(which)
            if template is None or "deletionTimestamp" in template["metadata"]:
                continue
            if self._may_take(policy, template):
                self._objects.change(which, lambda content: claiming.claim(content, policy))

    def _may_take(self, policy: JSON, template: JSON) -> bool:
        """Whether a policy preempts the holder of a template. Nothing is preempted that no policy holds."""
        annotations = template["metadata"].get("annotations", {})
        record = RECORDS[policy["kind"]]
        if record is NAMESPACED and annotations.get(claiming.CLUSTER.name):
            return True
        holder = (annotations.get(record.namespace, ""), annotations.get(record.name, ""))
        if not holder[1] or holder == (_namespace(policy), policy["metadata"]["name"]):
            return False
        held_by = self._objects.get(Ident(POLICY, policy["kind"], *holder))
        return held_by is not None and claiming.priority(policy) > claiming.priority(held_by)


def is_template(content: JSON) -> bool:
    """Whether the detector looks at an object (2.1)."""
    group = content["apiVersion"].rpartition("/")[0]
    namespace = _namespace(content)
    if any(group == f"{each}.karmada.io" for each in _SKIPPED_GROUPS) or content["kind"] in _SKIPPED_KINDS:
        return False
    return not any(namespace == each or (each.endswith("-") and namespace.startswith(each)) for each in _RESERVED)


def binding_of(template: JSON) -> Ident:
    kind = "ResourceBinding" if _namespace(template) else "ClusterResourceBinding"
    name = bindings.binding_name(template["kind"], template["metadata"]["name"])
    return Ident(bindings.WORK, kind, _namespace(template), name)


def _namespace(content: JSON) -> str:
    return str(content["metadata"].get("namespace", ""))


def _generation(content: JSON) -> int:
    return int(content["metadata"].get("generation", 0))


def _owner_uid(binding: JSON) -> str:
    return next((str(each["uid"]) for each in binding["metadata"].get("ownerReferences", ())), "")


def _is_lazy(policy: JSON) -> bool:
    return bool(policy["spec"].get("activationPreference") == "Lazy")


def _specified(content: JSON) -> JSON:
    metadata = {key: value for key, value in content["metadata"].items() if key not in _UNSPECIFIED}
    return {**content, "metadata": metadata, "status": None}


_UNSPECIFIED: Final = ("managedFields", "resourceVersion")


def _of_users(content: JSON) -> JSON:
    """Return the part of a template that Karmada itself never changes."""
    specified = _specified(content)
    metadata = {key: value for key, value in specified["metadata"].items() if key != "generation"}
    for field in ("labels", "annotations"):
        given = metadata.pop(field, None) or {}
        kept = {key: value for key, value in given.items() if ".karmada.io" not in key or key == _KEPT_LABEL}
        metadata[field] = kept
    return {**specified, "metadata": metadata}
