"""What a reader of few namespaces gets: nothing of an answer names a workload or a policy of another one."""

import pytest
from console_answers import binding_explanation, binding_view

from berthmaster.ledger.records import HistoryRow, PastExplanation
from berthmaster.model.decode import encode_json
from berthmaster.model.reader import ANY_READER, Reader
from berthmaster.native_api.why import ImpactView
from berthmaster.native_api.wire import RequiringBinding
from berthmaster.simulation.failures import FailureDomain
from berthmaster.views.policy_rows import PolicyRow, TakeoverRow
from extender.protocols.native.visible import (
    visible_binding,
    visible_decision,
    visible_impact,
    visible_policy,
    visible_record,
)

SHOP = Reader(frozenset({"shop"}))
BOTH = ["shop/Deployment/web", "vault/Deployment/secret", "ClusterRole/secret"]
TAKEOVERS = [TakeoverRow(each, "a", "b", "") for each in BOTH]
POLICY = PolicyRow(
    "PropagationPolicy", "shop", "web", 0, "Never", "s", [], [], False, 3, BOTH, [], TAKEOVERS, TAKEOVERS, []  # noqa: FBT003
)  # fmt: skip
IMPACT = ImpactView(
    FailureDomain.CLUSTER, "a", ("a",), BOTH, BOTH, BOTH, moved=3, replicas=3, arriving={}, overcommitted={}
)
ROW = HistoryRow("1", "t", "decision", "shop", "Deployment", "web")
EXPLANATION = binding_explanation(follows=BOTH, followed_by=BOTH, missing=BOTH)
BINDING = binding_view(required_by=[RequiringBinding(each, f"web-{each}", {}) for each in ("shop", "vault-secret")])


@pytest.mark.parametrize(
    ("visible", "answer"),
    [
        pytest.param(visible_policy, POLICY, id="a policy"),
        pytest.param(visible_impact, IMPACT, id="a failure"),
        pytest.param(visible_binding, BINDING, id="a binding"),
        pytest.param(visible_decision, EXPLANATION, id="a decision"),
        pytest.param(visible_record, PastExplanation(ROW, EXPLANATION, reproduced=True), id="a record"),
    ],
)
def test_an_answer_names_nothing_of_other_namespaces(visible, answer):
    text = encode_json(visible(answer, SHOP)).decode()
    assert "secret" not in text
    assert "shop" in text
    assert visible(answer, ANY_READER) == answer
