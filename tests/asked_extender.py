"""An extender that watches a fleet in use, and the console's pages: the same questions over the API.

Everything is in this process. What the extender computes in a process of its own is computed at once, because a
property asks thousands of questions.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from http import HTTPStatus
from typing import Any, Final, Self, cast
from unittest.mock import patch

from extender_in_process import ExtenderInProcess
from fleet_in_use import FleetInUse
from waiting import wait_for

from berthmaster.deciding.lease_record import BrakeRecord, LeaseRecord
from berthmaster.deciding.running import hosts_of
from berthmaster.model.decode import decode_json, encode_json
from berthmaster.model.policy import Policy
from berthmaster.native_api.connection import REVIEW_PATH, RequestRefusedError
from berthmaster.native_api.what_if import ChangeReview, PlanAnswer, PlanRequest, PolicySet, ReviewAnswer
from berthmaster.native_api.why import ImpactView, ResilienceView
from berthmaster.simulation.changes import AddLabel, AddTaint, Down, RemoveCluster, Scale, WhatIf
from berthmaster.simulation.failures import DomainLoss
from berthmaster.simulation.plan_answer import Loss, Switch
from berthmaster.simulation.world import Change
from console.pages.form_boxes import domains_of
from console.pages.plan_model import PlanView
from console.pages.resilience import question_of
from console.question import WhatIfQuestion, decoded
from console.read_question import ReadQuestion, read
from extender.state.controllers_lease import LeaseReading
from extender.state.fleet_figures import fleet_figures
from extender.state.problems import known_outages

_COMPUTING: Final = ("plan", "resilience")
"""The modules of the extender that compute in a process of their own."""
Figures = dict[str, Any]


class ComputedHere:
    """It implements ``Forked``, and computes in the thread of the request."""

    def __init__(self, compute: Callable[[Callable[[Any], None]], None], _check: Callable[[], None]) -> None:
        self._values: list[Any] = []
        compute(self._values.append)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)


class AskedExtender:
    """An extender that watches a fleet in use. Use it as a context."""

    def __init__(self, fleet: FleetInUse) -> None:
        self._extender = ExtenderInProcess(fleet.stage.api, clock=fleet.stage.clock)
        now, held = fleet.stage.clock.now(), fleet.record is not None
        record = LeaseRecord(BrakeRecord(), fleet.sources, now, fleet.record, held=held)
        self._extender.state.lease = lambda: LeaseReading(record)
        self._client = self._extender.client()
        self._patches = [patch(f"extender.protocols.native.{each}.Forked", ComputedHere) for each in _COMPUTING]

    def __enter__(self) -> Self:
        for each in self._patches:
            each.start()
        return self

    def __exit__(self, *_error: object) -> None:
        for each in self._patches:
            each.stop()
        self._extender.stop()

    def worst_losses(self) -> dict[str, int]:
        """Return how many workloads lose their last copies with the worst cluster and region, as metrics show it."""
        state = self._extender.state
        with state.reading() as cache:
            clusters = cache.world.clusters
        hosts, counts = hosts_of(clusters), state.copy_counts()
        with state.placed() as index:
            rows, outages = list(index.by_name()), known_outages(index, hosts, counts)
        found = fleet_figures(rows, outages, clusters, hosts, {name: {} for name in clusters}, counts).worst
        return {domain: each.workloads for domain, each in found.items()}

    def planned(self, changes: Sequence[Change], failover: Switch) -> Figures:
        """Return the figures of ``/v1/plan``."""
        asked = cast("tuple[WhatIf, ...]", tuple(changes))
        return _planned(self._client.plan(PlanRequest(changes=asked, failover=failover)))

    def reviewed(self, policy: Policy) -> tuple[int, int]:
        """Return how many workloads ``/v1/review`` says that a policy leaves nowhere and short, as the gate asks."""
        asked = ChangeReview(PolicySet(policy), dry_run=True)
        found = self._client._connection.ask("POST", REVIEW_PATH, encode_json(asked))  # noqa: SLF001 - the gate has its own
        assert found.status == HTTPStatus.OK, found
        answer = decode_json(ReviewAnswer, found.content)
        assert answer.id, answer
        return answer.lost, answer.short

    def what_if(self, question: WhatIfQuestion) -> Figures:
        """Return the figures of the page What if."""
        clusters = self._client.fleet().clusters
        found: ReadQuestion = read(
            question, {each.name for each in clusters}, lambda _: True, domains_of(clusters)
        )  # fmt: skip
        assert not found.problems, found.problems
        answer = self._client.plan(PlanRequest(changes=tuple(found.changes), failover=question.failover))
        view = PlanView(answer)
        figures = _planned(view.answer)
        counts = view.answer.counts
        assert (counts.lost, counts.short) == (len(figures["nowhere"]), len(figures["short"]))
        assert view.bad == bool(counts.lost or counts.short or counts.overcommitted)
        return figures

    def impacts(self, failover: Switch) -> list[ImpactView]:
        """Return the figures of the page Resilience for clusters and regions."""
        found: list[ResilienceView] = []

        def answered() -> bool:
            try:
                found.append(self._client.resilience(("cluster", "region"), limit=1000, failover=failover))
            except RequestRefusedError:
                return False
            return True

        wait_for(answered)
        return found[0].impacts


def _planned(answer: PlanAnswer) -> Figures:
    by_change = [each for each in answer.plan.unplaced if each.by_change]
    caused = [each.resource for each in answer.plan.moves if not each.due]
    return {
        "nowhere": sorted(each.resource for each in by_change if each.nowhere),
        "short": sorted(each.resource for each in by_change if not each.nowhere),
        "moved": answer.counts.moved - answer.plan.summary.due,
        "caused": sorted(caused),
        "loss": _loss(answer.plan.loss),
    }


def figures_of(impact: ImpactView) -> Figures:
    """Return the figures of a failure on the page Resilience."""
    return {
        "nowhere": sorted(impact.nowhere),
        "short": sorted(impact.short),
        "moved": impact.moved,
        "loss": (impact.stopping, impact.stopped, sorted(impact.only_copy)),
    }


def linked_question(impact: ImpactView) -> WhatIfQuestion:
    """Return the question to which the page Resilience links from a failure."""
    return decoded(question_of(impact))


def form_of(changes: Iterable[Change], failover: Switch) -> WhatIfQuestion | None:
    """Return changes as the form of the page What if has them; None if it has no field for one of them."""
    fields: dict[str, tuple[str, ...]] = {}
    for each in changes:
        match each:
            case Down(cluster):
                name, text = "lose", cluster
            case RemoveCluster(cluster):
                name, text = "leave", cluster
            case AddTaint(cluster, taint):
                name, text = "taints", f"{cluster}={taint.key}:{taint.effect}"
            case AddLabel(cluster, key, value):
                name, text = "labels", f"{cluster}={key}={value}"
            case Scale(resource, replicas):
                name, text = "scales", f"{resource}={replicas}"
            case _:
                return None
        fields[name] = (*fields.get(name, ()), text)
    return WhatIfQuestion(failover=failover, **fields)


def changes_of(loss: DomainLoss) -> list[Change]:
    """Return the changes that a failure is."""
    return [Down(name) for name in loss.clusters]


def _loss(loss: Loss | None) -> tuple[int, int, list[str]] | None:
    return None if loss is None else (loss.workloads, loss.replicas, sorted(loss.only_copy))
