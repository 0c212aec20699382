"""Judges the extender beside kube-scheduler: what happens while it is down, and whether it knows member nodes."""

from collections.abc import Iterator

from berthmaster.model.policy_defaults import DEFAULT_SCHEDULER
from berthmaster_cli.doctor.facts import Facts, KubeSchedulerFacts, Setup, Unobserved
from berthmaster_cli.doctor.findings import Finding, failed, ok, skipped, warning


def kube_scheduler(facts: Facts) -> Iterator[Finding]:
    """Judge the stanza of the chart. Whether kube-scheduler uses it cannot be seen from here."""
    found, setup = facts.kube_scheduler, facts.setup
    if found is None:
        return
    if isinstance(found, Unobserved):
        remedy = f"Run as a user who may read it: {setup.in_release} auth can-i get configmaps"
        yield skipped("kube-scheduler/outage", f"the stanza for kube-scheduler cannot be read: {found.problem}", remedy)
        return
    yield _outage(found, setup)
    if found.members:
        yield from _members(found, setup)


def _outage(found: KubeSchedulerFacts, setup: Setup) -> Finding:
    check, own = "kube-scheduler/outage", found.own_scheduler or DEFAULT_SCHEDULER
    if found.managed:
        names = ", ".join(found.managed)
        return ok(check, f"managedResources: while the extender is down, only pods that request {names} wait")
    if found.ignorable:
        return ok(check, "ignorable: while the extender is down, pods are scheduled in any group")
    remedy = f"Choose another setting: {setup.upgrade} --set extender.kubeScheduler.whenDown=wait-placed"
    message = "while the extender is down, no pod is scheduled"
    if own == DEFAULT_SCHEDULER:
        return failed(check, f"{message}, the extender's own pods included, so it cannot start again", remedy)
    return warning(check, f"{message} except by other schedulers, such as {own} of the extender's own pods", remedy)


def _members(found: KubeSchedulerFacts, setup: Setup) -> Iterator[Finding]:
    check = "kube-scheduler/members"
    if isinstance(found.member_nodes, Unobserved):
        yield skipped(check, f"nodes cannot be listed: {found.member_nodes.problem}")
    elif found.member_nodes:
        yield ok(check, f"nodes match --kube-scheduler-members {found.members}")
    else:
        message = f"no node matches --kube-scheduler-members {found.members}, so pods with a placement wait"
        remedy = f"Find the label of your product: {setup.target} get nodes --show-labels"
        yield warning(check, message, remedy)
