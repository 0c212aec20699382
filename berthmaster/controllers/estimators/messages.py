"""The messages of ``MaxAvailableReplicas`` (karmada ``pkg/estimator/service``, ``pkg/estimator/pb``).

What Kubernetes defines - quantities, node selectors, tolerations - stands in them as bytes: its own protobuf messages
(``k8s.io/api/core/v1/generated.proto``), without the envelope that the API server would put around them.
"""

from collections.abc import Sequence
from typing import Final

from berthmaster.controllers.estimators.protobuf import entries, int32, integer, message, text
from berthmaster.model.cluster import Toleration
from berthmaster.model.decode import convert
from berthmaster.model.meta import Value
from berthmaster.model.replicas import NodeClaim, ReplicaRequirements

METHOD: Final = "/github.com.karmada_io.karmada.pkg.estimator.service.Estimator/MaxAvailableReplicas"


class _Requirement(Value, frozen=True):
    """``core/v1.NodeSelectorRequirement``."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class _Term(Value, frozen=True):
    """``core/v1.NodeSelectorTerm``."""

    match_expressions: tuple[_Requirement, ...] = ()
    match_fields: tuple[_Requirement, ...] = ()


class _NodeSelector(Value, frozen=True):
    """``core/v1.NodeSelector``."""

    node_selector_terms: tuple[_Term, ...] = ()


def encode_requirements(requirements: ReplicaRequirements | None) -> bytes:
    """A ``ReplicaRequirements``: what one replica needs; the same for every cluster that is asked.

    Raises:
        InputError: the node affinity is none.
    """
    if requirements is None:
        return b""
    amounts = requirements.resource_request.items()
    claim = requirements.node_claim
    return (
        (message(1, _node_claim(claim)) if claim is not None else b"")
        + text(3, requirements.namespace)
        + text(4, requirements.priority_class_name)
        + entries(5, ((name, text(1, amount.canonical())) for name, amount in amounts))
    )


def encode_request(cluster: str, requirements: bytes) -> bytes:
    """A ``MaxAvailableReplicasRequest`` about a cluster, with encoded requirements.

    The requirements are there even where they are empty: that asks for pods alone, while their absence means nothing.
    """
    return text(1, cluster) + message(2, requirements)


def max_replicas(answer: bytes) -> int:
    """What a ``MaxAvailableReplicasResponse`` says.

    Raises:
        ServiceError: it cannot be read.
    """
    return int32(answer, 1)


def _node_claim(claim: NodeClaim) -> bytes:
    selector = ((key, value.encode()) for key, value in claim.node_selector.items())
    affinity = b"" if claim.hard_node_affinity is None else message(4, _affinity(claim.hard_node_affinity))
    return entries(2, selector) + affinity + b"".join(message(5, _toleration(each)) for each in claim.tolerations)


def _affinity(raw: object) -> bytes:
    selector = convert(_NodeSelector, raw)
    return b"".join(
        message(1, _requirements(1, term.match_expressions) + _requirements(2, term.match_fields))
        for term in selector.node_selector_terms
    )


def _requirements(number: int, requirements: Sequence[_Requirement]) -> bytes:
    return b"".join(
        message(
            number,
            text(1, each.key) + text(2, each.operator) + b"".join(message(3, value.encode()) for value in each.values),
        )
        for each in requirements
    )


def _toleration(toleration: Toleration) -> bytes:
    seconds = toleration.toleration_seconds
    return (
        text(1, toleration.key)
        + text(2, toleration.operator)
        + text(3, toleration.value)
        + text(4, toleration.effect)
        + (b"" if seconds is None else integer(5, seconds))
    )
