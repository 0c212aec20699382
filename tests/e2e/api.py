"""The official client with warnings and refusals as values. It never retries."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kubernetes import config
from kubernetes.client import ApiClient, Configuration
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.exceptions import DynamicApiError, ResourceNotFoundError
from kubernetes.dynamic.resource import Resource

REQUEST_LIMIT_S: Final = 30.0
_WARNING: Final = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')  # RFC 7234, 5.5; the API server sends code 299 only

Manifest = Mapping[str, Any]


@dataclass(frozen=True)
class Reply:
    """The API server's answer: the object, and the texts of its ``Warning`` headers in order."""

    object: dict[str, Any]
    warnings: tuple[str, ...]


class RefusedError(Exception):
    """The API server answered with an error.

    Attributes:
        status: the HTTP status.
        reason: the machine's word, as ``Invalid`` or ``Forbidden``.
        message: the sentence people see.
        fields: the path of each field that is at fault, as programs read them.
        warnings: the texts of the ``Warning`` headers.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        *,
        fields: tuple[str, ...] = (),
        warnings: tuple[str, ...] = (),
    ) -> None:
        self.status = status
        self.reason = reason
        self.message = message
        self.fields = fields
        self.warnings = warnings
        super().__init__(f"{status} {reason}: {message}")


class Api:
    """Create, read, change and delete any object by its manifest.

    Attributes:
        client: the official client underneath, for its typed APIs.
    """

    def __init__(self, kubeconfig: Path, cache: Path) -> None:
        settings = Configuration()
        config.load_kube_config(str(kubeconfig), client_configuration=settings, persist_config=False)
        settings.retries = False  # a request that failed once has failed: some tests count exactly that
        self.client = ApiClient(settings)
        self._dynamic = DynamicClient(self.client, cache_file=str(cache))

    def create(self, manifest: Manifest, *, dry_run: bool = False) -> Reply:
        return self._send("create", manifest, whole(manifest), dry_run=dry_run)

    def replace(self, manifest: Manifest, *, dry_run: bool = False) -> Reply:
        """PUT; without ``metadata.resourceVersion`` it overwrites the stored object."""
        return self._send("replace", manifest, whole(manifest), dry_run=dry_run)

    def patch(
        self,
        target: Manifest,
        change: Mapping[str, Any],
        *,
        dry_run: bool = False,
        subresource: str | None = None,
    ) -> Reply:
        """PATCH with a JSON merge patch.

        Args:
            target: a manifest that says which object; only kind and names are read.
            change: the merge patch; a null removes.
            dry_run: as ``kubectl --dry-run=server``.
            subresource: such as ``status``; None for the object itself.

        Raises:
            RefusedError: by the API server or by a webhook it asked.
        """
        arguments = {**address(target), "body": dict(change), "content_type": "application/merge-patch+json"}
        return self._send("patch", target, arguments, dry_run=dry_run, subresource=subresource)

    def apply(self, manifest: Manifest, *, manager: str = "e2e") -> Reply:
        """Server-side apply, as ``kubectl apply --server-side``."""
        return self._send("server_side_apply", manifest, {**whole(manifest), "field_manager": manager})

    def get(self, target: Manifest) -> dict[str, Any]:
        return self._send("get", target, address(target)).object

    def delete(self, target: Manifest, *, dry_run: bool = False) -> Reply:
        """DELETE the object a manifest names, and what it owns, as ``kubectl delete``. A Job would leave its pods."""
        arguments = {**address(target), "propagation_policy": "Background"}
        return self._send("delete", target, arguments, dry_run=dry_run)

    def exists(self, target: Manifest) -> bool:
        try:
            self.get(target)
        except RefusedError as refusal:
            if refusal.status != 404:
                raise
            return False
        return True

    def lists(self, api_version: str, kind: str) -> bool:
        """Whether the API server lists a kind among those that it serves."""
        try:
            return bool(self._dynamic.resources.get(api_version=api_version, kind=kind))
        except ResourceNotFoundError:
            return False

    def list(self, api_version: str, kind: str, namespace: str | None = None) -> list[dict[str, Any]]:
        target = {"apiVersion": api_version, "kind": kind}
        return self._send("get", target, {"namespace": namespace}).object["items"]

    def _send(
        self,
        verb: str,
        manifest: Manifest,
        arguments: dict[str, Any],
        *,
        dry_run: bool = False,
        subresource: str | None = None,
    ) -> Reply:
        resource = self._dynamic.resources.get(api_version=manifest["apiVersion"], kind=manifest["kind"])
        endpoint: Resource = resource.subresources[subresource] if subresource else resource
        if dry_run:
            arguments = {**arguments, "dry_run": "All"}
        try:
            response = getattr(endpoint, verb)(serialize=False, _request_timeout=REQUEST_LIMIT_S, **arguments)
        except DynamicApiError as error:
            raise refusal_of(error) from None
        return Reply(json.loads(response.data), warnings_in(response.headers))


def namespace_of(manifest: Manifest) -> str | None:
    return manifest["metadata"].get("namespace")


def whole(manifest: Manifest) -> dict[str, Any]:
    return {"body": dict(manifest), "namespace": namespace_of(manifest)}


def address(manifest: Manifest) -> dict[str, str | None]:
    return {"name": manifest["metadata"]["name"], "namespace": namespace_of(manifest)}


def warnings_in(headers: Any) -> tuple[str, ...]:
    texts = (match for line in headers.getlist("Warning") for match in _WARNING.findall(line))
    return tuple(re.sub(r"\\(.)", r"\1", text) for text in texts)


def refusal_of(error: DynamicApiError) -> RefusedError:
    """Convert the client's error; its body is a ``v1.Status`` unless a proxy answered."""
    try:
        status = json.loads(error.body or "{}")
    except json.JSONDecodeError:
        status = {}
    causes = (status.get("details") or {}).get("causes") or []
    return RefusedError(
        error.status,
        status.get("reason") or error.reason,
        status.get("message") or str(error.body),
        fields=tuple(cause.get("field", "") for cause in causes),
        warnings=warnings_in(error.headers) if error.headers else (),
    )
