"""Which bindings a rule or a budget of moves selects."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from berthmaster.model.binding import Binding, holder
from berthmaster.model.cached import cached_property
from berthmaster.model.meta import Value, object_name
from berthmaster.model.selector import LabelSelector, Requirement


@dataclass(frozen=True, slots=True)
class MoveSubject:
    """What selectors look at.

    Attributes:
        namespace: the namespace of the binding; empty for a ClusterResourceBinding.
        policy: the policy of the workload: ``NAMESPACE/NAME``, or ``NAME`` for a ClusterPropagationPolicy; empty if it
            is not known.
    """

    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    policy: str = ""
    kind: str = ""


def subject_of(binding: Binding) -> MoveSubject:
    """Return what selectors look at in a binding. Karmada records the policy in the annotations of the binding."""
    meta = binding.metadata
    found = holder(meta)
    policy = "" if found is None else object_name(found.namespace, found.name)
    return MoveSubject(meta.namespace, meta.labels, policy, binding.spec.resource.kind)


class MoveSelector(Value, frozen=True, dict=True, gc=True):
    """Selects bindings. All parts must match; an absent part matches everything.

    Attributes:
        policies: names of policies, as in ``MoveSubject.policy``.
    """

    namespaces: frozenset[str] = frozenset()
    policies: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()
    labels: LabelSelector | None = None

    @cached_property
    def requirements(self) -> tuple[Requirement, ...]:
        """What the labels of a binding must satisfy."""
        return (self.labels.requirements() if self.labels is not None else ()) or ()

    def matches(self, subject: MoveSubject) -> bool:
        return (
            (not self.namespaces or subject.namespace in self.namespaces)
            and (not self.policies or subject.policy in self.policies)
            and (not self.kinds or subject.kind in self.kinds)
            and all(each.matches(subject.labels) for each in self.requirements)
        )
