"""Collects all facts about an installation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from berthmaster.kube.client import APIClient
from berthmaster.runtime.clock import Clock
from berthmaster_cli.doctor.facts import (
    API_VERSIONS,
    DeploymentFacts,
    EndpointFacts,
    Facts,
    KubeSchedulerFacts,
    Observed,
    Setup,
    Unobserved,
    WebhookFacts,
)
from berthmaster_cli.doctor.gather.access import read_access
from berthmaster_cli.doctor.gather.certificates import read_endpoint, read_serving_secret
from berthmaster_cli.doctor.gather.client import DoctorClient, Value, observe
from berthmaster_cli.doctor.gather.deployments import read_deployments
from berthmaster_cli.doctor.gather.dry_run import TRIES, try_policies
from berthmaster_cli.doctor.gather.fleet import read_bindings, read_clusters
from berthmaster_cli.doctor.gather.kube_scheduler import read_has_nodes, read_kube_scheduler
from berthmaster_cli.doctor.gather.leases import read_lease, read_leases
from berthmaster_cli.doctor.gather.probes import ask_probe
from berthmaster_cli.doctor.gather.server import read_kinds, read_server
from berthmaster_cli.doctor.gather.webhooks import read_webhooks
from certs.bundle import Bundle
from certs.registration import Endpoint

_KARMADA_LEASE: Final = "karmada-scheduler"
_MAX_ENDPOINTS: Final = 8
"""One is usual. Each takes up to its timeout."""
_LONG: Final = 4
"""The number of timeouts that a question with many responses gets."""


@dataclass(frozen=True)
class Collector:
    """Collects facts from the target, which has the policies, and the host, which has Deployments and Secrets.

    ``asker``: the target in the name of the user whose rights are checked.
    """

    target: APIClient
    asker: APIClient
    host: APIClient | None
    setup: Setup
    groups: frozenset[str]
    clock: Clock
    limit_s: float
    probes: tuple[str, ...] = ()

    def collect(self) -> Facts:
        """Collect all facts. If the target does not respond, only that."""
        setup, target = self.setup, DoctorClient(self.target, self.limit_s)
        server = self._observe(partial(read_server, target, self.clock.now))
        now = self.clock.now()
        if isinstance(server, Unobserved):
            return Facts(setup, now, server)
        if server.ahead is not None and abs(server.ahead) > server.slack:  # it is measurable
            now += server.ahead
        registered = self._if("registration certificates admission conflicts", partial(read_webhooks, target))
        # Assigned first, because mypy would widen these types to accept None inside the call.
        secret = self._on_host("certificates", lambda client: read_serving_secret(client, setup))
        lease = self._if("controllers fleet", partial(read_lease, target, *setup.lease))
        karmada_lease = self._if("fleet", partial(read_lease, target, setup.karmada_namespace, _KARMADA_LEASE))
        host = None
        if self.host is not None and self.host is not self.target:
            host = self._observe(partial(read_server, DoctorClient(self.host, self.limit_s), self.clock.now))
        versions = API_VERSIONS if "definitions" in self.groups else ()
        on_host = "conflicts registration fleet probes kube-scheduler"
        deployments = self._on_host(on_host, lambda client: read_deployments(client, setup))
        return Facts(
            setup=setup,
            now=now,
            target=server,
            host=host,
            kinds={each: self._observe(partial(read_kinds, target, each)) for each in versions},
            webhooks=registered,
            endpoints=self._endpoints(registered),
            secret=secret,
            dry_run=self._if(
                "certificates admission",
                partial(try_policies, target, setup.trial_namespace, self.clock.monotonic_s),
                times=TRIES + 1,
            ),
            access=self._if("rights", partial(read_access, DoctorClient(self.asker, self.limit_s), setup), times=_LONG),
            lease=lease,
            other_leases=self._if("conflicts", partial(read_leases, target, setup.lease[1])),
            karmada_lease=karmada_lease,
            fleet=self._if("fleet", partial(read_clusters, target), times=_LONG),
            bindings=self._if("fleet", partial(read_bindings, target, setup.scheduler_name, now), times=_LONG),
            deployments=deployments,
            kube_scheduler=self._kube_scheduler(deployments),
            probes=[ask_probe(url, self.limit_s) for url in self.probes],
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

    def _kube_scheduler(
        self, deployments: Observed[Sequence[DeploymentFacts]] | None
    ) -> Observed[KubeSchedulerFacts | None]:
        running = [] if deployments is None or isinstance(deployments, Unobserved) else deployments
        extender = next((each for each in running if each.component == "extender"), None)
        found = self._on_host("kube-scheduler", lambda client: read_kube_scheduler(client, self.setup, extender))
        if found is None or isinstance(found, Unobserved) or not found.members:
            return found
        client = self.target if extender is not None and extender.option("kubeconfig") else self.host or self.target
        nodes = self._observe(partial(read_has_nodes, DoctorClient(client, self.limit_s), found.members))
        return replace(found, member_nodes=nodes)

    def _endpoints(self, registered: Observed[Sequence[WebhookFacts]] | None) -> list[EndpointFacts]:
        if registered is None or isinstance(registered, Unobserved) or "certificates" not in self.groups:
            return []
        wanted: dict[tuple[str, int, Bundle], Endpoint] = {}
        for each in registered:
            if each.ours and (endpoint := each.endpoint) is not None:  # a finding reports an invalid URL
                wanted.setdefault((endpoint.host, endpoint.port, each.bundle), endpoint)
        found = []
        for (_, _, bundle), endpoint in [*wanted.items()][:_MAX_ENDPOINTS]:
            facts = self._observe(partial(read_endpoint, endpoint, bundle, self.limit_s), times=2)
            if isinstance(facts, Unobserved):
                facts = EndpointFacts(endpoint.host, endpoint.port, "unreachable", facts.problem)
            found.append(facts)
        return found
