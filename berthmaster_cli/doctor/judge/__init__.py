"""All findings about a set-up."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from berthmaster_cli.doctor.facts import Facts, Unknown
from berthmaster_cli.doctor.finding import Finding
from berthmaster_cli.doctor.judge.api_server import definitions, rights, server
from berthmaster_cli.doctor.judge.certificates import certificates
from berthmaster_cli.doctor.judge.controllers import conflicts, leadership, probes
from berthmaster_cli.doctor.judge.fleet import fleet
from berthmaster_cli.doctor.judge.webhooks import admission, registration

_JUDGES: Final[Mapping[str, Callable[[Facts], Iterator[Finding]]]] = {
    "api-server": server,
    "definitions": definitions,
    "registration": registration,
    "certificates": certificates,
    "admission": admission,
    "rights": rights,
    "conflicts": conflicts,
    "controllers": leadership,
    "fleet": fleet,
    "probes": probes,
}
GROUPS: Final = tuple(_JUDGES)
"""The parts of a set-up, in the order in which they are told."""


def findings(facts: Facts, groups: frozenset[str]) -> list[Finding]:
    """What is to be said about some parts of a set-up; of a target that does not answer, just that."""
    if isinstance(facts.target, Unknown):
        return list(server(facts))
    return [each for group, judge in _JUDGES.items() if group in groups for each in judge(facts)]
