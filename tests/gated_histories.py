"""Random histories of policies behind the gate, with the model of Karmada as the judge.

Several authors create, edit and delete policies, try changes by dry runs, and accept plans. The gate refuses what moves
more than a limit. Whatever the order: what is stored moves no more workloads than the limit for each change, and an
accepted plan no more than the answer said that had its id.
"""

import json
import random
import re
from collections.abc import Iterator
from typing import Any, Final

from extender_in_process import ExtenderInProcess
from fake_metrics import FakeMetrics
from gated_plane import GatedPlane, Verdict
from karmada_model.members import Delays
from karmada_model.model import Settings
from karmada_model.stage import Stage
from karmada_plane import cluster, deployment, policy, selector
from kube_store import JSON
from waiting import wait_for

from berthmaster.controllers.settings import ControllerSettings
from berthmaster.kube.kinds import KARMADA_BINDINGS
from berthmaster.native_api.connection import REVIEW_PATH, Answer
from extender.state.templates import KindName
from webhook.admission import wire
from webhook.admission.blast_radius import BlastRadius
from webhook.admission.catalog import ROUTES
from webhook.admission.context import AdmissionContext
from webhook.admission.impact import NotComputed, PolicyImpact, ReviewedChange
from webhook.admission.reviews import review
from webhook.admission.settings import AdmissionSettings, Level
from webhook.impact import ExtenderImpact

LIMIT: Final = 1
"""How many workloads a change may move."""
WORKLOADS: Final = 12
_CLUSTERS: Final = ("m0", "m1", "m2", "m3")
_TEAMS: Final = ("red", "green")
_AUTHORS: Final = ("alice", "bob", "carol")
_TIME_S: Final = 30.0
_BINDINGS: Final = KARMADA_BINDINGS[0]
_DEPLOYMENTS: Final = KindName("apps/v1", "Deployment")
_KEPT_S: Final = 61.0
_COUNTED: Final = re.compile(r"(?:at least )?(\d+) of \d+ workloads? moves?")
_PLAN: Final = re.compile(r"plan ([0-9a-f]{16})|accept-plan: ([0-9a-f]{16})")


class GateInProcess:
    """The webhook and the extender without sockets. ``ask`` is what a ``GatedPlane`` needs."""

    def __init__(self, stage: Stage) -> None:
        self.extender = ExtenderInProcess(stage.api, clock=stage.clock)
        self._client = self.extender.client()
        limits = BlastRadius(moved=LIMIT)
        self._source = ExtenderImpact(self, stage.clock, FakeMetrics().answered, timeout_s=_TIME_S, limits=limits)
        levels = {"blast-radius": Level.DENY}
        settings = AdmissionSettings(levels=levels, blast_radius=limits, unreachable=Level.DENY)
        self._context = AdmissionContext(settings, lambda: "id").asking(self)

    def ask(self, path: str, document: JSON) -> JSON:
        """Answer an AdmissionReview."""
        request = wire.decode(json.dumps(document).encode())
        response: JSON = json.loads(wire.encode(request.uid, review(ROUTES[path], request, self._context)))["response"]
        return response

    def impact(self, change: ReviewedChange) -> PolicyImpact | NotComputed:
        return self._source.ask(change, _TIME_S)

    def post(self, body: bytes, _timeout_s: float) -> Answer:
        """Ask the extender. See ``ReviewClient``."""
        headers = {"Content-Type": "application/json"}
        return self._client._connection.ask("POST", REVIEW_PATH, body, headers)  # noqa: SLF001 - no socket


class GatedHistory:
    """A fleet behind the gate. ``play`` plays one more sequence of actions on it."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self._templates = [deployment(f"w{number}", 2) for number in range(WORKLOADS)]
        for each in self._templates:
            each["metadata"]["labels"]["team"] = self._draw.choice(_TEAMS)
        self.stage = Stage(
            *map(cluster, _CLUSTERS),
            *self._templates,
            karmada=Settings(preemption=True, delays=Delays(0, 0, 0, 0, 0)),
            settings=ControllerSettings(scheduler_name="default-scheduler"),
            only=("garbage", "detector"),
        )
        self.stage.put(policy("p0", selector(), placement=_on("m0")))
        self.stage.settle()
        self.stage.clock.tick_s = 0.001  # so that what waits for time ends
        self._gate = GateInProcess(self.stage)
        self._plane = GatedPlane(self.stage, self._gate.ask)
        self._offers: list[tuple[JSON, str, int]] = []
        self._touches = 0
        self.log: list[str] = []
        self.stored = self.refused = self.accepted = 0

    def close(self) -> None:
        self._gate.extender.stop()

    def play(self, actions: int) -> list[str]:
        """Play a sequence, and return what moved although the gate must not let it."""
        self.log.clear()
        self._offers.clear()
        before, allowed = self._assignments(), 0
        for _ in range(actions):
            match self._draw.random():
                case number if number < 0.75:
                    allowed += self._change()
                case number if number < 0.9:
                    self.stage.settle()
                    self.log.append("settle")
                case _:
                    self._observed()
                    self.stage.clock.pass_by(_KEPT_S)
                    self.log.append("a minute passes")
        self.stage.settle()
        self._touch_all()
        after = self._assignments()
        moved = [name for name, clusters in before.items() if clusters != after[name]]
        self._observed()
        if len(moved) <= allowed:
            return []
        return [f"{len(moved)} workloads moved, {allowed} may: {moved}", *self.log]

    # Actions

    def _change(self) -> int:
        """Change a policy, or try to, and return how many workloads may move because of it."""
        names = [each["metadata"]["name"] for each in self.stage.model.objects.all("PropagationPolicy")]
        author, dry_run = self._draw.choice(_AUTHORS), self._draw.random() < 0.4
        accepts, said = "", LIMIT
        if self._offers and self._draw.random() < 0.5:
            changed, plan, moved = self._draw.choice(self._offers)
            if plan and self._draw.random() < 0.5:
                accepts, said = plan, max(moved, LIMIT)
        elif names and self._draw.random() < 0.3:
            changed = {**policy(self._draw.choice(names)), "spec": None}
        else:
            changed = self._policy(names)
        deletes = changed["spec"] is None
        if deletes and changed["metadata"]["name"] not in names:
            return 0
        if self._draw.random() < 0.5:
            self._observed()
        if deletes:
            verdict = self._plane.delete(changed, author=author, dry_run=dry_run)
        else:
            verdict = self._plane.write(changed, author=author, accepts=accepts, dry_run=dry_run)
        self._note(changed, verdict, f"{author}{' tries' * dry_run} {accepts and f'with plan {accepts}'}")
        if dry_run or not verdict.allowed:
            self.refused += not verdict.allowed
            return 0
        self.stored += 1
        self.accepted += bool(accepts)
        return said if accepts else LIMIT

    def _note(self, changed: JSON, verdict: Verdict, what: str) -> None:
        name, spec = changed["metadata"]["name"], changed["spec"]
        self.log.append(f"{what}: {'deletes' if spec is None else 'writes'} {name} {json.dumps(spec)}\n    {verdict}")
        plan, counted = _PLAN.search(verdict.text), _COUNTED.search(verdict.text)
        moved = int(counted[1]) if counted else 0
        self._offers.append((changed, next(filter(None, plan.groups())) if plan and spec is not None else "", moved))

    def _policy(self, names: list[str]) -> JSON:
        """Return a policy. An edit often changes only where it places."""
        name = f"p{self._draw.randrange(5)}"
        old = self.stage.get(policy(name)) if name in names else None
        placement = _on(*self._draw.sample(_CLUSTERS, self._draw.randint(1, 2)))
        if old is not None and self._draw.random() < 0.7:
            return policy(name, **{**_spec_of(old), "placement": placement})
        return policy(
            name,
            *self._selectors(),
            placement=placement,
            priority=self._draw.randint(0, 2),
            preemption="Never",
            **({"activationPreference": "Lazy"} if self._draw.random() < 0.3 else {}),
        )

    def _selectors(self) -> Iterator[JSON]:
        match self._draw.randrange(4):
            case 0 | 1:
                yield selector()
            case 2:
                yield selector(labelSelector={"matchLabels": {"team": self._draw.choice(_TEAMS)}})
            case _:
                for each in self._draw.sample(self._templates, 3):
                    yield selector(name=each["metadata"]["name"])

    def _touch_all(self) -> None:
        """Change all templates, so that what Lazy policies put off happens."""
        self._touches += 1
        for each in self._templates:
            self.stage.edit(each, metadata={"annotations": {"touched": str(self._touches)}})
        self.stage.settle()

    def _assignments(self) -> dict[str, dict[str, int]]:
        return {each["metadata"]["name"]: self.stage.assignment(each) for each in self._templates}

    def _observed(self) -> None:
        """Wait until the extender knows all objects."""
        wait_for(self._is_observed, lambda: self.log)

    def _is_observed(self) -> bool:
        state, objects = self._gate.extender.state, self.stage.model.objects
        observed: Any = state.observed
        stored = {each["metadata"]["resourceVersion"] for each in objects.all("PropagationPolicy")}
        if {each.metadata.resource_version for each in state.world().policies} != stored:
            return False
        bindings = [_BINDINGS.read(json.dumps(each).encode()) for each in objects.all("ResourceBinding")]
        if {each.metadata.key: each for each in bindings} != {each.metadata.key: each for each in observed.bindings()}:
            return False
        known = {each.name: each.raw["metadata"] for each in observed._templates.items(_DEPLOYMENTS)}  # noqa: SLF001 - what the extender knows
        return all(
            _claim(known[each["metadata"]["name"]]) == _claim(each["metadata"]) for each in objects.all("Deployment")
        )


def _claim(metadata: JSON) -> tuple[JSON, JSON]:
    annotations = metadata.get("annotations", {})
    return metadata["labels"], {name: value for name, value in annotations.items() if "karmada.io" in name}


def _on(*names: str) -> JSON:
    return {"clusterAffinity": {"clusterNames": list(names)}}


def _spec_of(stored: JSON) -> JSON:
    return dict(stored["spec"])
