"""What commands say about a cluster that is lost or deleted: what stops, what moves, and what they assume."""

import json

import pytest
from fleet_dump import RECORD
from karmada_plane import DIVIDED, binding, cluster, deployment, policy, selector
from tables import cases, data

from berthmaster.deciding.lease_record import CONTROLLERS, ControllersRecord, text_of

PROD = {"clusterAffinity": {"labelSelector": {"matchLabels": {"env": "prod"}}}, **DIVIDED}
OFF = "Eviction is off here: nothing moves, "
ON = "--failover=on shows where they would go."


DUPLICATED = {"replicaScheduling": {"replicaSchedulingType": "Duplicated"}}


def workload(name, clusters, scheduler="default-scheduler", placement=None, *, preserves=False, **spec):
    held = policy(
        f"p-{name}", selector(name=name), placement=placement or DIVIDED, schedulerName=scheduler,
        preserveResourcesOnDeletion=preserves,
    )  # fmt: skip
    replicas = max(clusters.values()) if placement is DUPLICATED else sum(clusters.values())
    template = deployment(name, replicas, by=held)
    bound = binding(template, held, **clusters)
    bound["spec"] |= {"schedulerName": scheduler, **spec}
    for number, each in enumerate((held, template, bound)):
        each["metadata"]["uid"] = f"{name}-{number}"
    return [held, template, bound]


def taint_policy(name, effect="NoExecute", status="False", to=()):
    """A ClusterTaintPolicy that taints clusters by their condition Ready."""
    spec = {
        "addOnConditions": [{"conditionType": "Ready", "operator": "In", "statusValues": [status]}],
        "taints": [{"key": "lost", "effect": effect}],
        **({"targetClusters": {"clusterNames": to}} if to else {}),
    }
    return {**POLICY_API, "kind": "ClusterTaintPolicy", "metadata": {"name": name}, "spec": spec}


POLICY_API = {"apiVersion": "policy.karmada.io/v1alpha1"}
LOST = "ClusterTaintPolicy lost gives lost clusters a NoExecute taint"
TASK = {"gracefulEvictionTasks": [{"fromCluster": "m3", "producer": "TaintManager", "reason": "TaintUntolerated"}]}
EVICTS = workload("other", {"m2": 1}, **TASK)
WEB = workload("web", {"m1": 3, "m2": 1})
OWN = workload("own", {"m1": 2}, "berthmaster")
HELD = workload("held", {"m1": 2}, suspension={"scheduling": True})
FOREIGN = workload("foreign", {"m1": 4}, "other")
UNLABELLED = workload("moved", {"m1": 2, "m2": 4}, placement=PROD)
KEPT = workload("kept", {"m1": 1}, preserves=True)
LEASE = data("controllers_lease")
LEASE["metadata"]["annotations"] = {CONTROLLERS: text_of(ControllersRecord("berthmaster", 30.0))}


@pytest.fixture
def run(on_objects):
    """Run a command on a dump of three clusters and some workloads."""
    known = [RECORD, cluster("m1"), cluster("m2", env="prod"), cluster("m3", env="prod")]
    return lambda line, *objects, code=0: on_objects(line, *known, *objects, code=code).stdout


@cases(
    ("line", "objects", "first"),
    {
        "off": ("--down m1", WEB, f"{OFF}3 replicas of 1 workload stop. {ON}"),
        "a cluster without workloads": ("--down m3", WEB, f"{OFF}nothing stops. {ON}"),
        "asked": ("--down m1 --failover=off", WEB,
            f"Eviction is assumed off (--failover=off): nothing moves, 3 replicas of 1 workload stop. {ON}"),
        "recorded": ("--down m1", [*OWN, LEASE],
            ("Berthmaster replaces lost clusters after 30 s for scheduler berthmaster; eviction is off for others: "
            f"2 replicas of 1 workload stop. {ON}")),
        "on": ("--down m1 --failover=on", WEB,
            ("Eviction is assumed (--failover=on): 3 replicas of 1 workload stop. --failover=off shows what happens "
            "without it.")),
        "a taint": ("--taint m1=a=b:NoExecute", WEB,
            "Eviction is off here: NoExecute taints move nothing. --failover=on shows what they would evict."),
        "a cluster that is deleted": ("--remove m1", UNLABELLED,
            ("Karmada deletes the copies on m1 first: 2 replicas of 1 workload stop. Then it schedules only workloads "
            "again whose affinity matches the cluster now.")),
    },
)  # fmt: skip
def test_the_first_line_names_what_stops_and_what_is_assumed(run, line, objects, first):
    assert run(f"simulate {line}", *objects).splitlines()[0] == first
    name = next(each["metadata"]["name"] for each in objects if each["kind"] == "Deployment")
    assert run(f"explain {line} -n shop deploy/{name}", *objects).splitlines()[0] == first


def test_the_answer_as_data(run):
    found = json.loads(run("simulate --down m1 -o json", *WEB, *HELD, *FOREIGN))
    assert (found["assumptions"]["failover"], found["assumptions"]["evicts"]) == ("auto", False)
    assert found["loss"] == {
        "lost": ["m1"], "removed": [], "workloads": 3, "replicas": 9,
        "onlyCopy": ["shop/Deployment/held", "shop/Deployment/foreign"],
        "left": ["shop/Deployment/held", "shop/Deployment/web"],
        "notSimulated": ["shop/Deployment/foreign"], "preserved": [], "hanging": {},
    }  # fmt: skip
    assert found["moves"] == []
    web = next(each for each in found["unplaced"] if each["resource"] == "shop/Deployment/web")
    assert (web["nowhere"], web["byChange"]) == (False, True)
    assert web["message"] == "its copies on m1 stop, and nothing takes their place"


def test_a_deleted_cluster_says_what_holds_it_and_what_the_member_keeps(run):
    text = run("simulate --remove m1", *UNLABELLED, *HELD, *KEPT)
    assert "m1 stays in deletion: the bindings of shop/Deployment/held, shop/Deployment/moved still name it." in text
    assert "The member keeps running them, and Karmada manages them no more: shop/Deployment/kept." in text
    assert "4 replicas of 2 workloads stop" in text


def scaled_to_zero(objects):
    held, template, bound = objects
    return [held, with_replicas(template, 0), with_replicas(bound, 0)]


def with_replicas(manifest, replicas):
    return {**manifest, "spec": {**manifest["spec"], "replicas": replicas}}


def reporting(objects, *clusters):
    """Let only some clusters report a copy."""
    *others, bound = objects
    items = [{"clusterName": name, "applied": True} for name in clusters]
    return [*others, {**bound, "status": {**bound.get("status", {}), "aggregatedStatus": items}}]


NOT_SENT = {"suspension": {"dispatchingOnClusters": {"clusterNames": ["m2", "m3"]}}}
_POLICY, *_REST = workload("log", {"m1": 1, "m2": 1}, placement=DUPLICATED, **NOT_SENT)
LOG = [{**_POLICY, "spec": _POLICY["spec"] | NOT_SENT}, *_REST]


@cases(
    ("objects", "code"),
    {
        "a workload that is about to have no replicas": (scaled_to_zero(WEB), 0),
        "the other copy was never sent, because dispatching is suspended": (reporting(LOG, "m1"), 1),
        "the other copy was sent before dispatching was suspended": (reporting(LOG, "m1", "m2"), 0),
        "a divided workload loses replicas": (WEB, 1),
        "a suspended workload loses its only copy": (HELD, 1),
        "a workload of a scheduler that is not simulated": (FOREIGN, 0),
        "a duplicated workload has another copy": (workload("log", {"m1": 1, "m2": 1}, placement=DUPLICATED), 0),
    },
)
def test_one_rule_for_both_checks(run, objects, code):
    run("simulate --down m1 --check=new", *objects, code=code)
    rows = json.loads(run("resilience -o json", *objects))["items"]
    (m1,) = [each for each in rows if each["name"] == "m1"]
    assert bool(m1["nowhere"] or m1["short"]) is bool(code)


@cases(
    ("policies", "evicts", "moves"),
    {
        "eviction is on": ([taint_policy("lost")], True, {"web": {"m2": 2, "m3": 2}}),
        "nothing shows that it is on": ([taint_policy("lost")], False, {}),
        "a policy about another cluster": ([taint_policy("lost", to=["m2"])], True, {}),
        "a condition that does not hold": ([taint_policy("lost", status="True")], True, {}),
        "a taint that does not evict": ([taint_policy("lost", "NoSchedule")], True, {}),
    },
)
def test_cluster_taint_policies(run, policies, evicts, moves):
    objects = [*WEB, *(EVICTS if evicts else []), *policies]
    found = json.loads(run("simulate --down m1 -o json", *objects))
    assert {each["resource"].rpartition("/")[2]: each["after"] for each in found["moves"]} == moves


def test_a_cluster_taint_policy_is_named(run):
    on = run("simulate --down m1", *WEB, *EVICTS, taint_policy("lost")).splitlines()
    assert on[0].startswith(f"Eviction is on, and {LOST}: 3 replicas of 1 workload stop.")
    for command in ("simulate --down m1", "resilience", "explain --down m1 -n shop deploy/web"):
        lines = run(command, *WEB, taint_policy("lost")).splitlines()
        assert (lines[0].startswith("Eviction is off here"), lines[1].startswith(f"{LOST}. No eviction task")) == (
            True, True,
        )  # fmt: skip


def test_a_loss_of_many_clusters_engages_the_storm_brake(run):
    more = [cluster(name) for name in ("m4", "m5", "m6")]
    two = run("simulate --down m1 --down m4", *OWN, LEASE, *more).splitlines()[0]
    three = run("simulate --down m1 --down m4 --down m5", *OWN, LEASE, *more).splitlines()[0]
    assert two.startswith("Berthmaster replaces lost clusters after 30 s")
    assert three.startswith(
        "The loss of so many clusters at once engages the storm brake, which holds failover: nothing moves, "
    )
    lost = [
        {**each, "spec": {**each["spec"], "region": "eu"}} for each in (cluster("e1"), cluster("e2"), cluster("e3"))
    ]
    found = json.loads(run("resilience --by region -o json", *workload("in", {"e1": 2}, "berthmaster"), LEASE, *lost))[
        "items"
    ]
    assert (found[0]["moved"], found[0]["assumptions"]["failoverBasis"]) == (0, "Brakes")
    assert "The storm brake holds failover if at least 3 clusters" in run("resilience --by region", *OWN, LEASE, *lost)


@pytest.mark.parametrize("option", ["--down", "--remove"])
def test_a_cluster_that_fails_and_recovers_is_refused(run, option):
    with pytest.raises(AssertionError, match=f"{option} m2 and --up m2 contradict each other"):
        run(f"simulate {option} m2 --up m2", *WEB)


def test_resilience_shows_what_failover_could_not_place_only_with_failover(run):
    off, on = run("resilience", *WEB), run("resilience --failover=on", *WEB)
    assert off.splitlines()[0].startswith("Eviction is off here: nothing moves.")
    assert (" MOVE " in off, " MOVE " in on) == (False, True)
