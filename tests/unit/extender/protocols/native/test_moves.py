"""``GET /v1/moves``: the moves of a folder with a lease, and what is not known without one."""

import json
import logging

import msgspec
import pytest
from fake_clock import FakeClock
from fake_metrics import FakeMetrics
from karmada_plane import binding, cluster, deployment, policy, selector

from berthmaster.deciding.budget_record import BudgetRecord
from berthmaster.deciding.lease_record import BRAKE, SOURCES, SourcesRecord, text_of
from berthmaster.model.errors import InputError
from berthmaster.model.move import MOVE
from berthmaster.native_api.why import MovesView
from berthmaster.scheduling.karmada.profile import karmada_profile
from extender.protocols import native
from extender.protocols.problem import Refusal
from extender.protocols.services import Call, Services
from extender.state.folder import FolderSource
from extender.state.state import State

HELD = policy("web", selector(), placement={})
WEB, API = deployment("web", 4, by=HELD), deployment("api", 4, by=HELD)
SURGING = {"reason": "Failback", "phase": "Surging", "source": {"a": 4}, "target": {"b": 4}}
LEASE = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"namespace": "karmada-system", "name": "berthmaster-controllers"},
}


def moved(template, move):
    found = binding(template, HELD, a=4, b=4)
    found["metadata"]["annotations"][MOVE] = json.dumps(move)
    return found


class Listener:
    def source_loaded(self, _source):
        pass

    def source_failed(self, _source, error: InputError):
        raise error


@pytest.fixture
def ask(tmp_path):
    def send(*objects, watched=None, **query):
        for number, each in enumerate([cluster("a"), cluster("b"), HELD, *objects]):
            (tmp_path / f"{number}.json").write_text(json.dumps(each))
        clock, state = FakeClock(), State(karmada_profile())
        FolderSource([tmp_path], clock, Listener()).look(state)
        state.watched = watched
        services = Services(state, FakeMetrics(), logging.getLogger("test"), clock)
        route = next(each for each in native.routes() if each.path == "/v1/moves")
        return msgspec.json.decode(route.handler(services, Call("1", 1e9, query=query)).body, type=MovesView)

    return send


def test_moves_budgets_and_brake_come_from_bindings_and_lease(ask):
    found = ask(WEB, moved(WEB, SURGING), LEASE)
    (row,) = found.moves
    assert (row.workload, row.namespace, row.binding) == ("shop/Deployment/web", "shop", "web-deployment")
    assert (found.counts, found.brake.engaged, found.gaps) == ({"moving": 1}, False, [])
    assert [(each.name, each.moves) for each in found.budgets] == [("default", 1)]
    assert found.version


def test_a_brake_is_shown(ask):
    braked = {**LEASE, "metadata": {**LEASE["metadata"], "annotations": {BRAKE: json.dumps({"reason": "storm"})}}}
    found = ask(WEB, moved(WEB, SURGING), braked)
    assert (found.brake.engaged, found.brake.reason) == (True, "storm")
    assert [each.cause for each in found.moves[0].waits_for] == ["brake"]


def test_a_percentage_of_a_budget_is_of_the_replicas_of_all_bindings_of_the_scheduler(ask):
    sources = SourcesRecord(budgets=(BudgetRecord("share", replicas_percent=50),), scheduler="default-scheduler")
    recorded = {**LEASE, "metadata": {**LEASE["metadata"], "annotations": {SOURCES: text_of(sources)}}}
    (budget,) = ask(WEB, moved(WEB, SURGING), API, binding(API, HELD, a=6), recorded).budgets
    assert (budget.moves, budget.replicas, budget.replicas_moving) == (1, 10, 4)


def test_without_a_lease_brake_and_budgets_are_unknown(ask):
    found = ask(WEB, moved(WEB, SURGING))
    assert (found.brake.engaged, found.budgets) == (None, None)
    assert [each for each in found.gaps if "the manifests have no Lease" in each]


def test_namespaces_and_a_limit_select_rows(ask):
    both = [WEB, moved(WEB, SURGING), API, moved(API, SURGING), LEASE]
    assert len(ask(*both, limit="1").moves) == 1
    assert ask(*both, namespaces="other,-").moves == ask(*both, namespaces="").moves == []
    assert len(ask(*both, namespaces="other,shop").moves) == 2


def test_unknown_policies_are_a_gap_and_unknown_bindings_a_refusal(ask):
    found = ask(WEB, moved(WEB, SURGING), LEASE, watched=["clusters", "bindings"])
    assert [each for each in found.gaps if "policies are not watched" in each]
    with pytest.raises(Refusal, match="--watch clusters,bindings"):
        ask(LEASE, watched=["clusters"])
