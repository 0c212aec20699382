"""What-if options of simulate and explain: plans, what is printed, checks, and the forms of changes."""

import json
import re

import pytest
from builders import cluster, deployment
from fleet_dump import CLUSTER, DIVIDED, stored_policy
from tables import cases

from berthmaster.model.decode import builtins


def member(name, cpu="8", **fields):
    return {**builtins(cluster(name, cpu=cpu, memory="64Gi", **fields)), **CLUSTER}


def workload(name, *clusters, replicas=4, **labels):
    policy = stored_policy(name, to=clusters, target={"name": name}, placement=DIVIDED, new=True)
    return [policy, deployment(name, replicas=replicas, requests={"cpu": "1", "memory": "1Gi"}, labels=labels)]


FLEET = [
    member("a"),
    member("b", cpu="6", labels={"env": "prod"}, taints=["gpu:NoSchedule"]),
    member("c", cpu="6"),
    *workload("moves", team="x"),
    *workload("stuck", "a", team="x"),
    *workload("stays", "c", replicas=1),
    *workload("lost", "none"),
]


@pytest.fixture
def call(on_objects, tmp_path):
    (tmp_path / "new.json").write_text(json.dumps(member("d")))

    def run(line, *, code=0):
        failover = " --failover=on" if "--down" in line else ""
        return on_objects(line.replace("NEW", str(tmp_path / "new.json")) + failover, *FLEET, code=code).stdout

    return run


def names(rows):
    return [each["resource"].rpartition("/")[2] for each in rows]


def listed(output):
    """The names of the workloads that each list of a plan has; of rows without changes, their names."""
    found = json.loads(output)
    if "items" in found:
        return names(found["items"])
    return {name: names(found[name]) for name in ("moves", "unplaced", "staying") if found[name]}


def test_changes_print_a_plan(call):
    lines = call("simulate --down a").splitlines()
    assert lines[0] == (
        "Eviction is assumed (--failover=on): 8 replicas of 2 workloads stop. --failover=off shows what happens "
        "without it."
    )
    assert lines[1] == "No other copy: default/Deployment/stuck, default/Deployment/moves."
    assert re.fullmatch(
        r"Plan \w{16}: 2 of 4 workloads move, 8 replicas; 2 left without a place "
        r"\(1 of them also without the changes\)",
        lines[2],
    )
    tables = {lines[at + 1]: lines[at + 2 :] for at, line in enumerate(lines[:-1]) if not line}
    assert list(tables)[:2] == ["Left without a place", "Moves"]
    assert list(tables)[2].endswith("without bindings it is not known what runs)")
    assert tables["Moves"][1].split()[:3] == ["default/Deployment/moves", "a=4", "c=4"]
    assert tables["Moves"][2].split()[:3] == ["default/Deployment/stuck", "a=4", "nowhere"]
    clusters = list(tables.values())[-1]
    assert clusters[0].split() == ["CLUSTER", "REPLICAS", "ARRIVING", "CPU", "MEMORY"]
    assert [line.split()[0] for line in clusters[1:3]] == ["a", "c"]


def test_all_prints_what_stays_too(call):
    text = call("simulate --down a --all")
    assert all(f"default/Deployment/{name}" in text for name in ("moves", "stuck", "stays", "lost"))


@cases(
    ("arguments", "printed"),
    {
        "what happens": ("--down a", {"moves": ["moves", "stuck"], "unplaced": ["stuck", "lost"]}),
        "everything": (
            "--down a --all",
            {
                "moves": ["moves", "stuck"],
                "unplaced": ["stuck", "lost"],
                "staying": ["stays"],
            },
        ),
        "what moves": ("--down a --only moves", {"moves": ["moves", "stuck"]}),
        "what fails": ("--down a --only fails", {"unplaced": ["stuck", "lost"]}),
        "what stays": ("--down a --only stays", {"staying": ["stays"]}),
        "by label": ("--down a -l team=x", {"moves": ["moves", "stuck"], "unplaced": ["stuck"]}),
        "by name": ("--down a deploy/stays Deployment/lost", {"unplaced": ["lost"], "staying": ["stays"]}),
        "without changes: what fails": ("--only fails", ["lost"]),
        "without changes: by label": ("-l 'team notin (x)'", ["stays", "lost"]),
        "without changes: by name": ("default/deployments/moves", ["moves"]),
    },
)
def test_which_workloads_are_printed(call, arguments, printed):
    assert listed(call(f"simulate {arguments} -o json")) == printed


def test_names_are_one_per_line(call):
    assert call("simulate --down a -o name").splitlines() == [
        "default/Deployment/stuck", "default/Deployment/lost", "default/Deployment/moves",
    ]  # fmt: skip
    assert call("explain deploy/moves -o name") == "a\n"


def test_wide_tables_have_the_trigger_and_the_scheduler(call):
    header, first, *_ = call("simulate -o wide").splitlines()
    assert header.split()[:6] == ["RESOURCE", "POLICY", "REPLICAS", "TRIGGER", "SCHEDULER", "CLUSTERS"]
    assert first.split()[-4:-1] == ["4", "First", "default-scheduler"]


def test_the_plan_as_data(call):
    found = json.loads(call("simulate --down a -o json"))
    assert found["summary"]["nowhere"] == ["default/Deployment/stuck", "default/Deployment/lost"]
    assert found["summary"]["newFailures"] == ["default/Deployment/stuck"]
    (c,) = [each for each in found["clusters"] if each["cluster"] == "c"]
    assert (c["before"], c["after"], c["resources"]["cpu"]) == (1, 5, {"requested": 5000, "available": 6000})


@cases(
    ("arguments", "code"),
    {
        "a workload fails without changes": ("--check", 1),
        "a workload fails": ("--down a --check", 1),
        "the changes make a workload fail": ("--down a --check=new", 1),
        "another cluster": ("--down c --check=new", 1),
        "the changes make nothing fail": ("--down b --check=new", 0),
        "all failures count": ("--down b --check=all", 1),
    },
)
def test_exit_codes_of_checks(call, arguments, code):
    call(f"simulate {arguments}", code=code)


@cases(
    ("changes", "clusters"),
    {
        "a taint that is removed": ("--taint b=gpu- --down a", {"b": 4}),
        "a taint with its effect": ("--taint b=gpu:NoSchedule- --down a", {"b": 4}),
        "a cluster that joins": ("--down a --add-cluster NEW --taint c=x:NoSchedule", {"d": 4}),
        "a cluster that leaves": ("--remove a", {"c": 4}),
        "changes without a move": ("--up a --label b=env- --label c=env=prod", {"a": 4}),
    },
)
def test_changes_of_clusters(call, changes, clusters):
    found = json.loads(call(f"simulate {changes} deploy/moves -o json"))
    assert [each["after"] for each in found["moves"]] == ([] if clusters == {"a": 4} else [clusters])
    explained = json.loads(call(f"explain {changes} deploy/moves -o json"))
    assert explained["clusters"] == clusters


@cases(
    ("arguments", "message"),
    {
        "an effect": ("simulate --taint b=gpu:Sometimes-", "or CLUSTER=KEY[:EFFECT]- to remove the taint"),
        "a taint": ("simulate --taint b=other-", "the cluster b has no taint other; its taints are gpu"),
        "a label": ("simulate --label b=x-", "the cluster b has no label x; its labels are env"),
        "a label without a key": ("simulate --label b=-", "or CLUSTER=KEY- to remove the label"),
        "a cluster": ("simulate --remove z", "there is no cluster 'z'; known are a, b, c"),
        "a name": ("simulate --down a deploy/nothing", "there is no Deployment/nothing among 4 workloads"),
        "a selector": ("simulate -l 'team in'", "team in"),
        "a check": ("simulate --check=sometimes", "sometimes"),
        "explain of an extender": ("explain --server http://x --down a deploy/moves", "--server"),
    },
)
def test_wrong_usage_names_what_is_accepted(on_objects, arguments, message):
    result = on_objects(arguments, *FLEET)
    assert result.exit_code != 0
    assert message in result.output + str(result.exception)


def test_a_new_cluster_needs_a_manifest_of_clusters_only(on_objects, tmp_path):
    result = on_objects(f"simulate --add-cluster {tmp_path / 'fleet.json'}", *FLEET)
    assert "contains other objects than clusters" in str(result.exception)


def test_the_limit_of_clusters_holds_for_data(call):
    whole = json.loads(call("explain deploy/moves -o json"))["diagnosis"]["groups"][0]
    limited = json.loads(call("explain deploy/moves -o json --limit 1"))["diagnosis"]["groups"][0]
    assert len(whole["clusters"]) == 3
    assert ([each["cluster"] for each in limited["clusters"]], limited["omittedClusters"]) == (["a"], 2)
    assert "and 2 more" in call("explain deploy/moves --limit 1")
