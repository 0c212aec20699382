"""What differs between two sets of policies, and which templates that can concern."""

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from berthmaster.manifests import Document
from berthmaster.model.claims import waited_for
from berthmaster.model.policy import Policy, PolicyReference, ResourceSelector

_MAX_CHANGED: Final = 100
"""With more changed policies it is cheaper to build all workloads again than to find out which stay the same."""


class PolicyChanges(NamedTuple):
    """What differs between two sets of policies.

    Attributes:
        all: whether so many differ that it is cheaper to build everything again.
    """

    references: frozenset[PolicyReference]
    current: tuple[Policy, ...]
    all: bool = False

    def with_waiting(self, policies: Iterable[Policy], names: Collection[str]) -> "PolicyChanges":
        waiting = [each for each in policies if any(name in names for name in waited_for((each,)))] if names else []
        return self._replace(
            references=self.references | {each.reference for each in waiting}, current=(*self.current, *waiting)
        )


def changed_policies(before: Sequence[Policy], after: Sequence[Policy]) -> PolicyChanges:
    """Return what differs. Policies that are the same objects are the same."""
    known = {each.reference: each for each in before}
    current = tuple(each for each in after if known.pop(each.reference, None) is not each)
    return PolicyChanges(
        frozenset(known) | {each.reference for each in current}, current, len(current) + len(known) > _MAX_CHANGED
    )


def may_select(policies: Iterable[Policy], template: Document) -> bool:
    """Return whether a policy may select a template. Cheap; only ``PolicyCatalog`` is exact."""
    for policy in policies:
        if not policy.cluster_scoped and policy.metadata.namespace != template.namespace:
            continue
        for selector in policy.spec.resource_selectors:
            if (
                selector.kind == template.kind
                and selector.api_version == template.api_version
                and selector.name in {"", template.name}
                and selector.namespace in {"", template.namespace}
                and (selector.name or _labels_may_match(selector, template))
            ):
                return True
    return False


def _labels_may_match(selector: ResourceSelector, template: Document) -> bool:
    labels = template.raw["metadata"].get("labels") or {}
    is_plain = isinstance(labels, dict) and all(isinstance(each, str) for each in labels.values())
    return selector.label_selector is None or not is_plain or selector.label_selector.matches(labels)
