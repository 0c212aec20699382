"""All findings about a set-up."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from cli.doctor.facts import Facts, Unknown
from cli.doctor.finding import Finding
from cli.doctor.judge.admission import admission
from cli.doctor.judge.certificates import certificates
from cli.doctor.judge.conflicts import conflicts
from cli.doctor.judge.definitions import definitions
from cli.doctor.judge.fleet import fleet
from cli.doctor.judge.leadership import leadership
from cli.doctor.judge.probes import probes
from cli.doctor.judge.registration import registration
from cli.doctor.judge.rights import rights
from cli.doctor.judge.server import server

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
