"""Which policy may take over a resource that another one claims (karmada ``pkg/detector/preemption.go``).

Policies have a *rank*: every PropagationPolicy above every ClusterPropagationPolicy, and among those of a kind the
higher priority above the lower. A policy with ``preemption: Always`` may take what it names from a policy of strictly
lower rank. Closeness of selectors and names play no role, and neither does what the weaker one says about preemption.

Since each takeover raises the rank of a resource's holder, and there are finitely many policies, takeovers come to an
end whatever their order, and no two policies can take a resource back and forth.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from berthmaster.model.meta import may_be_name
from berthmaster.model.policy import Policy, ResourceSelector
from berthmaster.model.priority_drop import Drop
from berthmaster.model.watched import not_watched

_API_VERSION: Final = re.compile(r"(?:[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?/)?v[a-z0-9]{1,61}")


class Rank(NamedTuple):
    """What decides; the larger one is the stronger one."""

    namespaced: bool
    priority: int


class Resource(NamedTuple):
    """A resource as a selector names it; ``namespace`` is empty for a cluster-scoped one."""

    api_version: str
    kind: str
    namespace: str
    name: str

    @property
    def addressable(self) -> bool:
        """Whether there can be such a resource."""
        named = may_be_name(self.name) and (not self.namespace or may_be_name(self.namespace))
        return named and _API_VERSION.fullmatch(self.api_version) is not None

    def __str__(self) -> str:
        return f"{self.kind} {'/'.join(filter(None, self[2:]))}"


def rank(policy: Policy) -> Rank:
    """The rank of a policy."""
    return Rank(not policy.cluster_scoped, policy.explicit_priority)


def may_preempt(challenger: Policy, holder: Policy) -> bool:
    """Whether a policy may take over what another one claims, if it names it."""
    return challenger.spec.preemption == "Always" and rank(challenger) > rank(holder)


def named_resources(policy: Policy) -> tuple[Resource, ...]:
    """What a policy may take over: nothing unless it preempts, then the resources that its selectors name.

    A PropagationPolicy names resources of its namespace. A ClusterPropagationPolicy's selector without a namespace
    names a cluster-scoped resource.
    """
    if policy.spec.preemption != "Always" or policy.metadata.deletion_timestamp is not None:
        return ()
    named = (_named(selector, policy) for selector in policy.spec.resource_selectors)
    return tuple(dict.fromkeys(resource for resource in named if resource is not None))


def strongest_first(policies: Iterable[Policy]) -> list[Policy]:
    """Policies by descending rank, those of the same rank by name."""
    return sorted(policies, key=lambda policy: (*(-each for each in rank(policy)), policy.reference))


def awaited(drop: Drop, dropped: Policy, policies: Iterable[Policy]) -> list[Policy]:
    """Whose turn it may be now that a policy has dropped in priority, the strongest first.

    That is each policy of the same kind, of the same namespace if it has one, which preempts and whose priority lies
    in the interval that has opened.
    """
    scope = dropped.reference[:2]
    return strongest_first(
        policy
        for policy in policies
        if policy.reference[:2] == scope
        and policy.reference != dropped.reference
        and policy.spec.preemption == "Always"
        and drop.opens_to(policy.explicit_priority)
    )


def _named(selector: ResourceSelector, policy: Policy) -> Resource | None:
    """The resource that a selector names; None if it names none that the policy reaches.

    What is never propagated is not there to be claimed, even if it looks claimed: a binding carries what its workload
    says of its claim, and by that the detector finds it.
    """
    if not_watched(selector.api_version, selector.kind) is not None:
        return None
    namespace = selector.namespace
    if not policy.cluster_scoped:
        namespace = namespace or policy.metadata.namespace
        if namespace != policy.metadata.namespace:
            return None
    resource = Resource(selector.api_version, selector.kind, namespace, selector.name)
    return resource if resource.addressable else None
