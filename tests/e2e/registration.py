"""Webhooks made known to the API server, and the moment from which it really calls them."""

import base64
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from e2e.control_plane import ControlPlane
from e2e.manifests import unique
from e2e.processes import wait_for

EFFECT_LIMIT_S: Final = 30.0
CALL_LIMIT_S: Final = 10  # the API server's own deadline for a call; its maximum is 30
API_VERSION: Final = "admissionregistration.k8s.io/v1"
KINDS: Final = {"mutate": "MutatingWebhookConfiguration", "validate": "ValidatingWebhookConfiguration"}


@dataclass(frozen=True)
class Hook:
    """One webhook: what it is asked about, and where.

    Attributes:
        path: below the webhook's URL; its first word is ``mutate``, ``validate`` or ``impact``.
        group, resource: which objects, in any version.
        operations: which requests.
    """

    path: str
    group: str
    resource: str
    operations: Sequence[str] = ("CREATE", "UPDATE", "DELETE")

    @property
    def verb(self) -> str:
        """``mutate`` or ``validate``. The reviews of impacts mutate, too: they drop an annotation."""
        word = self.path.lstrip("/").partition("-")[0]
        return "mutate" if word == "impact" else word

    def entry(self, name: str, url: str, authority: bytes, timeout_s: int = CALL_LIMIT_S) -> dict[str, Any]:
        rule = {"apiGroups": [self.group], "apiVersions": ["*"], "operations": list(self.operations)}
        return {
            "name": name,
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": url + self.path, "caBundle": base64.b64encode(authority).decode()},
            "failurePolicy": "Fail",
            "rules": [{**rule, "resources": [self.resource], "scope": "*"}],
            "sideEffects": "None",
            "timeoutSeconds": timeout_s,
        }


class Registration:
    """A set of hooks that the API server calls at one URL.

    Attributes:
        name: the suffix of the names of all its webhooks; it is unique.
    """

    def __init__(
        self,
        plane: ControlPlane,
        hooks: Iterable[Hook],
        url: str,
        authority: bytes,
        samples: Iterable[Mapping[str, Any]],
    ) -> None:
        self._plane = plane
        self._samples = tuple(samples)
        self._hooks = tuple(hooks)
        self._url = url
        self.name = unique("e2e") + ".berthmaster.io"
        for manifest in self._manifests(authority):
            plane.api.create(manifest)

    def wait_until_called(self) -> None:
        """Send dry runs of the samples until every hook has been called."""

        def all_called() -> bool:
            self._send_samples()
            idle = [hook.path for hook in self._hooks if not self.calls(hook)]
            assert not idle, f"never called: {', '.join(idle)}"
            return True

        wait_for("the API server to call the webhooks", all_called, EFFECT_LIMIT_S)

    def calls(self, hook: Hook) -> int:
        return count(self._plane, "apiserver_admission_webhook_request_total", self._hook_name(hook))

    def remove(self) -> None:
        """Delete the configurations and wait until no hook is called any more."""
        for manifest in self._manifests(b""):
            self._plane.api.delete(manifest)

        def quiet() -> bool:
            before = sum(map(self.calls, self._hooks))
            self._send_samples()
            return sum(map(self.calls, self._hooks)) == before

        wait_for("the API server to forget the webhooks", quiet, EFFECT_LIMIT_S)

    def _send_samples(self) -> None:
        for manifest in self._samples:
            self._plane.api.create(manifest, dry_run=True)

    def _hook_name(self, hook: Hook) -> str:
        return f"{hook.path.strip('/')}.{self.name}"

    def _manifests(self, authority: bytes) -> Iterator[dict[str, Any]]:
        for verb, kind in KINDS.items():
            hooks = [hook for hook in self._hooks if hook.verb == verb]
            entries = [hook.entry(self._hook_name(hook), self._url, authority) for hook in hooks]
            yield configuration(kind, self.name, entries)


def configuration(kind: str, name: str, entries: list[dict[str, Any]]) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "webhooks": entries}


@contextmanager
def registered(
    plane: ControlPlane,
    hooks: Iterable[Hook],
    url: str,
    authority: bytes,
    samples: Iterable[Mapping[str, Any]],
) -> Iterator[Registration]:
    """Hooks that are called from here on, and no longer after the block.

    Args:
        plane: who is to call.
        hooks: what to call.
        url: where, up to the path.
        authority: PEM certificates the server's must be signed by.
        samples: acceptable objects, such that each hook is asked about one.
    """
    registration = Registration(plane, hooks, url, authority, samples)
    try:
        registration.wait_until_called()
        yield registration
    finally:
        registration.remove()


def count(plane: ControlPlane, metric: str, webhook: str) -> int:
    """The sum of a counter of the API server over all its lines for one webhook."""
    pattern = rf'^{metric}{{[^}}]*name="{re.escape(webhook)}"[^}}]*}} (\S+)$'
    lines = re.finditer(pattern, plane.text("/metrics") or "", re.MULTILINE)
    return sum(int(float(line[1])) for line in lines)
