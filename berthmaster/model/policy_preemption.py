"""Which policies may take a resource over from the policy that holds it.

Source: karmada ``pkg/detector/preemption.go``. A policy with ``preemption: Always`` may take a resource that it names
from a policy of strictly lower rank. Each takeover raises the rank of the holder, so takeovers end.
"""

from collections.abc import Iterable
from typing import NamedTuple

from berthmaster.model.meta import is_valid_name
from berthmaster.model.policy import Policy, ResourceSelector
from berthmaster.model.replicas import Template
from berthmaster.model.skipped_resources import reason_not_propagated


class Resource(NamedTuple):
    """The identity of a resource that a selector names. ``namespace`` is empty for a cluster-scoped resource."""

    api_version: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {'/'.join(filter(None, self[2:]))}"


def rank(policy: Policy) -> tuple[bool, int]:
    """Return whether a policy is namespaced, and its priority. The larger rank is the stronger one."""
    return not policy.cluster_scoped, policy.explicit_priority


def may_preempt(preemptor: Policy, holder: Policy) -> bool:
    """Return whether a policy is strong enough to take over what another one holds and it names."""
    return preemptor.spec.preemption == "Always" and rank(preemptor) > rank(holder)


def named_resources(policy: Policy) -> tuple[Resource, ...]:
    """Return the resources that a policy may take over: those that its selectors name, if it preempts.

    A PropagationPolicy names resources of its namespace. A selector of a ClusterPropagationPolicy without a namespace
    names a cluster-scoped resource.
    """
    if policy.spec.preemption != "Always" or policy.metadata.deletion_timestamp is not None:
        return ()
    named = (_named(selector, policy) for selector in policy.spec.resource_selectors)
    return tuple(dict.fromkeys(resource for resource in named if resource is not None))


def strongest_first(policies: Iterable[Policy]) -> list[Policy]:
    """Return policies by falling rank; policies of one rank by their reference."""
    return sorted(policies, key=lambda policy: (*(-each for each in rank(policy)), policy.reference))


def _named(selector: ResourceSelector, policy: Policy) -> Resource | None:
    """Return the resource that a selector names, or None if the policy cannot claim it.

    A resource that Karmada never propagates cannot be claimed, even if its metadata records a claim: bindings carry
    the record of their workload, by which the detector finds them.
    """
    if reason_not_propagated(selector.api_version, selector.kind) is not None:
        return None
    namespace = selector.namespace
    if not policy.cluster_scoped:
        namespace = namespace or policy.metadata.namespace
        if namespace != policy.metadata.namespace:
            return None
    if not is_valid_name(selector.name) or (namespace and not is_valid_name(namespace)):
        return None
    return Resource(selector.api_version, selector.kind, namespace, selector.name)


def may_take_over(preemptor: Policy, held_by: Policy, template: Template) -> bool:
    """Return whether a policy may take a resource over from the policy that holds it."""
    return may_preempt(preemptor, held_by) and names_resource(preemptor, template)


def names_resource(preemptor: Policy, template: Template) -> bool:
    """Return whether a policy preempts and a selector of it names the resource of a template."""
    resource = Resource(template.api_version, template.kind, template.namespace, template.name)
    return resource in named_resources(preemptor)
