"""The controllers' lease: whether somebody leads, and gives signs of life."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from berthmaster_cli.doctor.facts import Facts, LeaseSeen, Setup, Unknown
from berthmaster_cli.doctor.finding import Finding, failed, ok, skipped, warning

SLACK: Final = timedelta(seconds=5)
"""Clocks of the holder, the API server and this machine may differ by that without a person noticing."""
_CHECK: Final = "controllers/leader"


def live(lease: LeaseSeen | None, facts: Facts) -> bool:
    """Whether somebody holds a lease and has renewed it in time."""
    if lease is None or not lease.holder or lease.renewed is None:
        return False
    return facts.now - lease.renewed <= timedelta(seconds=lease.duration_s) + SLACK


def leadership(facts: Facts) -> Iterator[Finding]:
    """One finding."""
    lease, setup = facts.lease, facts.setup
    if isinstance(lease, Unknown):
        yield skipped(_CHECK, f"the lease cannot be read: {lease.problem}")
        return
    if lease is None:
        pods = f"{setup.in_release} get pods {setup.controllers_pods}"
        remedy = f"Start them, or name their lease with --leader-elect-namespace and --leader-elect-name: {pods}"
        yield failed(_CHECK, f"no controllers have ever led: there is no lease {_where(setup)}", remedy)
        return
    yield _held(lease, facts)


def _held(lease: LeaseSeen, facts: Facts) -> Finding:
    setup, where = facts.setup, _where(facts.setup)
    logs = f"{setup.in_release} logs {setup.controllers_pods} --tail=50"
    if not lease.holder:
        return failed(
            _CHECK,
            f"nobody leads: {where} was given back, and nobody took it",
            f"Start the controllers: {setup.in_release} get pods {setup.controllers_pods}",
        )
    if lease.renewed is None:
        return failed(_CHECK, f"{lease.holder} holds {where} and has never renewed it", f"See what it does: {logs}")
    age = facts.now - lease.renewed
    if not live(lease, facts):
        told = f"{lease.holder} leads by {where} and has given no sign for {_seconds(age)}"
        return failed(_CHECK, told, f"See why it and all others are stuck: {logs}")
    if age < -SLACK:
        told = f"the clock of {lease.holder} is {_seconds(-age)} ahead of the API server's"
        return warning(_CHECK, told, "Synchronize the host's machines with NTP: timedatectl timesync-status")
    return ok(_CHECK, f"{lease.holder} leads, its last sign is {_seconds(max(age, timedelta(0)))} old")


def _where(setup: Setup) -> str:
    return "/".join(setup.lease)


def _seconds(span: timedelta) -> str:
    return f"{span.total_seconds():.0f} s"
