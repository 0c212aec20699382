"""The control planes that scenarios run on: a model in memory here, a running Karmada in ``live.py``."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from karmada_model.members import Delays, Members
from karmada_model.model import Settings
from karmada_model.objects import Ident, stamp
from karmada_model.stage import SCHEDULER, Stage
from kube_store import JSON

from berthmaster.controllers.moves.config_file import read_moves_config
from berthmaster.controllers.settings import ControllerSettings

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
    """

    kind: str
    namespace: str
    scheduler: str
    prefix: str
    members: Members
    gates: frozenset[str]

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
        """Let time pass until a check returns something true, and return it.

        Raises:
            AssertionError: it did not; the message says what was expected.
        """

    def rest(self, seconds: float) -> None:
        """Let time pass."""


class ModelPlane:
    """The model in memory. It implements ``Plane``."""

    kind = "model"
    namespace = "shop"
    scheduler = SCHEDULER
    prefix = "bm-"
    gates: frozenset[str] = frozenset({"PropagationPolicyPreemption"})

    def __init__(self, delays: Delays | None = None) -> None:
        karmada = Settings(preemption=True, delays=delays or Delays(), reports_resources=True)
        self._stage = Stage(
            karmada=karmada,
            moves=read_moves_config(MOVES_CONFIG),
            settings=ControllerSettings(failover="not-ready", failover_toleration_s=FAILOVER_AFTER_S),
            beside=ControllerSettings(scheduler_name=KARMADA_SCHEDULER),
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


def _as_admitted(manifest: JSON) -> JSON:
    """Return what Karmada's webhook makes of a new policy, as far as the detector reads it."""
    kind, metadata = manifest["kind"], manifest["metadata"]
    if kind not in {"PropagationPolicy", "ClusterPropagationPolicy"}:
        return manifest
    labels = {f"{kind.lower()}.karmada.io/permanent-id": f"id-of-{metadata['name']}"}
    spec = {"preemption": "Never", "conflictResolution": "Abort", **manifest["spec"]}
    if kind == "PropagationPolicy":
        selectors = [{"namespace": metadata["namespace"], **each} for each in spec["resourceSelectors"]]
        spec["resourceSelectors"] = selectors
    finalizer = "karmada.io/" + ("cluster-" if kind.startswith("Cluster") else "") + "propagation-policy-controller"
    return {**manifest, "metadata": {**metadata, "labels": labels, "finalizers": [finalizer]}, "spec": spec}
