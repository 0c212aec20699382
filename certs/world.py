"""All that decisions depend on, read from the API servers in an order that makes old news harmless.

What depends on the authority is read first, the authority last. Whoever then writes, guarded by the version of what was
read first, cannot have missed a change of the authority that has already reached the thing it writes: however long it
was held up in between, it never puts an older bundle or an older authority's leaf in the place of a newer one.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from berthmaster.kube import requests
from berthmaster.kube.client import APIClient, ask
from berthmaster.kube.events import Reference
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import ApiError, InputError
from certs.bundle import Bundle
from certs.injection import bundles
from certs.options import Options, Serving, Target
from certs.secrets import Secret, read_secret

_MAX_TOLD: Final = 300


class Unknown(NamedTuple):
    """A configuration that cannot be looked at now.

    Attributes:
        problem: why.
    """

    problem: str


Seen = Mapping[str, Any] | Unknown | None
"""A configuration as it is; None where there is none."""


class World(NamedTuple):
    """What there is.

    Attributes:
        targets: the configurations.
        serving: the Secrets that servers mount; None for one that is not there.
        authority: the Secret with the authority.
    """

    targets: tuple[tuple[Target, Seen], ...]
    serving: tuple[tuple[Serving, Secret | None], ...]
    authority: Secret | None

    def clients(self) -> tuple[Bundle | None, ...]:
        """The bundle of each client: of webhooks, plugins, and whoever reads the files beside leaves."""
        held: list[Bundle | None] = []
        for target, seen in self.targets:
            held.extend([None] if isinstance(seen, Unknown) else bundles(target.kind, seen) if seen is not None else [])
        held.extend(secret.bundle for _, secret in self.serving if secret is not None)
        return tuple(held)


class Clusters(NamedTuple):
    """Where things are.

    Attributes:
        host: has the Secrets; servers run there.
        target: has the configurations; may be the same.
    """

    host: APIClient
    target: APIClient


def read_world(clusters: Clusters, options: Options) -> World:
    """Everything, in the order that the module describes.

    Raises:
        ApiError: a Secret cannot be read; configurations that cannot are ``Unknown``.
    """
    return World(
        targets=tuple((target, _seen(clusters.target, target)) for target in options.targets),
        serving=tuple((each, read_secret(clusters.host, (options.namespace, each.secret))) for each in options.serving),
        authority=read_secret(clusters.host, (options.namespace, options.authority_secret)),
    )


def target_reference(target: Target, seen: Seen) -> Reference:
    """What events about a configuration are about."""
    metadata = seen.get("metadata", {}) if isinstance(seen, Mapping) else {}
    return Reference(target.kind.api_version, target.kind.kind, "", target.name, str(metadata.get("uid", "")))


def _seen(client: APIClient, target: Target) -> Seen:
    try:
        answer = ask(client, requests.get(target.kind.collection, ("", target.name)))
        content = decode_json(dict[str, Any], answer)
        bundles(target.kind, content)
    except ApiError as error:
        return None if error.not_found else Unknown(str(error)[:_MAX_TOLD])
    except InputError as error:
        return Unknown(str(error)[:_MAX_TOLD])
    return content
