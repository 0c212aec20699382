"""A whole control plane in memory: the API server, the modelled Karmada, and Berthmaster's binding scheduler.

The test's thread does all work, and the time is the test's. What a user would do with kubectl is a method.
"""

import random
from collections.abc import Callable
from typing import Any, Final

from fake_clock import FakeClock
from karmada_model.agenda import MAX_STEPS
from karmada_model.detector import binding_of
from karmada_model.model import ALL, KarmadaModel, Settings, in_memory
from karmada_model.objects import ident
from karmada_model.scheduler import SteppedScheduler
from karmada_plane import serve_karmada
from kube_in_memory import KubeInMemory
from kube_store import JSON, copied, merged

from berthmaster.controllers.settings import ControllerSettings
from berthmaster.deciding.config import MovesConfig

SCHEDULER: Final = "berthmaster"
_KINDS: Final = (
    ("work.karmada.io/v1alpha1", "Work", "works", True),
    ("policy.karmada.io/v1alpha1", "FederatedResourceQuota", "federatedresourcequotas", True),
    ("policy.karmada.io/v1alpha1", "OverridePolicy", "overridepolicies", True),
    ("apps.karmada.io/v1alpha1", "WorkloadRebalancer", "workloadrebalancers", False),
    ("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", False),
    ("batch/v1", "Job", "jobs", True),
    ("v1", "Service", "services", True),
    ("v1", "ServiceAccount", "serviceaccounts", True),
    ("v1", "PersistentVolumeClaim", "persistentvolumeclaims", True),
)


def serve(api: KubeInMemory) -> None:
    """Serve the kinds that the model and the scheduler use."""
    serve_karmada(api)
    for api_version, kind, plural, namespaced in _KINDS:
        api.served.add(api_version, kind, plural, namespaced=namespaced)


class Stage:
    """A control plane in memory.

    Attributes:
        api: the API server. Its faults affect the scheduler only.
        clock: the time of everything.
        model: Karmada's controllers and the members.
        scheduler: the binding scheduler; None if the test does without.
        beside: another scheduler with a name of its own, in place of karmada-scheduler; None if there is none.
    """

    def __init__(
        self,
        *stored: JSON,
        karmada: Settings | None = None,
        settings: ControllerSettings | None = None,
        chance: random.Random | None = None,
        only: tuple[str, ...] = ALL,
        scheduled: bool = True,
        moves: MovesConfig | None = None,
        beside: ControllerSettings | None = None,
    ) -> None:
        """Make it.

        Args:
            stored: objects that exist from the start.
            karmada: how Karmada is configured.
            settings: how the binding scheduler is configured.
            chance: chooses whose turn it is; None takes turns in order.
            only: the controllers of Karmada that work.
            scheduled: whether there is a binding scheduler.
            moves: the configuration of its moves; None for the default one.
            beside: how another scheduler is configured; None for none.
        """
        self.clock = FakeClock()
        self.api = KubeInMemory(self.clock.now)
        serve(self.api)
        for each in stored:
            self.put(each)
        self.model: KarmadaModel = in_memory(self.api, self.clock, karmada, only=only, chance=chance)
        self._settings = settings
        self._chance = chance
        self._moves = moves
        self.scheduler = SteppedScheduler(self.api, self.clock, settings, moves) if scheduled else None
        self.beside = SteppedScheduler(self.api, self.clock, beside) if beside is not None else None

    # Time

    def step(self) -> bool:
        turns: list[Callable[[], bool]] = [self.model.step, *(each.step for each in self._schedulers())]
        if self._chance is not None:
            self._chance.shuffle(turns)
        return any(turn() for turn in turns)

    def settle(self) -> int:
        for steps in range(MAX_STEPS):
            if not self.step():
                return steps
        raise AssertionError("the control plane does not come to rest")

    def run(self, seconds: float) -> None:
        """Let time pass. Everything happens when it is due."""
        end_s = self.clock.monotonic_s() + seconds
        self.settle()
        while (left_s := end_s - self.clock.monotonic_s()) > 0:
            waits = [self.model.next_s(), *(each.next_s() for each in self._schedulers())]
            wait_s = min([each for each in waits if each is not None], default=left_s)
            # At least a millisecond, so that rounding cannot stop the time.
            self.clock.pass_by(min(max(wait_s, 0.001), left_s))
            self.settle()

    def restart_scheduler(self, moves: MovesConfig | None = None, file: MovesConfig | None = None) -> None:
        """Replace the binding scheduler by a new process, which lists everything.

        ``moves`` is the configuration that it read when it started, and ``file`` the one when it leads.
        """
        self.scheduler = SteppedScheduler(self.api, self.clock, self._settings, moves or self._moves, file)

    def _schedulers(self) -> list[SteppedScheduler]:
        return [each for each in (self.scheduler, self.beside) if each is not None]

    # What users do

    def put(self, manifest: JSON) -> JSON:
        return self.api.put(self.api.served.path(manifest), manifest)

    def apply(self, manifest: JSON) -> JSON:
        """Create an object, or merge the manifest into the stored one. ``spec`` is replaced as a whole."""
        path = self.api.served.path(manifest)
        before = self.api.get(path)
        if before is None:
            return self.put({**manifest, "metadata": {**manifest["metadata"]}})
        after = merged(before, {key: value for key, value in manifest.items() if key != "spec"})
        return self.api.put(path, {**after, **({"spec": manifest["spec"]} if "spec" in manifest else {})})

    def edit(self, manifest: JSON, **patch: Any) -> JSON:
        return self.api.edit(self.api.served.path(manifest), **patch)

    def scale(self, template: JSON, replicas: int) -> JSON:
        return self.edit(template, spec={"replicas": replicas})

    def delete(self, manifest: JSON) -> None:
        """Delete an object. It stays until its finalizers are gone."""
        self.model.objects.delete(ident(manifest))

    # What tests look at

    def get(self, manifest: JSON) -> JSON | None:
        return self.api.get(self.api.served.path(manifest))

    def binding(self, template: JSON) -> JSON | None:
        found = self.model.objects.get(binding_of(template))
        return None if found is None else dict(copied(found))

    def assignment(self, template: JSON) -> dict[str, int]:
        found = self.model.objects.get(binding_of(template))
        return {each["name"]: each.get("replicas", 0) for each in (found or {"spec": {}})["spec"].get("clusters") or ()}

    def works(self, template: JSON) -> dict[str, JSON]:
        """Return the Works of a template by cluster, also those that are being deleted."""
        wanted = ident(template)
        return {
            each["metadata"]["namespace"].removeprefix("karmada-es-"): each
            for each in self.model.objects.all("Work")
            if ident(each["spec"]["workload"]["manifests"][0]) == wanted
        }

    def holder(self, template: JSON) -> str:
        found = self.model.objects.get(ident(template))
        annotations = found["metadata"].get("annotations", {}) if found is not None else {}
        names = [annotations.get(f"{prefix}propagationpolicy.karmada.io/name") for prefix in ("", "cluster")]
        return next((name for name in names if name), "")

    def condition(self, template: JSON, kind: str = "Scheduled") -> JSON:
        found = self.model.objects.get(binding_of(template)) or {}
        conditions = found.get("status", {}).get("conditions") or ()
        return next((dict(each) for each in conditions if each["type"] == kind), {})
