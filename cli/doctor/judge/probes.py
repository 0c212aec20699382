"""Probe endpoints that a person named."""

from collections.abc import Iterator

from cli.doctor.facts import Facts
from cli.doctor.finding import Finding, failed, ok

_FINE = 200


def probes(facts: Facts) -> Iterator[Finding]:
    """One finding each."""
    for each in facts.probes:
        if each.status == _FINE:
            yield ok("probes/ready", f"{each.url} is ready")
        elif each.status:
            remedy = f"Read what it waits for in its log: {facts.setup.in_release} get pods"
            yield failed("probes/ready", f"{each.url} is not ready ({each.status}): {each.told}", remedy)
        else:
            remedy = f"Forward the port first: {facts.setup.in_release} port-forward deploy/NAME 9080"
            yield failed("probes/ready", f"{each.url} does not answer: {each.told}", remedy)
