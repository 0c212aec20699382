"""All findings about a set-up."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from berthmaster_cli.doctor.facts import Facts, Unknown
from berthmaster_cli.doctor.finding import Finding
from berthmaster_cli.doctor.judge.admission import admission
from berthmaster_cli.doctor.judge.certificates import certificates
from berthmaster_cli.doctor.judge.conflicts import conflicts
from berthmaster_cli.doctor.judge.definitions import definitions
from berthmaster_cli.doctor.judge.fleet import fleet
from berthmaster_cli.doctor.judge.leadership import leadership
from berthmaster_cli.doctor.judge.probes import probes
from berthmaster_cli.doctor.judge.registration import registration
from berthmaster_cli.doctor.judge.rights import rights
from berthmaster_cli.doctor.judge.server import server

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
