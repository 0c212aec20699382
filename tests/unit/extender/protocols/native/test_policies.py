"""``GET /v1/policies``: claims, findings, takeovers and priority drops."""

import pytest
from extender_services import asked, refusing, route_of, serve, services_of, world_with
from karmada_plane import binding, cluster, deployment, policy, selector
from tables import cases

from berthmaster.ledger.records import HistoryRow, Page
from berthmaster.model.decode import encode_json
from berthmaster.model.errors import LedgerError
from berthmaster.model.placement_limits import DEFAULT_LIMITS
from berthmaster.model.priority_drops import PRIORITY_DROP_ANNOTATION
from berthmaster.model.readers import ELSEWHERE
from berthmaster.native_api.policies import PolicyList, PolicyView
from berthmaster_cli.rule_options import policy_findings
from extender.protocols.problem import Refusal

HELD = policy("web", selector(name="web"), priority=1, placement={"clusterAffinity": {"clusterNames": ["a"]}})
TAKER = policy(
    "strong", selector(name="web"), priority=5, preemption="Always",
    placement={"clusterAffinities": [{"affinityName": "first"}, {"affinityName": "second"}]},
)  # fmt: skip
CLUSTER_WIDE = policy("all", selector("ConfigMap", "v1", labelSelector={"matchLabels": {"tier": "web"}}), namespace="")
WRONG = policy("wrong", selector(name="x"), placement={"spreadConstraints": [{"spreadByField": "zone"}]})
DROPPED = policy("dropped", selector(name="y"))
DROPPED["metadata"]["annotations"] = {PRIORITY_DROP_ANNOTATION: '{"from": 9, "to": 1}'}
ALL = (HELD, TAKER, CLUSTER_WIDE, WRONG, DROPPED)


def world(*policies):
    template = deployment("web", by=HELD)
    return world_with(cluster("a"), cluster("b"), template, binding(template, HELD, a=2), *policies)


class Ledger:
    def __init__(self, *rows, error=None):
        self.rows, self.error = list(rows), error

    def page(self, query, _limit, _after=None):
        assert query.trigger == "priority-drop"
        if self.error is not None:
            raise self.error
        return Page(self.rows, None)


class Finder:
    """Counts how often rules run."""

    def __init__(self):
        self.find, self.calls = policy_findings(DEFAULT_LIMITS), 0

    def __call__(self, found):
        self.calls += 1
        return self.find(found)


@pytest.fixture
def ask():
    services, finder = services_of(), Finder()
    state, route = services.state, route_of("/v1/policies")

    def send(*policies, ledger=None, watched=None, find=finder, within_s=60.0, **query):
        if policies or not state.staleness.synced:
            serve(services, world(*(policies or ALL)))
        state.watched = watched
        services.ledger, services.findings = ledger, find
        return asked(services, route, PolicyList, within_s=within_s, **query)

    send.finder, send.clock = finder, services.clock
    return send


@pytest.fixture
def ask_one():
    def send(namespace, name, *objects, namespaces=None):
        path = "/v1/policies/{namespace}/{name}" if namespace else "/v1/clusterpolicies/{name}"
        query = {} if namespaces is None else {"namespaces": namespaces}
        values = {"namespace": namespace, "name": name}
        return asked(services_of(world(*objects)), route_of(path), PolicyView, values=values, **query)

    return send


def test_a_policy_allows_clusters_by_group(ask_one):
    tolerated = {"key": "disk", "operator": "Exists"}
    groups = [
        {"affinityName": "named", "clusterNames": ["a", "tainted", "gone"]},
        {"affinityName": "all", "overflowAffinities": [{"affinityName": "none", "clusterNames": ["z"]}]},
    ]
    placement = {"clusterAffinities": groups, "clusterTolerations": [tolerated]}
    tainted, spared, gone = cluster("tainted", cpu=4), cluster("spared", cpu=4), cluster("gone", cpu=4)
    tainted["spec"]["taints"] = [{"key": "other", "effect": "NoExecute"}]
    spared["spec"]["taints"] = [{"key": "disk", "effect": "NoSchedule"}]
    spared["status"]["resourceSummary"]["allocated"] = {"cpu": "1"}
    gone["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x"]}
    found = ask_one("shop", "web", policy("web", selector(), placement=placement), tainted, spared, gone)
    assert [(each.name, each.extends, each.matching, each.repelling, each.unready) for each in found.groups] == [
        ("named", "", 3, 1, 1), ("all", "", 5, 1, 1), ("none", "all", 0, 0, 0),
    ]  # fmt: skip
    assert [each.names for each in found.groups] == [["a"], ["a", "b", "spared"], []]
    together = found.groups[1].resources["cpu"]
    assert (together.allocatable, together.used) == (4000, 1000)
    assert found.policy.spec.placement.cluster_affinities[0].affinity_name == "named"


@pytest.mark.parametrize(
    ("namespace", "name", "namespaces"),
    [("shop", "other", None), ("", "web", None), ("shop", "web", "bank,-"), ("", "all", "shop")],
)
def test_a_policy_that_is_not_there_or_not_visible_is_not_found(ask_one, namespace, name, namespaces):
    with refusing(404, "there is no"):
        ask_one(namespace, name, *ALL, namespaces=namespaces)


MIXED = policy(
    "mixed", selector(name="web", namespace="shop"), selector("ConfigMap", "v1"), selector(namespace="vault"),
    selector(name="web", namespace="vault", labelSelector={"matchLabels": {"a": "b"}}), namespace="",
)  # fmt: skip
MIXED["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": "of vault"}


@cases(
    ("namespaces", "seen", "elsewhere"),
    {"everything": (None, 4, False), "all of its namespaces": ("-,shop,vault", 4, False), "some": ("-,shop", 2, True)},
)
def test_a_policy_of_all_namespaces_names_only_those_that_the_reader_may_see(ask, ask_one, namespaces, seen, elsewhere):
    found = ask_one("", "mixed", MIXED, namespaces=namespaces)
    (row,) = ask(MIXED, **({} if namespaces is None else {"namespaces": namespaces})).items
    assert len(found.policy.spec.resource_selectors) == seen
    for each in (found.row, row):
        assert each.selectors[:2] == ["apps/v1 Deployment shop/web", "v1 ConfigMap"]
        assert (each.selectors[seen:] == [ELSEWHERE]) is elsewhere
    for answer in (found, row):
        assert (b"vault" in encode_json(answer)) is not elsewhere


def named(found):
    return [each.name for each in found.items]


def test_a_row_says_what_a_policy_is_and_holds(ask):
    rows = {each.name: each for each in ask().items}
    web, strong, everywhere = rows["web"], rows["strong"], rows["all"]
    assert (web.kind, web.namespace, web.priority, web.preemption) == ("PropagationPolicy", "shop", 1, "Never")
    assert (web.claims, web.claimed, web.groups) == (1, ["shop/Deployment/web"], [])
    assert (strong.claims, strong.groups) == (0, ["first", "second"])
    assert (everywhere.namespace, everywhere.selectors) == ("", ["v1 ConfigMap, tier=web"])
    assert web.selectors == ["apps/v1 Deployment shop/web"]


def test_a_possible_takeover_is_with_both_policies(ask):
    rows = {each.name: each for each in ask().items}
    (takeover,) = rows["strong"].takes
    assert rows["web"].loses == [takeover]
    assert (takeover.resource, takeover.holder) == ("shop/Deployment/web", "PropagationPolicy shop/web")
    assert "preempt" in takeover.message
    assert not rows["all"].takes


def test_a_policy_of_lower_priority_takes_nothing(ask):
    weak = {**TAKER, "spec": {**TAKER["spec"], "priority": 1}}
    assert not any(each.takes or each.loses for each in ask(HELD, weak).items)


def test_rules_run_once_for_each_version_of_a_policy(ask):
    rows = {each.name: each for each in ask().items}
    assert [(each.severity, each.path) for each in rows["wrong"].findings if each.severity == "error"]
    assert all(each.message for each in rows["wrong"].findings)
    ask()
    assert ask.finder.calls == len(ALL)
    assert all(each.findings is None for each in ask(find=None).items), "unknown is not the same as none"


def test_priority_drops_are_open_or_recorded(ask):
    past = HistoryRow(
        "1.2", "2026-06-01T12:00:00Z", "priority-drop", "shop", "PropagationPolicy", "web", message="fell"
    )
    rows = {each.name: each.drops for each in ask(ledger=Ledger(past)).items}
    assert [(each.open, each.message) for each in rows["dropped"]] == [
        (True, "its priority fell from 9 to 1; preemption has not run for its resources yet")
    ]
    assert [(each.open, each.record, each.message) for each in rows["web"]] == [(False, "1.2", "fell")]
    broken = ask(ledger=Ledger(error=LedgerError("gone")))
    assert [each for each in broken.gaps if "the ledger cannot be read" in each]


@cases(
    ("query", "names", "total"),
    {
        "all, by kind, namespace and name": ({}, ["all", "dropped", "strong", "web", "wrong"], 5),
        "a part of the name": ({"q": "SHOP/w"}, ["web", "wrong"], 5),
        "a kind": ({"kind": "ClusterPropagationPolicy"}, ["all"], 5),
        "a name": ({"name": "web"}, ["web"], 5),
        "takeovers": ({"only": "takeovers"}, ["strong", "web"], 5),
        "drops": ({"only": "drops"}, ["dropped"], 5),
        "all of several aspects": ({"only": "findings,drops"}, ["dropped"], 5),
        "cluster-scoped ones": ({"namespaces": "-"}, ["all"], 1),
        "namespaces": ({"namespaces": "other,shop"}, ["dropped", "strong", "web", "wrong"], 4),
        "no namespace": ({"namespaces": ""}, [], 0),
        "a page": ({"offset": "1", "limit": "2"}, ["dropped", "strong"], 5),
    },
)
def test_a_question_selects_policies(ask, query, names, total):
    found = ask(**query)
    assert (named(found), found.total) == (names, total)
    if "limit" not in query:
        assert found.matched == len(names)


def test_unknown_workloads_are_a_gap_and_unknown_policies_a_refusal(ask):
    found = ask(watched=["clusters", "policies"])
    assert {each.claims for each in found.items} == {None}
    assert [each for each in found.gaps if "bindings are not watched" in each]
    with pytest.raises(Refusal, match="--watch clusters,policies"):
        ask(watched=["clusters"])


def test_a_late_answer_is_refused_and_the_next_one_continues(ask):
    ask.clock.tick_s = 1.0
    with pytest.raises(Refusal, match="not ready in time"):
        ask(within_s=5.0)
    ask.clock.tick_s = 0.0
    assert len(ask().items) == len(ALL)


@cases(
    ("sort", "found"),
    {
        "by kind, namespace and name": ("", ["all", "dropped", "strong", "web", "wrong"]),
        "by name, descending": ("-name", ["wrong", "web", "strong", "dropped", "all"]),
        "the strongest first": ("-priority", ["strong", "web", "all", "dropped", "wrong"]),
        "the largest first": ("-claims", ["web", "all", "dropped", "strong", "wrong"]),
    },
)
def test_policies_have_an_order(ask, sort, found):
    assert [each.name for each in ask(sort=sort).items] == found
    assert [each.name for each in ask(sort=sort, offset="1", limit="2").items] == found[1:3]


def test_what_is_not_known_comes_last_in_both_directions(ask):
    for sort in ("findings", "-findings"):
        assert {each.findings for each in ask(sort=sort, find=None).items} == {None}
