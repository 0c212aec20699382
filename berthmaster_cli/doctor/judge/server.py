"""API servers: whether they answer, how old they are, what time it is there."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from berthmaster_cli.doctor.facts import Facts, Seen, Server, Unknown
from berthmaster_cli.doctor.finding import Finding, failed, ok, warning

OLDEST: Final = (1, 27)
"""With it came the conditions of webhooks that the chart can set; nothing older is tested."""
NOTICEABLE: Final = timedelta(seconds=5)
HARMFUL: Final = timedelta(minutes=1)
"""Leases are judged without clocks, certificates begin ten minutes early: below that only what people read suffers."""


def server(facts: Facts) -> Iterator[Finding]:
    """Both of them."""
    yield from _server("target", facts.target, f"{facts.setup.target} version")
    if facts.host is not None:
        yield from _server("host", facts.host, f"{facts.setup.host} version")


def _server(name: str, seen: Seen[Server], command: str) -> Iterator[Finding]:
    check = f"api-server/{name}"
    if isinstance(seen, Unknown):
        yield _silent(check, name, seen, command)
        return
    told = f"the {name} API server is {seen.version or 'of an unknown version'}"
    if seen.number < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        yield warning(check, f"{told}, older than what Berthmaster is tested with", f"Upgrade it to {oldest} or newer.")
    else:
        yield ok(check, told)
    if seen.ahead is not None:
        yield _clock(f"api-server/{name}-clock", name, seen.ahead, seen.slack)


def _silent(check: str, name: str, unknown: Unknown, command: str) -> Finding:
    if unknown.forbidden:
        told = f"the {name} API server does not let this user in: {unknown.problem}"
        return failed(check, told, f"Name a kubeconfig file whose credentials are valid; see: {command}")
    told = f"the {name} API server does not answer: {unknown.problem}"
    return failed(check, told, f"Name a kubeconfig file of a server that answers from here; see: {command}")


def _clock(check: str, name: str, ahead: timedelta, slack: timedelta) -> Finding:
    apart = abs(ahead)
    if apart <= max(slack, timedelta(seconds=1)):
        return ok(check, f"the clock of the {name} agrees with this one")
    told = f"the clock of the {name} is {_seconds(apart)} {'ahead of' if ahead > timedelta(0) else 'behind'} this one"
    if apart - slack < NOTICEABLE:
        return ok(check, told)
    remedy = "Synchronize both machines with NTP; see on each: timedatectl timesync-status"
    return failed(check, told, remedy) if apart - slack >= HARMFUL else warning(check, told, remedy)


def _seconds(span: timedelta) -> str:
    seconds = span.total_seconds()
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
