"""Read everything that decisions depend on.

Objects that depend on the authority are read before the authority. If the authority has changed in between and the
change has reached the object, a later write is refused. A delayed writer therefore never replaces a newer bundle or
leaf with an older one.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from berthmaster.kube import requests
from berthmaster.kube.client import APIClient, ask_if_found
from berthmaster.kube.events import Reference
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import ApiError, InputError
from certs.bundle import Bundle
from certs.bundle_fields import bundles
from certs.options import CertificateOptions, ServingCertificate, TargetConfiguration
from certs.ownership import owner_of
from certs.secrets import Secret, read_secret

_MAX_PROBLEM_LENGTH: Final = 300


class UnreadableConfiguration(NamedTuple):
    problem: str


class ForeignConfiguration(NamedTuple):
    """A configuration that another installation registered. Its bundle is for the servers of that installation."""

    owner: str
    about: Reference


ConfigurationState = Mapping[str, Any] | UnreadableConfiguration | ForeignConfiguration | None
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
        return Bundle(authority for bundle in self._configured() if bundle is not None for authority in bundle)

    def _configured(self) -> list[Bundle | None]:
        """Return the bundle of each field of each configuration; None for an unreadable configuration."""
        found: list[Bundle | None] = []
        for target, state in self.targets:
            if isinstance(state, UnreadableConfiguration):
                found.append(None)
            elif isinstance(state, Mapping):
                found.extend(bundles(target.kind, state))
        return found


class Clusters(NamedTuple):
    """The API server that holds the Secrets, and the one that holds the configurations. They may be the same."""

    host: APIClient
    target: APIClient


def read_snapshot(clusters: Clusters, options: CertificateOptions) -> CertificateSnapshot:
    """Read everything in the order that the module describes. Raises ``ApiError`` if a Secret is unreadable."""
    return CertificateSnapshot(
        targets=tuple(
            (target, _configuration(clusters.target, target, options.registered_by)) for target in options.targets
        ),
        serving=tuple((each, read_secret(clusters.host, (options.namespace, each.secret))) for each in options.serving),
        authority=read_secret(clusters.host, (options.namespace, options.authority_secret)),
    )


def configuration_reference(target: TargetConfiguration, content: Mapping[str, Any]) -> Reference:
    metadata = content.get("metadata", {})
    return Reference(target.kind.api_version, target.kind.kind, "", target.name, str(metadata.get("uid", "")))


def _configuration(client: APIClient, target: TargetConfiguration, registered_by: str) -> ConfigurationState:
    try:
        answer = ask_if_found(client, requests.get(target.kind.collection, ("", target.name)))
        content = decode_json(dict[str, Any], answer) if answer is not None else None
        owner = owner_of(content)
        if content is not None and owner and owner != registered_by:
            return ForeignConfiguration(owner, configuration_reference(target, content))
        if content is not None:
            bundles(target.kind, content)
    except (ApiError, InputError) as error:
        return UnreadableConfiguration(str(error)[:_MAX_PROBLEM_LENGTH])
    return content
