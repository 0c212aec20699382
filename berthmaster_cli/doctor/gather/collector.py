"""Asks all questions, in an order in which later ones can use earlier answers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final, TypeVar

from berthmaster.kube.client import APIClient
from berthmaster.runtime.clock import Clock
from berthmaster_cli.doctor.facts import (
    API_VERSIONS,
    EndpointFacts,
    Facts,
    Observed,
    ServerFacts,
    Setup,
    Unobserved,
    WebhookFacts,
)
from berthmaster_cli.doctor.gather import api_server, fleet, host
from berthmaster_cli.doctor.gather.client import DoctorClient, observe
from certs.bundle import Bundle
from certs.registration import Endpoint

_KARMADA_LEASE: Final = "karmada-scheduler"
_MAX_ENDPOINTS: Final = 8
"""One is usual. Each takes up to its timeout."""
_LONG: Final = 4
"""The number of timeouts that a question with many responses gets."""

Value = TypeVar("Value")


@dataclass(frozen=True)
class Collector:
    """Collects the facts about one installation.

    Attributes:
        target: the API server that has the policies.
        host: the API server that has Deployments and Secrets; None if there is no access to it.
    """

    target: APIClient
    host: APIClient | None
    setup: Setup
    groups: frozenset[str]
    clock: Clock
    limit_s: float
    user: str = ""
    probes: tuple[str, ...] = ()

    def collect(self) -> Facts:
        """Collect all facts. If the target does not respond, only that."""
        setup, target = self.setup, DoctorClient(self.target, self.limit_s)
        server = self._observe(partial(api_server.server, target, self.clock.now))
        now = self.clock.now()
        if isinstance(server, Unobserved):
            return Facts(setup, now, server)
        now = _by_server(server, now)
        registered = self._if("registration certificates admission", partial(fleet.registered, target))
        # Assigned first, because mypy would widen these types to accept None inside the call.
        secret = self._on_host("certificates", lambda client: host.serving_secret(client, setup))
        lease = self._if("controllers fleet", partial(fleet.lease, target, *setup.lease))
        karmada_lease = self._if("fleet", partial(fleet.lease, target, setup.karmada_namespace, _KARMADA_LEASE))
        user = target._replace(user=self.user)
        versions = API_VERSIONS if "definitions" in self.groups else ()
        on_host = "conflicts registration fleet probes"
        return Facts(
            setup=setup,
            now=now,
            target=server,
            host=self._host_server(),
            kinds={each: self._observe(partial(api_server.kinds, target, each)) for each in versions},
            webhooks=registered,
            endpoints=self._endpoints(registered),
            secret=secret,
            dry_run=self._if(
                "certificates admission",
                partial(fleet.try_policies, target, setup.trial_namespace, self.clock.monotonic_s),
                times=fleet.TRIES + 1,
            ),
            access=self._if("rights", partial(api_server.access, user, setup), times=_LONG),
            lease=lease,
            other_leases=self._if("conflicts", partial(fleet.leases_named, target, setup.lease[1])),
            karmada_lease=karmada_lease,
            fleet=self._if("fleet", partial(fleet.clusters, target), times=_LONG),
            bindings=self._if("fleet", partial(fleet.bindings, target, setup.scheduler_name, now), times=_LONG),
            deployments=self._on_host(on_host, lambda client: host.deployments(client, setup)),
            probes=[host.probe(url, self.limit_s) for url in self.probes],
        )

    def _observe(self, question: Callable[[], Value], times: int = 1) -> Observed[Value]:
        return observe(question, self.limit_s * times)

    def _if(self, groups: str, question: Callable[[], Value], times: int = 1) -> Observed[Value] | None:
        """Ask a question if one of the groups is checked."""
        return self._observe(question, times) if self.groups & {*groups.split()} else None

    def _on_host(self, groups: str, question: Callable[[DoctorClient], Value]) -> Observed[Value] | None:
        if self.host is None:
            return None
        return self._if(groups, partial(question, DoctorClient(self.host, self.limit_s)))

    def _host_server(self) -> Observed[ServerFacts] | None:
        if self.host is None or self.host is self.target:
            return None
        return self._observe(partial(api_server.server, DoctorClient(self.host, self.limit_s), self.clock.now))

    def _endpoints(self, registered: Observed[Sequence[WebhookFacts]] | None) -> list[EndpointFacts]:
        if registered is None or isinstance(registered, Unobserved) or "certificates" not in self.groups:
            return []
        wanted: dict[tuple[str, int, Bundle], Endpoint] = {}
        for each in registered:
            if each.ours and (endpoint := each.endpoint) is not None:  # a finding reports an invalid URL
                wanted.setdefault((endpoint.host, endpoint.port, each.bundle), endpoint)
        found = []
        for (_, _, bundle), endpoint in [*wanted.items()][:_MAX_ENDPOINTS]:
            facts = self._observe(partial(fleet.present, endpoint, bundle, self.limit_s), times=2)
            if isinstance(facts, Unobserved):
                facts = EndpointFacts(endpoint.host, endpoint.port, "unreachable", facts.problem)
            found.append(facts)
        return found


def _by_server(server: ServerFacts, now: datetime) -> datetime:
    """Return the time by a server's clock if it differs measurably from the local clock."""
    return now + server.ahead if server.ahead is not None and abs(server.ahead) > server.slack else now
