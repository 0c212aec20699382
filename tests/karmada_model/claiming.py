"""Which policy a resource belongs to, by the rules of Karmada's detector.

The rules are written anew here, on raw manifests, so that tests compare the product's claims with a second opinion.
Source: karmada-semantics.md, sections 2.3, 2.4 and 2.7.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from kube_store import JSON

CLAIMED_BY: Final = "resourcetemplate.karmada.io/claimed-by"


class Record(NamedTuple):
    """The metadata that records a claim of one kind of policies, on a template and on its binding.

    Attributes:
        label: the label with the permanent ID of the policy.
        name: the annotation with the name of the policy.
        namespace: the annotation with its namespace; empty for cluster-scoped policies.
    """

    label: str
    name: str
    namespace: str = ""

    def holder(self, content: JSON) -> tuple[str, str] | None:
        """Return namespace and name of the policy that an object names; None if a part of the record is missing."""
        found = _annotation(content, self.name), _label(content, self.label)
        namespace = _annotation(content, self.namespace) if self.namespace else ""
        return (namespace, found[0]) if all(found) and (namespace or not self.namespace) else None

    def write(self, content: JSON, policy: JSON) -> None:
        metadata = content["metadata"]
        metadata.setdefault("labels", {})[self.label] = permanent_id(policy)
        annotations = metadata.setdefault("annotations", {})
        annotations[self.name] = policy["metadata"]["name"]
        if self.namespace:
            annotations[self.namespace] = policy["metadata"]["namespace"]

    def remove(self, content: JSON) -> None:
        content["metadata"].get("labels", {}).pop(self.label, None)
        for key in (self.name, self.namespace):
            content["metadata"].get("annotations", {}).pop(key, None)


RECORDS: Final[Mapping[str, Record]] = {
    "PropagationPolicy": Record(
        "propagationpolicy.karmada.io/permanent-id",
        "propagationpolicy.karmada.io/name",
        "propagationpolicy.karmada.io/namespace",
    ),
    "ClusterPropagationPolicy": Record(
        "clusterpropagationpolicy.karmada.io/permanent-id", "clusterpropagationpolicy.karmada.io/name"
    ),
}
NAMESPACED: Final = RECORDS["PropagationPolicy"]
CLUSTER: Final = RECORDS["ClusterPropagationPolicy"]


def claim(template: JSON, policy: JSON) -> None:
    """Write the claim of a policy on a template, if it is not there (2.4, step 1)."""
    record = RECORDS[policy["kind"]]
    if record is NAMESPACED:
        if _label(template, CLUSTER.label) or CLUSTER.label in template["metadata"].get("labels", {}):
            CLUSTER.remove(template)
        elif "labels" in template["metadata"] and _label(template, record.label) == permanent_id(policy):
            return
        record.write(template, policy)
    elif _label(template, record.label) != permanent_id(policy):
        record.write(template, policy)


def permanent_id(policy: JSON) -> str:
    return _label(policy, RECORDS[policy["kind"]].label)


def carries(content: JSON, record: Record, policy_id: str) -> bool:
    return policy_id != "" and _label(content, record.label) == policy_id


def level(policy: JSON, template: JSON) -> int:
    """Return the implicit priority: 3 for a name, 2 for labels, 1 for the kind, 0 without a match."""
    return max((_level(each, template) for each in policy["spec"].get("resourceSelectors", ())), default=0)


def priority(policy: JSON) -> int:
    return int(policy["spec"].get("priority") or 0)


def first(policies: Iterable[JSON], template: JSON) -> JSON | None:
    """Return the policy of one kind that claims an unclaimed template (2.3)."""
    matching = [
        (-priority(each), -level(each, template), each["metadata"]["name"], each)
        for each in policies
        if "deletionTimestamp" not in each["metadata"] and level(each, template)
    ]
    return min(matching, key=lambda one: one[:3])[3] if matching else None


def matches(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_holds(each, labels) for each in selector.get("matchExpressions") or ())


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = expression["key"], expression.get("values") or ()
    return {
        "In": labels.get(key) in values,
        "NotIn": labels.get(key) not in values,
        "Exists": key in labels,
        "DoesNotExist": key not in labels,
    }[expression["operator"]]


def _level(selector: Mapping[str, Any], template: JSON) -> int:
    metadata = template["metadata"]
    if (selector["apiVersion"], selector["kind"]) != (template["apiVersion"], template["kind"]):
        return 0
    if selector.get("namespace") and selector["namespace"] != metadata.get("namespace", ""):
        return 0
    if selector.get("name"):
        return 3 if selector["name"] == metadata["name"] else 0
    if selector.get("labelSelector") is None:
        return 1
    return 2 if matches(selector["labelSelector"], metadata.get("labels", {})) else 0


def _label(content: JSON, key: str) -> str:
    return str(content["metadata"].get("labels", {}).get(key, ""))


def _annotation(content: JSON, key: str) -> str:
    return str(content["metadata"].get("annotations", {}).get(key, ""))
