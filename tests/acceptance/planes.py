"""The control planes that scenarios run on: a model in memory here, a running Karmada in ``live.py``."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from karmada_model.members import Delays, Members
from karmada_model.model import Settings
from karmada_model.objects import Ident, stamp
from karmada_model.stage import SCHEDULER, Stage
from kube_store import JSON
from reviews import STANDALONE, admission_review, answer, patched

from berthmaster.controllers.moves.config_file import read_moves_config
from berthmaster.controllers.settings import GATES, ControllerSettings, EstimatorSettings
from berthmaster.kube.requests import APIRequest
from berthmaster.model.claims import PERMANENT_ID
from berthmaster.model.errors import ApiError
from berthmaster.runtime.feature_gates import SCHEDULING_OVERCOMMIT_PROTECTION, FeatureGates

Value = TypeVar("Value")
LIMIT_S: Final = 120.0
"""How long scenarios wait, in the time of their control plane."""
MOVES_CONFIG: Final = Path(__file__).with_name("moves.yaml")
KARMADA_SCHEDULER: Final = "default-scheduler"
FAILOVER_AFTER_S: Final = 5.0
OWN_TAINT: Final = "acceptance.berthmaster.io/own"
"""Keeps workloads of others away from the clusters of the suite."""


class Plane(Protocol):
    """A control plane with Karmada's controllers, Berthmaster's binding scheduler, and members that the suite plays.

    Attributes:
        kind: ``model`` or ``karmada``.
        namespace: where the resources of the scenario are.
        scheduler: the name of Berthmaster's scheduler.
        prefix: how the names of the scenario's clusters, and of its cluster-scoped resources, start.
        members: the member clusters.
        gates: the feature gates of Karmada that are on, besides those that are on by default.
        preempts: whether Berthmaster's preemption controller runs.
    """

    kind: str
    namespace: str
    scheduler: str
    prefix: str
    members: Members
    gates: frozenset[str]
    preempts: bool

    def apply(self, manifest: JSON) -> None:
        """Create an object, with its status."""

    def edit(self, manifest: JSON, **patch: Any) -> None:
        """Merge a patch into an object."""

    def change(self, which: Ident, mutate: Callable[[JSON], object], *, status: bool = False) -> None:
        """Change an object as another controller would."""

    def delete(self, manifest: JSON) -> None:
        """Delete an object."""

    def get(self, which: Ident) -> JSON | None:
        """Return an object, or None."""

    def all(self, kind: str) -> list[JSON]:
        """Return the Works, clusters or bindings."""

    def wait(self, what: str, check: Callable[[], Value], limit_s: float = LIMIT_S) -> Value:
        """Let time pass until a check returns something true, and return it."""

    def rest(self, seconds: float) -> None:
        """Let time pass."""

    def limit_cpu(self, cpus: int) -> None:
        """Limit the CPUs of all bindings in the namespace by a FederatedResourceQuota, or change the limit."""

    def use_webhook(self) -> None:
        """Let Berthmaster's webhook check the policies of the namespace from now on."""


class ModelPlane:
    """The model in memory. It implements ``Plane``."""

    kind = "model"
    namespace = "shop"
    scheduler = SCHEDULER
    prefix = "bm-"
    preempts = False
    gates: frozenset[str] = frozenset(
        {"PropagationPolicyPreemption", "FederatedQuotaEnforcement", "MultiplePodTemplatesScheduling"}
    )

    def __init__(self, delays: Delays | None = None, estimators: EstimatorSettings | None = None) -> None:
        karmada = Settings(preemption=True, delays=delays or Delays(), reports_resources=True)
        self._stage = Stage(
            karmada=karmada,
            moves=read_moves_config(MOVES_CONFIG),
            settings=ControllerSettings(
                failover="not-ready", failover_toleration_s=FAILOVER_AFTER_S, estimators=estimators
            ),
            beside=ControllerSettings(
                scheduler_name=KARMADA_SCHEDULER,
                gates=FeatureGates(GATES, {SCHEDULING_OVERCOMMIT_PROTECTION.name: False}),
            ),
        )
        self.members = self._stage.model.members

    def apply(self, manifest: JSON) -> None:
        content = _as_admitted(manifest)
        created = {"creationTimestamp": stamp(self._stage.clock.now())}
        self._stage.put({**content, "metadata": {**content["metadata"], **created}})

    def edit(self, manifest: JSON, **patch: Any) -> None:
        self._stage.edit(manifest, **patch)

    def change(self, which: Ident, mutate: Callable[[JSON], object], *, status: bool = False) -> None:
        self._stage.model.objects.change(which, mutate, status=status)

    def delete(self, manifest: JSON) -> None:
        self._stage.delete(manifest)

    def get(self, which: Ident) -> JSON | None:
        return self._stage.model.objects.get(which)

    def all(self, kind: str) -> list[JSON]:
        return list(self._stage.model.objects.all(kind))

    def wait(self, what: str, check: Callable[[], Value], limit_s: float = LIMIT_S) -> Value:
        for _ in range(int(limit_s)):
            self._stage.settle()
            if found := check():
                return found
            self._stage.run(1.0)
        raise AssertionError(f"after {limit_s:g} s still not: {what}")

    def rest(self, seconds: float) -> None:
        self._stage.run(seconds)

    def limit_cpu(self, cpus: int) -> None:
        """Refuse assignments as Karmada's webhook does (karmada-semantics.md, section 1.8)."""
        self._stage.apply(quota(self.namespace, cpus))

        def check(request: APIRequest) -> None:
            if request.method != "PATCH" or "/resourcebindings/" not in request.path or "/status" in request.path:
                return
            clusters = json.loads(request.body).get("spec", {}).get("clusters") or ()
            if sum(each.get("replicas", 0) for each in clusters) > cpus:
                raise ApiError(403, "QuotaExceeded", "the FederatedResourceQuota is exceeded")

        self._stage.api.before = check

    def use_webhook(self) -> None:
        """Do nothing: here every policy passes the webhook."""

    def close(self) -> None:
        scheduler = self._stage.scheduler
        if scheduler is not None and (estimators := scheduler.controller._estimators) is not None:  # noqa: SLF001 - no other part closes the channels of a scheduler that never started
            estimators.close()


def quota(namespace: str, cpus: int) -> JSON:
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "FederatedResourceQuota",
        "metadata": {"name": "limit", "namespace": namespace},
        "spec": {"overall": {"cpu": str(cpus)}},
    }


def _as_admitted(manifest: JSON) -> JSON:
    """Return what Berthmaster's webhook makes of a new policy, in place of Karmada's."""
    kind = manifest["kind"]
    if kind not in PERMANENT_ID:
        return manifest
    for verb in ("mutate", "validate"):
        response = answer(f"/{verb}-{kind.lower()}", admission_review(manifest), STANDALONE)
        if not response["allowed"]:
            raise ApiError(403, "Forbidden", response["status"]["message"])
        manifest = patched(manifest, response)
    manifest["metadata"]["labels"][PERMANENT_ID[kind]] = f"id-of-{manifest['metadata']['name']}"
    return manifest
