"""Whether processes are ready: by their Deployments, and by the probe endpoints that a person named."""

from collections.abc import Iterator
from typing import Final

from berthmaster_cli.doctor.facts import Facts, Setup, Unknown, Workload
from berthmaster_cli.doctor.finding import Finding, failed, ok, warning

_FINE: Final = 200
_OURS: Final = frozenset({"webhook", "extender", "controllers"})


def probes(facts: Facts) -> Iterator[Finding]:
    """One finding each."""
    workloads = () if facts.workloads is None or isinstance(facts.workloads, Unknown) else facts.workloads
    for workload in workloads:
        if workload.component in _OURS:
            yield _pods(workload, facts.setup)
    for each in facts.probes:
        if each.status == _FINE:
            yield ok("probes/ready", f"{each.url} is ready")
        elif each.status:
            remedy = f"Read what it waits for in its log: {facts.setup.in_release} get pods"
            yield failed("probes/ready", f"{each.url} is not ready ({each.status}): {each.told}", remedy)
        else:
            remedy = f"Forward the port first: {facts.setup.in_release} port-forward deploy/NAME 9080"
            yield failed("probes/ready", f"{each.url} does not answer: {each.told}", remedy)


def _pods(workload: Workload, setup: Setup) -> Finding:
    check = "probes/pods"
    told = f"{workload.name} has {workload.ready} of {workload.wanted} pods ready"
    if workload.ready >= workload.wanted > 0:
        return ok(check, told)
    if not workload.wanted:
        return warning(check, told, f"Scale it up: {setup.in_release} scale deploy {workload.name} --replicas=2")
    remedy = (
        f"See what they wait for: {setup.in_release} describe pods -l app.kubernetes.io/component={workload.component}"
    )
    return warning(check, told, remedy) if workload.ready else failed(check, told, remedy)
