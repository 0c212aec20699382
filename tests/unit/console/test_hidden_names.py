"""No page names anything in a namespace that its visitor may not see: the whole path, from the objects to the HTML."""

import json
from datetime import timedelta
from urllib.parse import quote

import pytest
from console_source import console_client
from extender_in_process import ExtenderInProcess
from fake_clock import START, FakeClock
from karmada_plane import DIVIDED, PP_ID, binding, cluster, deployment, policy, resource, selector, serve_karmada, store
from kube_in_memory import KubeInMemory
from ledger_histories import Scheduling, recorder_at, sqlite_url
from tables import DATA

from berthmaster.controllers.moves.config_file import parse_moves_config
from berthmaster.deciding.lease_record import BrakeRecord, LeaseRecord, SourcesRecord, records_of
from berthmaster.ledger.reader import LedgerReader
from berthmaster.model.binding import APPLIED_PLACEMENT, Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import convert
from berthmaster.model.move import MOVE
from berthmaster.model.note import Note
from berthmaster.native_api.drift import DriftQuery
from console.question import WhatIfQuestion, encoded
from console.source import ExtenderSource
from extender.state.controllers_lease import LeaseReading

HIDDEN = ("vault", "secret")
"""The hidden namespace, and a part of every name in it."""
BUDGETS = (DATA / "hidden_budgets.yaml").read_bytes()
GROUPS = {
    "clusterAffinities": [
        {"affinityName": "home", "clusterNames": ["member2"]},
        {"affinityName": "anywhere", "clusterNames": ["member1", "member2", "member3"]},
    ]
}
VISITORS = {
    "of one namespace": frozenset({"shop"}),
    "of one namespace and of cluster-scoped workloads": frozenset({"shop", "-"}),
    "of no namespace": frozenset(),
}
MOVING = {
    "reason": "Failback", "phase": "Stabilising", "source": {"member1": 2}, "target": {"member2": 2},
    "until": (START + timedelta(minutes=1)).isoformat(),
}  # fmt: skip


def workloads(namespace, name, policy_name, *, broken=True):
    """Workloads of a namespace: one that moves, dependencies across namespaces, one nowhere, and invalid ones."""
    by = policy(policy_name, selector(), namespace=namespace, propagateDeps=True, placement={**DIVIDED, **GROUPS})
    web, other = deployment(name, 2, namespace=namespace, by=by), deployment(f"{name}-2", 4, namespace=namespace, by=by)
    bound = [binding(web, by, member1=2), binding(other, by, member1=1, member2=3)]
    bound[0]["metadata"]["annotations"][MOVE] = json.dumps(MOVING)
    for each in bound:
        each["spec"]["propagateDeps"] = True
        each["status"]["schedulerObservingAffinityName"] = "anywhere"
    nowhere = policy(f"{policy_name}-nowhere", selector("StatefulSet", name=name), namespace=namespace,
                     placement={"clusterAffinity": {"clusterNames": ["member9"]}})  # fmt: skip
    lost = resource(name, "StatefulSet", "apps/v1", namespace=namespace, spec={"replicas": 3})
    pinned = policy(f"{policy_name}-pinned", selector(name=f"{name}-pinned"), namespace=namespace,
                    placement={"clusterAffinity": {"clusterNames": ["member1"]}})  # fmt: skip
    file = deployment(f"{name}-pinned", 1, namespace=namespace, by=pinned)
    bound.append(binding(file, pinned, member1=1))
    invalid = deployment(f"{name}-broken", namespace=namespace, by=by)
    invalid["spec"]["replicas"] = "many"
    return [by, nowhere, pinned, web, other, *bound, lost, file, *([invalid] if broken else [])]


def recorded(folder, clusters, *bindings):
    """Write decisions on bindings, and facts about them, to a new ledger. Return its URL."""
    url, clock = sqlite_url(folder), FakeClock()
    recorder = recorder_at(url, clock)
    scheduling = Scheduling(recorder, clock)
    for each in clusters:
        scheduling.clusters.update_cluster(convert(Cluster, each))
    for each in bindings:
        namespace, resource = each["metadata"]["namespace"], each["spec"]["resource"]
        for replicas in (2, 3):
            annotations = {
                key: text
                for key, text in each["metadata"]["annotations"].items()
                if key not in {APPLIED_PLACEMENT, MOVE}
            }
            spec = {**each["spec"], "replicas": replicas}
            if replicas == 2:
                spec.pop("requiredBy", None)
            changed = {**each, "metadata": {**each["metadata"], "annotations": annotations}, "spec": spec}
            scheduling.put(convert(Binding, changed))
            clock.pass_by(1)
        by = f"PropagationPolicy {namespace}/{resource['name']}"
        recorder.noted(Note("preemption", f"{by} takes it over", namespace, resource["name"], resource["kind"], by))
    recorder.step()
    recorder.finish()
    return url


@pytest.fixture(scope="module")
def extender(tmp_path_factory):
    api = KubeInMemory()
    serve_karmada(api)
    mine, theirs = workloads("shop", "web", "web"), workloads("vault", "secret", "secret")
    following = mine[5]["spec"].setdefault("requiredBy", [])
    for name in ("secret-deployment", "secret-unknown"):
        following.append({"namespace": "vault", "name": name, "clusters": [{"name": "member3", "replicas": 1}]})
    theirs[5]["spec"]["requiredBy"] = [
        {"namespace": "shop", "name": "web-deployment", "clusters": [{"name": "member3", "replicas": 1}]}
    ]
    wide = policy("wide", selector("ConfigMap", "v1"), namespace="", placement={})
    settings = resource("secret-settings", "ConfigMap", namespace="vault", data={})
    broken = resource("web-broken-2", "Deployment", "apps/v1", spec={"replicas": "many"})
    broken["metadata"]["labels"] = {PP_ID: "id-web"}
    clusters = [cluster(f"member{each}") for each in (1, 2, 3)]
    store(api, *clusters, *mine, *theirs, wide, settings)
    store(api, broken)
    url = recorded(tmp_path_factory.mktemp("ledger"), clusters, mine[5], theirs[5])
    started = ExtenderInProcess(api, LedgerReader(url))
    records = records_of(parse_moves_config(BUDGETS, "test").budgets)
    sources = SourcesRecord(
        "On",
        "On",
        problem="vault/secret has an invalid budget",
        budgets=records,
        scheduler="default-scheduler",
        move_rules=({"selector": {"namespaces": ["vault"], "policies": ["vault/secret"]}},),
    )
    started.state.lease = lambda: LeaseReading(LeaseRecord(BrakeRecord(), sources))
    started.state.world()
    started.client().drift(DriftQuery())  # the page does not wait for it
    yield started
    started.stop()


def question(**asked):
    return f"/what-if?question={quote(encoded(convert(WhatIfQuestion, asked)))}"


MOVED = (DATA / "moved_policy.yaml.txt").read_text().replace("NAMESPACE", "shop")
OF_SHOP = "/workloads/shop/web-deployment"
PAGES = {
    "fleet": "/fleet",
    "fleet, table": "/fleet?view=table",
    "cluster": "/fleet/member1",
    "workloads": "/workloads",
    "workloads, search": "/workloads?q=e",
    "workload": OF_SHOP,
    "workload, all clusters": f"{OF_SHOP}?clusters=all&group=",
    "workload, in YAML": f"{OF_SHOP}?show=yaml",
    "workload, why not": f"{OF_SHOP}?why-not=member3",
    "workload, on record": f"{OF_SHOP}?record=1.2",
    "workload, why not on record": f"{OF_SHOP}?record=1.2&why-not=member3",
    "workload, the record of another": f"{OF_SHOP}?record=1.5",
    "another workload": "/workloads/shop/web-2-deployment",
    "resilience": "/resilience?by=cluster",
    "drift": "/drift",
    "moves": "/moves",
    "search": "/search?q=e",
    "history": "/history?range=all&show=everything",
    "history, what moved": "/history?range=all",
    "policies": "/policies",
    "policy": "/policies/shop/web",
    "cluster-scoped policy": "/policies/-/wide",
    "what if": "/what-if",
    "what if, lost clusters": question(lose=["member1", "member2"]),
    "what if, a file": f"{question(lose=['member1'])}&as=json",
    "what if, a removed cluster": question(leave=["member1"]),
    "what if, a policy": question(policies=MOVED.replace("NAME,", "new,")),
    "what if, an edit": question(policies=MOVED.replace("NAME,", "web,")),
    "what if, a deletion": question(deleted=["shop/PropagationPolicy/web"]),
    "what if, a scale": question(scales=["shop/Deployment/web=9"]),
    "what if, a misspelt scale": question(scales=["Deployment/secre=9"]),
}  # fmt: skip

NAMELESS = {
    "fleet, table", "another workload", "workload, the record of another", "what if", "what if, a scale",
    "what if, a policy", "what if, an edit", "what if, a deletion",
}  # fmt: skip
"""The pages of policies of shop are among them: such a policy selects nothing of another namespace."""


@pytest.fixture(scope="module")
def clients(extender):
    source = ExtenderSource(extender.client, FakeClock())
    visitors = {**VISITORS, "of all namespaces": None}
    return {name: console_client(source, namespaces=namespaces) for name, namespaces in visitors.items()}


@pytest.mark.parametrize("visitor", VISITORS)
@pytest.mark.parametrize("page", PAGES)
def test_no_page_names_what_its_visitor_may_not_see(clients, page, visitor):
    text = clients[visitor].get(PAGES[page]).text
    assert [each for each in HIDDEN if each in text] == []


@pytest.mark.parametrize("page", PAGES)
def test_no_page_escapes_characters_of_its_own(clients, page):
    assert "\\x" not in clients["of all namespaces"].get(PAGES[page]).text


@pytest.mark.parametrize("page", [each for each in PAGES if each not in NAMELESS])
def test_a_visitor_of_all_namespaces_gets_these_names_on_the_same_pages(clients, page):
    text = clients["of all namespaces"].get(PAGES[page]).text
    assert [each for each in HIDDEN if each in text] == list(HIDDEN)


def test_the_pages_show_what_is_on_record(clients):
    client = clients["of one namespace"]
    assert "takes it over" in client.get(OF_SHOP).text
    assert "1 made the difference" in client.get(PAGES["workload, on record"]).text
    assert client.get(PAGES["workload, the record of another"]).status_code == 404
