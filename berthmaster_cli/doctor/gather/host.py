"""Facts about the host: Deployments, the webhook's serving Secret, and probe endpoints."""

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import urlsplit

from berthmaster.kube.requests import APIRequest, Collection
from berthmaster.native_api.connection import UnansweredError, WebClient
from berthmaster_cli.doctor.facts import DeploymentFacts, ProbeFacts, SecretFacts, Setup
from berthmaster_cli.doctor.gather.client import DoctorClient
from certs.bundle import key_fits
from certs.secrets import read_secret

DEPLOYMENTS: Final = Collection.of("apps/v1", "deployments")
_KARMADA: Final = frozenset({"karmada-scheduler", "karmada-controller-manager"})
_OURS: Final = frozenset({"webhook", "controllers", "extender", "console"})
_MAX_DEPLOYMENTS: Final = 500
_MAX_PROBE_BYTES: Final = 64 * 1024


def deployments(client: DoctorClient, setup: Setup) -> list[DeploymentFacts]:
    """List the Deployments of Karmada and of the release."""
    found: dict[tuple[str, str], DeploymentFacts] = {}
    for namespace in dict.fromkeys((setup.karmada_namespace, setup.namespace)):
        request = APIRequest(DEPLOYMENTS.within(namespace), (("limit", str(_MAX_DEPLOYMENTS)),))
        for item in client.read(request).get("items") or []:
            for deployment in _deployments(item):
                found[namespace, f"{deployment.name}/{deployment.component}"] = deployment
    return list(found.values())


def serving_secret(client: DoctorClient, setup: Setup) -> SecretFacts | None:
    """Read the Secret that the webhook serves from; None if it does not exist."""
    name = f"{setup.release}-webhook-tls"
    secret = read_secret(client, (setup.namespace, name))
    if secret is None:
        return None
    leaf = secret.leaf.certificate
    return SecretFacts(name, leaf, leaf is not None and key_fits(leaf, secret.leaf.key_pem))


def _deployments(item: Mapping[str, Any]) -> Iterator[DeploymentFacts]:
    spec, status = item.get("spec") or {}, item.get("status") or {}
    for container in ((spec.get("template") or {}).get("spec") or {}).get("containers") or []:
        arguments = tuple(map(str, [*(container.get("command") or ()), *(container.get("args") or ())]))
        component = _component(arguments)
        if component:
            yield DeploymentFacts(
                name=str((item.get("metadata") or {}).get("name")),
                component=component,
                arguments=arguments,
                wanted=int(spec.get("replicas", 1)),
                ready=int(status.get("readyReplicas") or 0),
            )


def _component(arguments: tuple[str, ...]) -> str:
    """Return the component that a container runs, by its program. Our image needs a subcommand only."""
    words = [PurePosixPath(each).name for each in arguments[:2]]
    for word in words:
        if word in _KARMADA:
            return word
    if words and words[0] == "berthmaster":
        words = words[1:]
    return words[0] if words and words[0] in _OURS else ""


def probe(url: str, limit_s: float) -> ProbeFacts:
    """Ask ``/readyz`` of a server. ``url`` is ``http://HOST[:PORT]``. A path in it replaces ``/readyz``."""
    try:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            return ProbeFacts(url, 0, "the URL is not like http://127.0.0.1:9080")
        path = parts.path if parts.path not in {"", "/"} else "/readyz"
        with WebClient(url, limit_s) as client:
            answer = client.ask("GET", path, most_bytes=_MAX_PROBE_BYTES)
        return ProbeFacts(url, answer.status, " ".join(answer.content.decode(errors="replace").split())[:200])
    except UnansweredError as error:
        return ProbeFacts(url, 0, error.problem)
    except ValueError as error:
        return ProbeFacts(url, 0, str(error))
