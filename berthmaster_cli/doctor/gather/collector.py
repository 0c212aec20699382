"""All questions, in an order in which each knows what it needs from the ones before."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final, TypeVar

from berthmaster.kube.client import APIClient
from berthmaster.model.errors import InputError
from berthmaster.runtime.clock import Clock
from berthmaster_cli.doctor.facts import Facts, Hook, Seen, Served, Server, Setup, Unknown
from berthmaster_cli.doctor.fields import API_VERSIONS
from berthmaster_cli.doctor.gather import api_server, fleet, host, webhooks
from berthmaster_cli.doctor.gather.asker import Asker, InNameOf, seen
from certs.bundle import Bundle
from certs.registration import Endpoint, endpoint_of

_KARMADA_LEASE: Final = "karmada-scheduler"
_MOST_ENDPOINTS: Final = 8
"""One is usual; each costs its bound if nobody answers."""
_LONG: Final = 4
"""Questions that need many answers get so many times the bound of one."""

Value = TypeVar("Value")


@dataclass(frozen=True)
class Round:
    """One look at a set-up.

    Attributes:
        target: where policies are.
        host: where Deployments and Secrets are; None if nobody gave access to it.
        setup: what is looked for.
        groups: the parts of the set-up to look at.
        clock: tells the time.
        limit_s: the bound of a question.
        user: in whose name rights are asked about; empty for one's own.
        probes: URLs of probe endpoints.
    """

    target: APIClient
    host: APIClient | None
    setup: Setup
    groups: frozenset[str]
    clock: Clock
    limit_s: float
    user: str = ""
    probes: tuple[str, ...] = ()

    def facts(self) -> Facts:
        """Everything that can be seen; of a target that does not answer, just that."""
        there, setup = Asker(self.target, self.limit_s), self.setup
        target = self._seen(partial(api_server.server, there, self.clock.now))
        now = self.clock.now()
        if isinstance(target, Unknown):
            return Facts(setup, now, target)
        now = _by(target, now)
        registered = self._if("registration certificates admission", partial(webhooks.hooks, there))
        # What may not be there is named first: in place, None would be taken for "was not looked for" by the checker.
        stored = self._on_host("certificates", lambda asker: host.stored(asker, setup))
        leader = self._if("controllers fleet", partial(fleet.lease, there, *setup.lease))
        theirs = self._if("fleet", partial(fleet.lease, there, setup.karmada_namespace, _KARMADA_LEASE))
        asked = Asker(InNameOf(self.target, self.user), self.limit_s) if self.user else there
        return Facts(
            setup=setup,
            now=now,
            target=target,
            host=self._host_server(),
            kinds={each: self._seen(partial(api_server.kinds, there, each)) for each in self._api_versions()},
            hooks=registered,
            served=self._served(registered),
            stored=stored,
            trial=self._if(
                "certificates admission",
                partial(webhooks.trial, there, setup.trial_namespace, self.clock.monotonic_s),
                times=webhooks.TRIES + 1,
            ),
            rights=self._if("rights", partial(api_server.rights, asked, setup), times=_LONG),
            lease=leader,
            other_leases=self._if("conflicts", partial(fleet.leases_named, there, setup.lease[1])),
            karmada_lease=theirs,
            fleet=self._if("fleet", partial(fleet.fleet, there), times=_LONG),
            bindings=self._if("fleet", partial(fleet.bindings, there, setup.scheduler_name, now), times=_LONG),
            workloads=self._on_host("conflicts registration fleet probes", lambda asker: host.workloads(asker, setup)),
            probes=[host.probe(url, self.limit_s) for url in self.probes],
        )  # fmt: skip

    def _seen(self, question: Callable[[], Value], times: int = 1) -> Seen[Value]:
        return seen(question, self.limit_s * times)

    def _if(self, groups: str, question: Callable[[], Value], times: int = 1) -> Seen[Value] | None:
        """The answer if it matters to a group that is looked at."""
        return self._seen(question, times) if self.groups & {*groups.split()} else None

    def _on_host(self, groups: str, question: Callable[[Asker], Value]) -> Seen[Value] | None:
        if self.host is None:
            return None
        return self._if(groups, partial(question, Asker(self.host, self.limit_s)))

    def _host_server(self) -> Seen[Server] | None:
        if self.host is None or self.host is self.target:
            return None
        return self._seen(partial(api_server.server, Asker(self.host, self.limit_s), self.clock.now))

    def _api_versions(self) -> Sequence[str]:
        return API_VERSIONS if "definitions" in self.groups else ()

    def _served(self, registered: Seen[Sequence[Hook]] | None) -> list[Served]:
        """What is to be seen at each place that our webhooks are called at, with each bundle."""
        if registered is None or isinstance(registered, Unknown) or "certificates" not in self.groups:
            return []
        wanted: dict[tuple[str, int, Bundle], Endpoint] = {}
        for each in registered:
            if each.ours:
                try:
                    endpoint = endpoint_of(each.url)
                except InputError:
                    continue  # which is told as a finding about the registration
                wanted.setdefault((endpoint.host, endpoint.port, each.bundle), endpoint)
        found = []
        for (_, _, bundle), endpoint in [*wanted.items()][:_MOST_ENDPOINTS]:
            answer = self._seen(partial(webhooks.served, endpoint, bundle, self.limit_s), times=2)
            if isinstance(answer, Unknown):
                answer = Served(endpoint.host, endpoint.port, "unreachable", answer.problem)
            found.append(answer)
        return found


def _by(judge: Server, now: datetime) -> datetime:
    """The present by a server's clock, if that differs from the local one by more than can be measured."""
    return now + judge.ahead if judge.ahead is not None and abs(judge.ahead) > judge.slack else now
