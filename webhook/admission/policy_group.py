"""What the webhook and lint ask about the policies of one control plane."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from webhook.admission.context import AdmissionContext
from webhook.admission.field_problem import FieldProblem
from webhook.admission.wire import UnreadRequest


class PolicyGroup(NamedTuple):
    """The policies of a control plane: those in its API group.

    Attributes:
        excess: returns what is too large in a policy, from its request, whose objects are not decoded, and its spec.
            Raises ``FieldError`` if the policy cannot be decoded.
        named_clusters: yields each name of a cluster in a policy with its path; nothing if it cannot be decoded.
    """

    group: str
    excess: Callable[[UnreadRequest, bytes, AdmissionContext], tuple[FieldProblem, ...]]
    named_clusters: Callable[[Mapping[str, Any]], Iterator[tuple[str, str]]]
