"""The host cluster: what runs there, and the webhook's serving Secret."""

import base64
import binascii
import http.client
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import urlsplit

from berthmaster.kube.requests import APIRequest, Collection, get
from berthmaster.model.errors import ApiError
from berthmaster_cli.doctor.facts import Probe, Setup, Stored, Workload
from berthmaster_cli.doctor.gather.asker import Asker
from certs.bundle import certificate_of, key_fits
from certs.secrets import SECRETS

DEPLOYMENTS: Final = Collection.of("apps/v1", "deployments")
_KARMADA: Final = frozenset({"karmada-scheduler", "karmada-controller-manager"})
_OURS: Final = frozenset({"webhook", "controllers", "extender"})
_MAX_DEPLOYMENTS: Final = 500
_MAX_BYTES: Final = 64 * 1024
_PLAIN_PORT: Final = 80


def workloads(asker: Asker, setup: Setup) -> list[Workload]:
    """The Deployments of Karmada and of the release.

    Raises:
        ApiError: they cannot be listed.
    """
    found: dict[tuple[str, str], Workload] = {}
    for namespace in dict.fromkeys((setup.karmada_namespace, setup.namespace)):
        query = (("limit", str(_MAX_DEPLOYMENTS)),)
        for item in asker.read(APIRequest(DEPLOYMENTS.within(namespace), query)).get("items") or []:
            for workload in _workloads(item):
                found[namespace, f"{workload.name}/{workload.component}"] = workload
    return list(found.values())


def stored(asker: Asker, setup: Setup) -> Stored | None:
    """The Secret that the webhook serves from; None if there is none.

    Raises:
        ApiError: it cannot be read.
    """
    name = f"{setup.release}-webhook-tls"
    try:
        data = asker.read(get(SECRETS, (setup.namespace, name))).get("data") or {}
    except ApiError as error:
        if error.not_found:
            return None
        raise
    leaf = certificate_of(_decoded(data.get("tls.crt")))
    return Stored(name, leaf, leaf is not None and key_fits(leaf, _decoded(data.get("tls.key"))))


def _workloads(item: Mapping[str, Any]) -> Iterator[Workload]:
    spec, status = item.get("spec") or {}, item.get("status") or {}
    for container in ((spec.get("template") or {}).get("spec") or {}).get("containers") or []:
        arguments = tuple(map(str, [*(container.get("command") or ()), *(container.get("args") or ())]))
        component = _component(arguments)
        if component:
            yield Workload(
                name=str((item.get("metadata") or {}).get("name")),
                component=component,
                arguments=arguments,
                wanted=int(spec.get("replicas", 1)),
                ready=int(status.get("readyReplicas") or 0),
            )


def _component(arguments: tuple[str, ...]) -> str:
    """Which component it is, by the program it runs; the image's entry point is ours where only a command is named."""
    words = [PurePosixPath(each).name for each in arguments[:2]]
    for word in words:
        if word in _KARMADA:
            return word
    if words and words[0] == "berthmaster":
        words = words[1:]
    return words[0] if words and words[0] in _OURS else ""


def _decoded(text: object) -> bytes:
    try:
        return base64.b64decode(str(text or ""))
    except (binascii.Error, ValueError):
        return b""


def probe(url: str, limit_s: float) -> Probe:
    """What ``/readyz`` of a server says.

    Args:
        url: ``http://HOST[:PORT]``; a path in it takes the place of ``/readyz``.
        limit_s: how long the server may be silent.
    """
    try:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            return Probe(url, 0, "it is no URL as http://127.0.0.1:9080")
        path = parts.path if parts.path not in {"", "/"} else "/readyz"
        with closing(http.client.HTTPConnection(parts.hostname, parts.port or _PLAIN_PORT, timeout=limit_s)) as link:
            link.request("GET", path)
            answer = link.getresponse()
            return Probe(url, answer.status, _line(answer.read(_MAX_BYTES)))
    except (OSError, http.client.HTTPException, ValueError) as error:
        return Probe(url, 0, str(error) or type(error).__name__)


def _line(body: bytes) -> str:
    return " ".join(body.decode(errors="replace").split())[:200]
