"""Judges processes and the fleet: whether the controllers lead, others do the same work, and pods are ready.

Also whether there are clusters to schedule to, and whether bindings are scheduled.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from berthmaster.model.errors import name_list
from berthmaster.model.policy_defaults import DEFAULT_SCHEDULER
from berthmaster.runtime.feature_gates import MULTIPLE_POD_TEMPLATES, WORKLOAD_AFFINITY
from berthmaster_cli.doctor.facts import (
    SLACK,
    BindingFacts,
    DeploymentFacts,
    Facts,
    FleetFacts,
    LeaseFacts,
    Setup,
    Unobserved,
)
from berthmaster_cli.doctor.findings import Finding, failed, ok, skipped, warning

_LEADER: Final = "controllers/leader"
_KARMADA_MANAGER: Final = "karmada-controller-manager"
_OK_STATUS: Final = 200
_OURS: Final = ("webhook", "extender", "controllers")
_SHOWN: Final = 3


def leadership(facts: Facts) -> Iterator[Finding]:
    """Judge the controllers' lease."""
    lease, setup = facts.lease, facts.setup
    # A shadow needs no lease, and Berthmaster can be installed without controllers.
    scheduling = any("--shadow" not in each.arguments for each in facts.running("controllers"))
    if isinstance(lease, Unobserved):
        yield skipped(_LEADER, f"the lease cannot be read: {lease.problem}")
    elif not facts.is_live(lease) and not scheduling and facts.running(*_OURS):
        yield skipped(_LEADER, "this installation has no controllers that schedule")
    elif lease is None:
        remedy = f"Start them, or set their lease with --lease-namespace and --lease-name: {setup.pods}"
        yield failed(_LEADER, f"no controllers have led yet: there is no lease {'/'.join(setup.lease)}", remedy)
    else:
        yield _leader(lease, facts)


def _leader(lease: LeaseFacts, facts: Facts) -> Finding:
    setup, where = facts.setup, "/".join(facts.setup.lease)
    if not lease.holder:
        message = f"no process leads: the lease {where} was released, and no process has acquired it"
        return failed(_LEADER, message, f"Start the controllers: {setup.pods}")
    if lease.renewed is None:
        message = f"{lease.holder} holds the lease {where} but has never renewed it"
        return failed(_LEADER, message, f"Read its log: {setup.logs}")
    age = facts.now - lease.renewed
    if not facts.is_live(lease):
        message = f"{lease.holder} holds the lease {where} but has not renewed it for {_seconds(age)}"
        return failed(_LEADER, message, f"Find out why no replica renews or acquires it: {setup.logs}")
    if age < -SLACK:
        message = f"the clock of {lease.holder} is {_seconds(-age)} ahead of the clock of the API server"
        return warning(_LEADER, message, "Synchronize the host's machines with NTP: timedatectl timesync-status")
    return ok(_LEADER, f"{lease.holder} leads; it renewed its lease {_seconds(max(age, timedelta(0)))} ago")


def _seconds(span: timedelta) -> str:
    return f"{span.total_seconds():.0f} s"


def conflicts(facts: Facts) -> Iterator[Finding]:
    """Judge whether other components do the same work.

    Leases and webhook configurations on the target show it, and Deployments on the host.
    """
    yield from _registered(facts)
    yield from _leases(facts)
    deployments, setup = facts.deployments, facts.setup
    check = "conflicts/host"
    if deployments is None:
        if facts.other_leases is not None:
            remedy = "Give access to the host with --kubeconfig, or run this command inside it"
            yield skipped(check, "the host was not checked", remedy)
    elif isinstance(deployments, Unobserved):
        remedy = f"Run as a user who may list them: {setup.in_release} auth can-i list deployments"
        yield skipped(check, f"Deployments on the host cannot be listed: {deployments.problem}", remedy)
    elif not deployments:
        message = f"neither Karmada nor Berthmaster runs in the namespace {setup.namespace} of the host"
        yield skipped(check, message, "Set the cluster and the namespace where they run: --kubeconfig, --namespace")
    else:
        found = [*_schedulers(facts), *_twice(facts), *_elections(facts), *_gates(facts)]
        yield from found or [ok(check, "no other component on the host does the same work")]


def _registered(facts: Facts) -> Iterator[Finding]:
    """A configuration has one owner: an installation never writes to the one of another."""
    check, setup = "conflicts/configurations", facts.setup
    if facts.webhooks is None or isinstance(facts.webhooks, Unobserved):
        return  # `registration` reports what cannot be read
    named = [each for each in facts.webhooks if each.configuration == setup.release]
    other = next((each for each in named if each.registered_by not in {"", setup.installation}), None)
    if other is None:
        yield ok(check, f"no other installation has webhook configurations named {setup.release}")
        return
    message = f"{other.registered_by} has registered the {other.kind} {other.configuration}, not {setup.installation}"
    remedy = (
        "Choose another name with --set fullnameOverride=NAME, or name the release and the namespace of the "
        "installation with --release and --namespace"
    )
    yield failed(check, message, remedy)


def _leases(facts: Facts) -> Iterator[Finding]:
    """Two leases mean two leaders. With the same scheduler name they undo each other's writes."""
    leases, setup = facts.other_leases, facts.setup
    if leases is None:
        return
    if isinstance(leases, Unobserved):
        yield skipped("conflicts/leases", f"leases of other namespaces cannot be listed: {leases.problem}")
        return
    others = [each for each in leases if (each.namespace, each.name) != setup.lease and facts.is_live(each)]
    if not others:
        yield ok("conflicts/leases", "no second release leads")
        return
    leaders = ", ".join(f"{each.holder} (lease {each.namespace}/{each.name})" for each in others[:3])
    remedy = (
        "Stop one release, or give each its own --scheduler-name: "
        f"{setup.host} get deploy -A -l app.kubernetes.io/part-of=berthmaster"
    )
    yield warning("conflicts/leases", f"the controllers of a second release lead too: {leaders}", remedy)


def _schedulers(facts: Facts) -> Iterator[Finding]:
    check, setup = "conflicts/scheduler", facts.setup
    for each in facts.running("karmada-scheduler"):
        if each.option("scheduler-name", DEFAULT_SCHEDULER) == setup.scheduler_name:
            message = f"{each.name} also schedules bindings of {setup.scheduler_name!r}, and both write them"
            yield failed(
                check, message, f"Give it another --scheduler-name: {setup.in_karmada} edit deploy {each.name}"
            )
    ours = [each.name for each in facts.running("controllers")]
    if len(ours) > 1:
        delete = f"{setup.in_release} delete deploy {ours[-1]}"
        remedy = f"Delete all but one, or give each its own --scheduler-name: {delete}"
        yield warning(check, f"several Deployments run the controllers: {', '.join(ours)}", remedy)


def _twice(facts: Facts) -> Iterator[Finding]:
    """Preemption and rebalancing, which karmada-controller-manager does too."""
    setup, managers, ours = facts.setup, facts.running(_KARMADA_MANAGER), facts.running("controllers")
    theirs = [each.name for each in managers if _has_gate(each, "PropagationPolicyPreemption")]
    preempting = [each.name for each in ours if _has_gate(each, "PolicyPreemption")]
    if theirs and preempting:
        both = f"{theirs[0]} (gate PropagationPolicyPreemption) and {preempting[0]} (gate PolicyPreemption)"
        remedy = f"Disable one gate: {setup.upgrade} --set controllers.featureGates.PolicyPreemption=false"
        yield failed("conflicts/preemption", f"{both} both preempt policies", remedy)
    theirs = [each.name for each in managers if _runs(each, "workloadRebalancer", by_default=True)]
    rebalancing = [each.name for each in ours if _runs(each, "workload-rebalancer", by_default=False)]
    if theirs and rebalancing:
        message = f"{theirs[0]} and {rebalancing[0]} both reconcile WorkloadRebalancers"
        edit = f"{setup.in_karmada} edit deploy {theirs[0]}"
        yield failed("conflicts/rebalancer", message, f"Add --controllers=*,-workloadRebalancer to one: {edit}")


def _elections(facts: Facts) -> Iterator[Finding]:
    for each in facts.running("controllers"):
        if "--no-leader-elect" in each.arguments and each.wanted > 1:
            message = f"{each.name} runs {each.wanted} pods without leader election, so all of them write"
            remedy = f"Run one pod: {facts.setup.in_release} scale deploy {each.name} --replicas=1"
            yield failed("conflicts/election", message, remedy)


def _gates(facts: Facts) -> Iterator[Finding]:
    """Gates of Karmada that add fields to bindings, which our controllers would ignore."""
    ours = facts.running("controllers")
    for gate in (WORKLOAD_AFFINITY, MULTIPLE_POD_TEMPLATES):
        on = [each for each in facts.running("karmada-scheduler", _KARMADA_MANAGER) if _has_gate(each, gate.name)]
        off = [each for each in ours if not _has_gate(each, gate.name, by_default=gate.default)]
        if on and off:
            message = f"{on[0].name} has the gate {gate.name}, and {off[0].name} has not: it ignores what the gate adds"
            remedy = f"Enable it: {facts.setup.upgrade} --set controllers.featureGates.{gate.name}=true"
            yield warning("conflicts/gates", message, remedy)


def _has_gate(deployment: DeploymentFacts, name: str, *, by_default: bool = False) -> bool:
    on = by_default
    for part in deployment.option("feature-gates").split(","):
        gate, _, value = part.strip().partition("=")
        if gate == name:
            on = value.lower() == "true"
    return on


def _runs(deployment: DeploymentFacts, name: str, *, by_default: bool) -> bool:
    """Whether a controller runs, by ``--controllers``: ``*``, ``NAME``, ``-NAME``."""
    switches = [each.strip() for each in deployment.option("controllers", "*").split(",")]
    return f"-{name}" not in switches and (name in switches or (by_default and "*" in switches))


def probes(facts: Facts) -> Iterator[Finding]:
    """Judge whether processes are ready, by their Deployments and by the given probe endpoints."""
    setup = facts.setup
    for deployment in facts.running(*_OURS):
        yield _pods(deployment, setup)
    for each in facts.probes:
        if each.status == _OK_STATUS:
            yield ok("probes/ready", f"{each.url} is ready")
        elif each.status:
            remedy = f"Read in its log what it waits for: {setup.in_release} get pods"
            yield failed("probes/ready", f"{each.url} is not ready ({each.status}): {each.message}", remedy)
        else:
            remedy = f"Forward the port first: {setup.in_release} port-forward deploy/NAME 9080"
            yield failed("probes/ready", f"{each.url} does not respond: {each.message}", remedy)


def _pods(deployment: DeploymentFacts, setup: Setup) -> Finding:
    check = "probes/pods"
    message = f"{deployment.name} has {deployment.ready} of {deployment.wanted} pods ready"
    if deployment.ready >= deployment.wanted > 0:
        return ok(check, message)
    if not deployment.wanted:
        remedy = f"Scale it up: {setup.in_release} scale deploy {deployment.name} --replicas=2"
        return warning(check, message, remedy)
    pods = f"pods -l app.kubernetes.io/component={deployment.component}"
    remedy = f"Find out what the pods wait for: {setup.in_release} describe {pods}"
    return warning(check, message, remedy) if deployment.ready else failed(check, message, remedy)


def fleet(facts: Facts) -> Iterator[Finding]:
    """Judge clusters, then bindings."""
    if isinstance(facts.fleet, Unobserved):
        yield skipped("fleet/clusters", f"clusters cannot be listed: {facts.fleet.problem}")
    elif facts.fleet is not None:
        yield from _clusters(facts.fleet, facts.setup.target)
    if isinstance(facts.bindings, Unobserved):
        yield skipped("fleet/bindings", f"bindings cannot be listed: {facts.bindings.problem}")
    elif facts.bindings is not None:
        yield from _schedulers_of(facts.bindings, facts)
        yield from _waiting(facts.bindings, facts.setup)


def _clusters(fleet: FleetFacts, kubectl: str) -> Iterator[Finding]:
    check = "fleet/clusters"
    more = _incomplete(fleet)
    if not fleet.total:
        yield warning(check, "no cluster has joined", "Join a cluster: karmadactl join NAME --cluster-kubeconfig=FILE")
        return
    if fleet.not_ready:
        named = name_list(fleet.not_ready, _SHOWN)
        message = f"{len(fleet.not_ready)} of {fleet.total} clusters are not ready{more}: {named}"
        conditions = f"{kubectl} get cluster {fleet.not_ready[0]} -o jsonpath='{{.status.conditions}}'"
        yield warning(check, message, f"Find out why: {conditions}")
    else:
        yield ok(check, f"all {fleet.total} clusters are ready{more}")
    if fleet.unmeasured:
        count, named = len(fleet.unmeasured), name_list(fleet.unmeasured, _SHOWN)
        message = f"{count} of {fleet.total} clusters report no allocatable resources{more}: {named}"
        summary = f"{kubectl} get cluster {fleet.unmeasured[0]} -o jsonpath='{{.status.resourceSummary}}'"
        remedy = f"Find out why karmada-controller-manager or karmada-agent does not report them: {summary}"
        yield warning("fleet/capacity", message, remedy)


def _schedulers_of(bindings: BindingFacts, facts: Facts) -> Iterator[Finding]:
    setup = facts.setup
    ours = bindings.by_scheduler.get(setup.scheduler_name, 0)
    if ours and not isinstance(facts.lease, Unobserved) and not facts.is_live(facts.lease):
        message = f"{ours} bindings wait for {setup.scheduler_name}, and no process leads"
        remedy = f"Start the controllers, or set another spec.schedulerName in the policies: {setup.pods}"
        yield failed("fleet/scheduler", message, remedy)
    schedulers = facts.running("karmada-scheduler", "controllers")
    known = {setup.scheduler_name, *setup.other_schedulers, DEFAULT_SCHEDULER, ""}
    known |= {each.option("scheduler-name", DEFAULT_SCHEDULER) for each in schedulers}
    for name, count in sorted(bindings.by_scheduler.items()):
        if name not in known:
            message = f"{count} bindings name the unknown scheduler {name!r}"
            remedy = f"Correct spec.schedulerName in their policies, or declare it with --other-scheduler={name}"
            yield warning("fleet/strange-scheduler", message, remedy)
    theirs = bindings.by_scheduler.get(DEFAULT_SCHEDULER, 0)
    if theirs and not isinstance(facts.karmada_lease, Unobserved) and not facts.is_live(facts.karmada_lease):
        message = f"{theirs} bindings name {DEFAULT_SCHEDULER}, and karmada-scheduler holds no current lease"
        no_lease = "Make sure that karmada-scheduler runs. With --leader-elect=false it has no lease"
        yield warning("fleet/karmada-scheduler", message, f"{no_lease}: {setup.in_karmada} get pods")


def _waiting(bindings: BindingFacts, setup: Setup) -> Iterator[Finding]:
    more, ours = _incomplete(bindings), bindings.by_scheduler.get(setup.scheduler_name, 0)
    if bindings.stale:
        count = f"{len(bindings.stale)} of {ours} bindings"
        message = f"{count} changed and were not scheduled again{more}: {name_list(bindings.stale, _SHOWN)}"
        yield warning("fleet/lagging", message, f"Read the leader's log: {setup.logs}")
    if bindings.unschedulable:
        path, reason = bindings.unschedulable[0]
        count = f"{len(bindings.unschedulable)} of {ours} bindings"
        message = f"{count} cannot be scheduled{more}, for example {path} ({reason})"
        namespace, _, name = path.rpartition("/")
        binding = f"-n {namespace} describe resourcebinding" if namespace else "describe clusterresourcebinding"
        yield warning("fleet/unschedulable", message, f"Find out why: {setup.target} {binding} {name}")
    if not bindings.stale and not bindings.unschedulable:
        yield ok("fleet/bindings", f"all {ours} bindings of {setup.scheduler_name} are scheduled{more}")


def _incomplete(facts: FleetFacts | BindingFacts) -> str:
    if facts.unread:
        return f" (cannot be read: {name_list(facts.unread, _SHOWN)})"
    return "" if facts.complete else " (not all were read)"
