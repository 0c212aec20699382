"""Measure webhook, extender and console while other clients misbehave: ``make soak``.

A well-behaved client sends requests over a kept and over new connections, first alone, then beside each kind of
misbehaving client (``companions.py``), then beside all of them. No good request may fail, no probe may fail, no worker
may be killed, and memory must stay below the limits of the Helm chart.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

import click
from admission import reviews
from companions import COMPANIONS
from extender_service import native_requests
from served import Server, reviewing, serving, showing
from stress import TITLES, Watcher, beside, line, problems
from workloads import generated

LIMITS_MIB: Mapping[str, float] = {"webhook": 320, "extender": 1024, "console": 512}
"""The memory limits of charts/berthmaster/values.yaml."""
FEW_DESCRIPTORS = 400
_WARM_UP_S = 2.0
_TOKEN = "a-token-of-the-soak"  # noqa: S105 - opens only the console of this run


class Soak(NamedTuple):
    """A service under test.

    Attributes:
        service: its name.
        server: the running service.
        requests: the good requests.
        seconds: the duration of each measurement.
    """

    service: str
    server: Server
    requests: Sequence[bytes]
    seconds: float

    def run(self, names: Sequence[str]) -> Iterator[str]:
        """Print the figures beside some companions, and yield what must not happen."""
        what = f"{self.service}: {names[0] if len(names) == 1 else 'all of them' if names else 'alone'}"
        if names:
            figures = beside(names, self.server, self.requests, self.requests, self.seconds)
        else:
            figures = Watcher(self.server, self.requests).figures(self.seconds)
        print(line(what, figures), flush=True)
        yield from problems(what, figures, LIMITS_MIB[self.service])


def soak(service: str, seconds: float, names: Sequence[str], *, descriptors: int = 0) -> Iterator[str]:
    """Run a service beside each companion and beside all of them, and yield what must not happen."""
    clusters = next(each for each in generated(7) if len(each.clusters) == 1000)
    running: AbstractContextManager[Server]
    if service == "webhook":
        running, requests = reviewing(descriptors=descriptors), reviews()
    elif service == "console":
        running, requests = showing(clusters.clusters, _TOKEN, descriptors=descriptors), visits()
    else:
        running, requests = serving(clusters.clusters, descriptors=descriptors), native_requests(clusters)
    with running as server:
        tested = Soak(service, server, requests, seconds)
        Watcher(server, requests).figures(_WARM_UP_S)
        yield from tested.run([])
        for name in names:
            yield from tested.run([name])
        if len(names) > 1:
            yield from tested.run(names)
        yield from tested.run([])


def visits() -> list[bytes]:
    """Return requests of a visitor for pages of the console. Requests without a token have a limit for each address."""
    head = f"HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {_TOKEN}\r\n\r\n"
    return [f"GET {path} {head}".encode() for path in ("/workloads", "/fleet?view=table", "/help")]


@click.command()
@click.option(
    "--seconds", default=10.0, show_default=True, type=click.FloatRange(1, 3600), help="The duration of each row."
)
@click.option("--only", default="", help="Only companions whose name contains this text.")
@click.option("--service", type=click.Choice(list(LIMITS_MIB)), multiple=True, help="The services; all by default.")
def main(seconds: float, only: str, service: tuple[str, ...]) -> None:
    """Print the figures of the well-behaved client, and the memory of the services."""
    names = [name for name in COMPANIONS if only in name]
    found: list[str] = []
    print(TITLES)
    for each in service or LIMITS_MIB:
        found += soak(each, seconds, names)
        connections = [name for name in names if "connections" in name or "plain port" in name]
        if connections:
            print(f"with {FEW_DESCRIPTORS} descriptors:")
            found += soak(each, seconds, connections, descriptors=FEW_DESCRIPTORS)
    for problem in found:
        print(problem, file=sys.stderr)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
