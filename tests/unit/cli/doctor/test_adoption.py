"""The steps of the adoption, by the facts that show them."""

from dataclasses import replace

import pytest
from doctor_facts import DAY, NOW, SETUP, deployment, healthy, lease, webhooks

from berthmaster.deciding.lease_record import SourcesRecord
from berthmaster_cli.doctor.facts import BindingFacts, Unobserved
from berthmaster_cli.doctor.judge.adoption import adoption

FORBIDDEN = Unobserved("GET /x: 403 not allowed", 403)
THEIRS = {"bindings": BindingFacts({"default-scheduler": 4})}
NOTHING = {"webhooks": (), "lease": None, "deployments": (deployment("karmada-scheduler"),), **THEIRS}
MOVING = replace(lease(), sources=SourcesRecord(failback="DryRun"))
LEDGER = deployment("controllers", "--ledger=sqlite:////ledger.db")


@pytest.mark.parametrize(
    ("facts", "reached"),
    [
        pytest.param({**NOTHING, "bindings": FORBIDDEN}, 0, id="no right to read"),
        pytest.param(NOTHING, 1, id="read only"),
        pytest.param({**NOTHING, "webhooks": webhooks()}, 3, id="the webhook"),
        pytest.param({**NOTHING, "deployments": (deployment("controllers", "--shadow"),)}, 4, id="shadow mode"),
        pytest.param({**NOTHING, "lease": lease()}, 1, id="controllers without a binding"),
        pytest.param({**NOTHING, "bindings": BindingFacts({"berthmaster": 4})}, 1, id="bindings without controllers"),
        pytest.param({"deployments": None}, 5, id="one policy, and the host is not known"),
        pytest.param({"lease": MOVING}, 6, id="moves as a dry run"),
        pytest.param({"lease": replace(MOVING, holder="")}, 3, id="moves of controllers that ended"),
        pytest.param({"lease": replace(MOVING, renewed=NOW - DAY)}, 3, id="moves of controllers that crashed"),
        pytest.param({"lease": replace(lease(), sources=SourcesRecord())}, 5, id="moves are off"),
        pytest.param({"deployments": (LEDGER,)}, 5, id="a ledger without a console"),
        pytest.param({"deployments": (LEDGER, deployment("console"))}, 7, id="the ledger and the console"),
    ],
)
def test_the_step_that_is_reached(facts, reached):
    found = adoption(healthy(**facts))
    assert (found.reached.number if found.reached else 0) == reached
    assert (found.next.number if found.next else 8) == reached + 1


def test_commands_reach_the_servers_that_the_user_named():
    found = adoption(healthy(**NOTHING))
    assert found.reached.back == (f"{SETUP.target} delete -f docs/read-only.yaml",)
