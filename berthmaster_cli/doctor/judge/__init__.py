"""Turns facts into findings. Pure: nothing here asks, waits or reads a clock."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from berthmaster_cli.doctor.facts import Facts, Unobserved
from berthmaster_cli.doctor.findings import Finding
from berthmaster_cli.doctor.judge.admission import admission
from berthmaster_cli.doctor.judge.api_server import access, definitions, servers
from berthmaster_cli.doctor.judge.certificates import certificates
from berthmaster_cli.doctor.judge.controllers import conflicts, fleet, leadership, probes
from berthmaster_cli.doctor.judge.kube_scheduler import kube_scheduler
from berthmaster_cli.doctor.judge.registration import registration

_JUDGES: Final[Mapping[str, Callable[[Facts], Iterator[Finding]]]] = {
    "api-server": servers,
    "definitions": definitions,
    "registration": registration,
    "certificates": certificates,
    "admission": admission,
    "rights": access,
    "conflicts": conflicts,
    "controllers": leadership,
    "fleet": fleet,
    "probes": probes,
    "kube-scheduler": kube_scheduler,
}
GROUPS: Final = tuple(_JUDGES)
"""The parts of an installation, in the order of the report."""


def findings(facts: Facts, groups: frozenset[str]) -> list[Finding]:
    """Judge some parts of an installation. If the target does not respond, that is the only finding."""
    if isinstance(facts.target, Unobserved):
        return list(servers(facts))
    return [each for group, judge in _JUDGES.items() if group in groups for each in judge(facts)]
