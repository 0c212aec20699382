"""Read everything that decisions depend on: Secrets, configurations and the API server's time.

The order of reads makes stale data harmless. Objects that depend on the authority are read before the authority. A
later write is guarded by the version that was read first. If the authority has changed in between and the change has
reached the object, the write is refused. A delayed writer therefore never replaces a newer bundle or leaf with an older
one.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec

from berthmaster.kube import requests
from berthmaster.kube.client import APIClient, ask, ask_if_found
from berthmaster.kube.events import EVENTS, Reference
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import ApiError, FieldError, InputError
from berthmaster.model.meta import ObjectMeta
from berthmaster.runtime.clock import Clock
from certs.bundle import Bundle
from certs.injection import bundles
from certs.options import CertificateOptions, ServingCertificate, TargetConfiguration
from certs.secrets import Secret, read_secret

_MAX_PROBLEM_LENGTH: Final = 300
_MIN_DIFFERENCE: Final = timedelta(seconds=2)
"""Smaller differences come from the round trip and from the whole seconds of the server's timestamps."""


class UnreadableConfiguration(NamedTuple):
    """A configuration that cannot be read now, and why."""

    problem: str


ConfigurationState = Mapping[str, Any] | UnreadableConfiguration | None
"""The content of a configuration; None if it does not exist."""


class CertificateSnapshot(NamedTuple):
    """The configurations, the Secrets that servers mount, and the authority's Secret. None for a missing one."""

    targets: tuple[tuple[TargetConfiguration, ConfigurationState], ...]
    serving: tuple[tuple[ServingCertificate, Secret | None], ...]
    authority: Secret | None

    def clients(self) -> tuple[Bundle | None, ...]:
        """Return the bundle of each client: of webhooks, of plugins, and of programs that read serving Secrets."""
        found = self._configured()
        found.extend(secret.bundle for _, secret in self.serving if secret is not None)
        return tuple(found)

    def trusted(self) -> Bundle:
        """Return the authorities that at least one configuration trusts."""
        return Bundle(authority for bundle in self._configured() if bundle is not None for authority in bundle)

    def _configured(self) -> list[Bundle | None]:
        """Return the bundle of each field of each configuration; None for an unreadable configuration."""
        found: list[Bundle | None] = []
        for target, state in self.targets:
            if isinstance(state, UnreadableConfiguration):
                found.append(None)
            elif state is not None:
                found.extend(bundles(target.kind, state))
        return found


class Clusters(NamedTuple):
    """The API server that holds the Secrets, and the one that holds the configurations. They may be the same."""

    host: APIClient
    target: APIClient


def read_snapshot(clusters: Clusters, options: CertificateOptions) -> CertificateSnapshot:
    """Read everything in the order that the module describes.

    Raises:
        ApiError: a Secret is unreadable. An unreadable configuration becomes an ``UnreadableConfiguration``.
    """
    return CertificateSnapshot(
        targets=tuple((target, _configuration(clusters.target, target)) for target in options.targets),
        serving=tuple((each, read_secret(clusters.host, (options.namespace, each.secret))) for each in options.serving),
        authority=read_secret(clusters.host, (options.namespace, options.authority_secret)),
    )


def configuration_reference(target: TargetConfiguration, state: ConfigurationState) -> Reference:
    """Return the reference to a configuration for events."""
    metadata = state.get("metadata", {}) if isinstance(state, Mapping) else {}
    return Reference(target.kind.api_version, target.kind.kind, "", target.name, str(metadata.get("uid", "")))


def _configuration(client: APIClient, target: TargetConfiguration) -> ConfigurationState:
    try:
        answer = ask_if_found(client, requests.get(target.kind.collection, ("", target.name)))
        content = decode_json(dict[str, Any], answer) if answer is not None else None
        if content is not None:
            bundles(target.kind, content)
    except (ApiError, InputError) as error:
        return UnreadableConfiguration(str(error)[:_MAX_PROBLEM_LENGTH])
    return content


class _Created(msgspec.Struct, frozen=True):
    metadata: ObjectMeta


class ServerTime:
    """The local clock, corrected by the clock of an API server.

    All replicas agree on the current time, even if the clocks of their machines differ. Otherwise a replica with a
    wrong clock would consider valid certificates expired and replace them with unusable ones.
    """

    def __init__(self, client: APIClient, namespace: str, clock: Clock) -> None:
        self._client = client
        self._namespace = namespace
        self._clock = clock
        self._ahead = timedelta(0)

    def now(self) -> datetime:
        return self._clock.now() - self._ahead

    def adjust(self) -> None:
        """Read the server's time from a dry-run creation of an event.

        Without the right to create events the correction does not change.
        """
        request = requests.create(EVENTS, self._namespace, self._event())
        try:
            answer = ask(self._client, request._replace(query=(("dryRun", "All"),)))
            server_now = decode_json(_Created, answer).metadata.creation_timestamp
        except (ApiError, FieldError):
            return
        if server_now is not None:
            ahead = self._clock.now() - server_now
            self._ahead = ahead if abs(ahead) > _MIN_DIFFERENCE else timedelta(0)

    def _event(self) -> dict[str, Any]:
        """Return a valid event. It is never stored."""
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"generateName": "berthmaster-time-"},
            "eventTime": requests.micro_time(self._clock.now()),
            "reportingController": "berthmaster.io/certs",
            "reportingInstance": "berthmaster",
            "regarding": {
                "apiVersion": "v1",
                "kind": "Namespace",
                "name": self._namespace,
                "namespace": self._namespace,
            },
            "action": "ReadTime",
            "reason": "ReadTime",
            "type": "Normal",
        }
