"""What karmada-webhook refuses in a policy's spec (karmada ``pkg/util/validation``), all of it at once."""

from collections.abc import Iterator

from berthmaster.model.selector import is_label_key
from webhook.admission.karmada.placement_checks import check_placement
from webhook.admission.karmada.policy import ApplicationFailover, Policy, Preservation, Spec
from webhook.admission.problem import ABSENT, Problem

DEFAULT_TOLERATION_S = 300


def check_spec(policy: Policy, namespace: str) -> Iterator[Problem]:
    """Everything wrong with a spec. ``namespace`` is the policy's; empty for a ClusterPropagationPolicy."""
    yield from check_placement(policy.spec.placement)
    yield from _check_failover(policy.spec)
    yield from _check_selectors(policy.spec, namespace)
    yield from check_preemption_names(policy.spec)
    yield from _check_suspension(policy.spec)


def check_preemption_names(spec: Spec) -> Iterator[Problem]:
    """With ``preemption: Always`` every selector names its resource."""
    if spec.preemption != "Always":
        return
    for index, selector in enumerate(spec.resource_selectors):
        if not selector.name:
            yield Problem(
                f"spec.resourceSelectors[{index}].name", ABSENT,
                "a policy with preemption Always may only take over resources that it names",
                "name the resource, one selector for each, or set spec.preemption to Never",
            )  # fmt: skip


def _check_selectors(spec: Spec, namespace: str) -> Iterator[Problem]:
    for index, selector in enumerate(spec.resource_selectors if namespace else ()):
        if selector.namespace != namespace:
            yield Problem(
                f"spec.resourceSelectors[{index}].namespace", selector.namespace,
                "a PropagationPolicy selects in its own namespace only",
                f"use {namespace!r}, leave it out, or write a ClusterPropagationPolicy",
            )  # fmt: skip


def _check_failover(spec: Spec) -> Iterator[Problem]:
    failover = spec.failover
    if failover is None:
        return
    if failover.application is not None:
        if not spec.propagate_deps:
            yield Problem(
                "spec.propagateDeps", spec.propagate_deps, "failover of an application moves its dependencies with it",
                "set it to true, or remove spec.failover.application",
            )  # fmt: skip
        yield from _check_application(failover.application)
        yield from _check_preservation(failover.application.state_preservation, "spec.failover.application")
    if failover.cluster is not None:
        yield from _check_preservation(failover.cluster.state_preservation, "spec.failover.cluster")


def _check_application(failover: ApplicationFailover) -> Iterator[Problem]:
    seconds = failover.decision_conditions.toleration_seconds
    if (DEFAULT_TOLERATION_S if seconds is None else seconds) < 0:
        yield Problem(
            "spec.failover.application.decisionConditions.tolerationSeconds", seconds,
            "a duration cannot be negative", "use 0 or more",
        )  # fmt: skip
    path, grace_s = "spec.failover.application.gracePeriodSeconds", failover.grace_period_seconds
    gracefully = failover.purge_mode == "Gracefully"
    if grace_s is None:
        if gracefully:
            yield Problem(path, ABSENT, "purgeMode Gracefully needs a grace period", "set it, for instance to 600")
        return
    if not gracefully:
        yield Problem(
            path, grace_s, "a grace period means nothing unless purgeMode is Gracefully",
            "remove it, or set purgeMode to Gracefully",
        )  # fmt: skip
    if grace_s <= 0:
        yield Problem(path, grace_s, "a grace period is longer than nothing", "use 1 or more")


def _check_preservation(preservation: Preservation | None, owner: str) -> Iterator[Problem]:
    for index, rule in enumerate(preservation.rules if preservation is not None else ()):
        if not is_label_key(rule.alias_label_name):
            yield Problem(
                f"{owner}.statePreservation.rules[{index}].aliasLabelName", rule.alias_label_name,
                "it is not a label name", "use letters, digits and -_. , with an optional DNS prefix and a slash",
            )  # fmt: skip


def _check_suspension(spec: Spec) -> Iterator[Problem]:
    suspension = spec.suspension
    if suspension is None or not suspension.dispatching or suspension.dispatching_on_clusters is None:
        return
    if suspension.dispatching_on_clusters.cluster_names:
        # The doubled name is karmada-webhook's.
        yield Problem(
            "spec.suspension.suspension", ABSENT, "dispatching suspends every cluster, so naming some contradicts it",
            "set either dispatching or dispatchingOnClusters",
        )  # fmt: skip
