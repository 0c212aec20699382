"""Failures of clusters, regions, zones and providers; a failure has the result of a simulation of the whole world."""

import sys
from datetime import UTC, datetime
from unittest.mock import patch

from builders import cluster, deployment, placement, policy, selector
from fleet_dump import DIVIDED, load, members, stored_binding, stored_policy, stored_template
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from switched_on import world_of
from tables import cases

from berthmaster.manifests import Document, Manifests
from berthmaster.model.decode import encode_json
from berthmaster.model.taint import NO_EXECUTE, Taint
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.simulation.change_set import ChangeSet, PlanIndex
from berthmaster.simulation.changes import AddLabel, AddTaint, Down, RemoveCluster, Reschedule, Scale
from berthmaster.simulation.failures import DomainLoss, FailureDomain, Failures, losses
from berthmaster.simulation.plan_answer import ALL_OFF
from berthmaster.simulation.planner import PlanDecider, plan, simulated
from berthmaster.simulation.scheduling_cycle import run
from berthmaster.simulation.workload import ResourceName
from berthmaster.simulation.world import World

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PROFILE = karmada_profile()
BY_CLUSTER = {"spreadByField": "cluster", "minGroups": 1, "maxGroups": 2}
BY_REGION = {"spreadByField": "region", "minGroups": 1, "maxGroups": 2}
NAMES = "abcde"


def member(name, region="", zones=(), provider="", cpu=8):
    return cluster(name, region=region, zones=zones, provider=provider, cpu=cpu, memory="64Gi")


def world(clusters, *workloads, affinity=False, scheduler="") -> World:
    """A world of workloads: (name, replicas, cpu of a replica, placement)."""
    policies, documents = [], []
    for number, (name, replicas, cpu, fields) in enumerate(workloads, 1):
        held = policy(name, selectors=[selector(name=name)], placement=placement(**fields), scheduler_name=scheduler)
        policies.append(held)
        labels = {"app": "x"} if affinity else {}
        raw = deployment(name, replicas=replicas, requests={"cpu": cpu}, labels=labels)
        documents.append(Document("-", number, "", raw))
    manifests = Manifests(clusters=list(clusters), policies=policies, templates=documents)
    return world_of(manifests, workload_affinity=affinity)


@cases(
    ("domain", "expected"),
    {
        "clusters": (FailureDomain.CLUSTER, {"a": "a", "b": "b", "c": "c"}),
        "a cluster without a region is in none": (FailureDomain.REGION, {"r1": "ab"}),
        "a cluster in two zones is lost with neither": (FailureDomain.ZONE, {"z1": "a"}),
        "providers": (FailureDomain.PROVIDER, {"p": "ac"}),
    },
)
def test_which_clusters_a_domain_has(domain, expected):
    fleet = [
        member("a", "r1", ["z1"], "p"),
        member("b", "r1", ["z1", "z2"]),
        member("c", provider="p"),
    ]
    found = losses({each.name: each for each in fleet}, [domain])
    assert {each.name: "".join(each.clusters) for each in found} == expected


def impacts(before, *names, **options):
    failures = Failures(before, PROFILE, NOW, **options)
    return failures.impacts([DomainLoss(FailureDomain.CLUSTER, name, (name,)) for name in names])


def only(name):
    return {**DIVIDED, "clusterAffinity": {"clusterNames": [name]}}


TOLERANT = {**DIVIDED, "clusterTolerations": [{"operator": "Exists"}]}


@cases(
    ("workload", "nowhere", "short", "staying"),
    {
        "it moves": (("web", 4, "1", DIVIDED), 0, 0, 0),
        "no other cluster fits": (("web", 4, "1", only("a")), 1, 0, 0),
        "the other cluster does not hold all replicas": (("web", 10, "1", DIVIDED), 0, 1, 0),
        "it tolerates the taints of a lost cluster": (("web", 4, "1", TOLERANT), 1, 0, 1),
        "a duplicated workload runs on the other cluster": (("web", 4, "1", {}), 0, 0, 0),
    },
)
def test_what_happens_to_a_workload_of_a_lost_cluster(workload, nowhere, short, staying):
    (impact,) = impacts(world([member("a"), member("b", cpu=4)], workload), "a")
    assert (len(impact.nowhere), len(impact.short), len(impact.staying)) == (nowhere, short, staying)
    assert impact.harmless == (nowhere + short + staying == 0)


def test_a_suspended_workload_that_is_evicted_goes_nowhere():
    held = stored_policy(placement=DIVIDED)
    template = stored_template(held_by=held)
    bound = stored_binding(template, {"a": 2}, policy=held, suspension={"scheduling": True})
    (impact,) = impacts(world_of(load(*members("a", "b"), held, template, bound)), "a")
    assert impact.nowhere == ["default/Deployment/web"]


def test_failures_are_ranked_by_what_stops_and_has_no_other_copy():
    fleet = [member("a"), member("b"), member("c")]
    before = world(fleet, ("one", 1, "1", only("b")), ("two", 2, "1", {**DIVIDED, **placed("c", "a")}))
    ranked = [(each.name, each.stopping, each.stopped, each.only_copy) for each in impacts(before, "a", "b", "c")]
    two, one = ["default/Deployment/two"], ["default/Deployment/one"]
    assert sorted(ranked[:2]) == [("a", 1, 2, two), ("b", 1, 1, one)]
    assert ranked[2] == ("c", 0, 0, [])
    assert ranked[0][0] == "a"


def test_what_has_no_replicas_is_no_workload_that_stops():
    held = stored_policy(to=["a"], selects="v1/ConfigMap")
    raw = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default"}}
    settings = stored_template(raw, held_by=held)
    bound = stored_binding(settings, {"a": 0}, policy=held, replicas=None)
    (impact,) = impacts(world_of(load(*members("a", "b"), held, settings, bound)), "a")
    assert (impact.stopping, impact.stopped, impact.only_copy) == (0, 0, [])


def placed(*names):
    return {"clusterAffinity": {"clusterNames": list(names)}}


def test_a_cluster_that_gets_more_than_is_free_is_named():
    static = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}
    before = world([member("a"), member("b", cpu=3)], ("web", 8, "1", {"replicaScheduling": static}))
    (impact,) = impacts(before, "a")
    assert impact.arriving == {"b": 4}
    assert impact.overcommitted == {"b": ["cpu"]}


def test_with_shared_capacity_workloads_compete_for_what_is_left():
    fleet = [member("a"), member("b", cpu=6)]
    workloads = [(name, 4, "1", {**DIVIDED, "clusterAffinities": groups("a", "b")}) for name in ("one", "two")]
    (alone,) = impacts(world(fleet, *workloads), "a")
    assert (len(alone.nowhere), len(alone.short), alone.overcommitted) == (0, 0, {"b": ["cpu"]})
    (shared,) = impacts(world(fleet, *workloads), "a", shared_capacity=True)
    assert (shared.nowhere, shared.overcommitted) == (["default/Deployment/two"], {})


def groups(*names):
    return [{"affinityName": name, "clusterNames": [name]} for name in names]


@st.composite
def placements(draw):
    fields = dict(draw(st.sampled_from([{}, DIVIDED, TOLERANT])))
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=4))
    kind = draw(st.sampled_from(["any", "named", "groups", "clusters", "regions"]))
    if kind == "named" and names:
        fields["clusterAffinity"] = {"clusterNames": names}
    elif kind == "groups" and names:
        fields["clusterAffinities"] = groups(*names)
    elif kind in {"clusters", "regions"}:
        fields["spreadConstraints"] = [BY_CLUSTER] if kind == "clusters" else [BY_REGION, BY_CLUSTER]
    if draw(st.booleans()):
        fields["workloadAffinity"] = {draw(st.sampled_from(["affinity", "antiAffinity"])): {"groupByLabelKey": "app"}}
    return fields


@st.composite
def worlds(draw):
    regions = st.sampled_from(["r1", "r2", ""])
    fleet = [member(name, draw(regions), cpu=draw(st.integers(1, 9))) for name in NAMES]
    drawn = draw(st.lists(st.tuples(st.integers(0, 9), placements()), min_size=1, max_size=5))
    workloads = [(f"w{number}", replicas, "1", fields) for number, (replicas, fields) in enumerate(drawn)]
    scheduler = draw(st.sampled_from(("", "berthmaster")))
    return world(fleet, *workloads, affinity=draw(st.booleans()), scheduler=scheduler)


@cases(
    ("scheduler", "went_to"),
    {"karmada-scheduler": ("default-scheduler", ["b", "b"]), "Berthmaster's": ("berthmaster", ["b", "c"])},
)
def test_replaced_replicas_are_deducted_as_the_scheduler_does(scheduler, went_to):
    """Four replicas of one CPU each fit on b or c. karmada-scheduler sees the same room for both workloads."""
    fleet = [member("a", cpu=8), member("b", cpu=6), member("c", cpu=5)]
    before = world(fleet, ("one", 4, "1", DIVIDED), ("two", 4, "1", DIVIDED), scheduler=scheduler)
    failure = Failures(before, PROFILE, NOW).after(DomainLoss(FailureDomain.CLUSTER, "a", ("a",)))
    full = simulated(before, ChangeSet(edits=(Down("a"),)), PROFILE, NOW).workloads
    assert [*map(list, (each.assignment for each in failure.values()))] == [[each] for each in went_to]
    assert [list(each.after.assignment) for each in full] == [[each] for each in went_to]


def outcome(result):
    return result.assignment, result.failure is not None, result.group


@given(worlds(), st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True), st.booleans())
def test_a_failure_has_the_result_of_a_simulation_of_the_whole_world(before, lost, shared):
    failures = Failures(before, PROFILE, NOW, shared_capacity=shared)
    loss = DomainLoss(FailureDomain.REGION, "-", tuple(lost))
    other = DomainLoss(FailureDomain.CLUSTER, "-", (next(name for name in NAMES if name not in lost),))
    failures.after(other)  # an earlier failure leaves no trace
    found = failures.after(loss)
    down = ChangeSet(edits=tuple(map(Down, lost)))
    full = simulated(before, down, PROFILE, NOW, shared_capacity=shared).workloads
    settled, _ = run(before, PROFILE, NOW, shared_capacity=shared)
    _, idle = run(settled, PROFILE, NOW, shared_capacity=shared)
    for position, planned in enumerate(full):
        assert outcome(found.get(position, idle[position])) == outcome(planned.after)


CHANGES = st.sampled_from([
    Down("a"), Down("b"), RemoveCluster("a"), AddLabel("c", "new", "label"), AddTaint("b", Taint("gpu", NO_EXECUTE)),
    AddTaint("c", Taint("gpu", "NoSchedule")), Scale(ResourceName("", "Deployment", "w0"), 3), Reschedule(),
])  # fmt: skip


@given(worlds(), st.lists(CHANGES, min_size=1, max_size=3), st.booleans(), st.booleans())
def test_a_simulation_that_looks_at_each_workload_again_has_the_same_answer(before, changes, shared, replaces):
    scheduled, _ = run(before, PROFILE, NOW, shared_capacity=shared)
    assumed = replace(ALL_OFF, replaces="default-scheduler") if replaces else before.assumptions
    present = [replace(each, present=True) for each in scheduled.workloads]
    before = replace(before, workloads=present, assumptions=assumed)
    answers = set()
    for stays in (PlanDecider.stays, lambda *_: False):
        with patch.object(PlanDecider, "stays", stays):
            edits, index = ChangeSet(edits=tuple(changes)), PlanIndex(before, PROFILE)
            answers |= {
                encode_json(plan(index, edits, NOW, shared_capacity=shared, lists_all=lists_all))
                for lists_all in (False, True)
            }
    assert len(answers) <= 2, "one for each list"


NEEDS = st.lists(st.sampled_from(["red", "green", "blue"]), max_size=3, unique=True)


@given(st.lists(st.tuples(NEEDS, st.sampled_from(["a", "b"])), min_size=1, max_size=4))
def test_dependencies_follow_in_every_failure(leaders):
    held = stored_policy(placement=DIVIDED, propagateDeps=True)
    documents = [*members("a", "b"), held]
    for number, (needs, where) in enumerate(leaders):
        raw = deployment(f"web-{number}", replicas=2)
        sources = [{"configMapRef": {"name": name}} for name in needs]
        raw["spec"]["template"]["spec"] = {"containers": [{"name": "web", "envFrom": sources}]}
        template = stored_template(raw, held_by=held)
        documents += [template, stored_binding(template, {where: 2}, policy=held)]
    for name in ("red", "green", "blue"):
        metadata = {"name": name, "namespace": "default"}
        documents.append(stored_template({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}))
    before = world_of(load(*documents))
    found = Failures(before, PROFILE, NOW).after(DomainLoss(FailureDomain.CLUSTER, "a", ("a",)))
    compared = simulated(before, ChangeSet(edits=(Down("a"),)), PROFILE, NOW)
    idle = Failures(before, PROFILE, NOW)._idle  # noqa: SLF001 - the reference of the comparison
    for position, planned in enumerate(compared.workloads):
        assert found.get(position, idle[position]).assignment == planned.after.assignment, planned.resource
    if any(needs and where == "a" for needs, where in leaders):
        assert {"ConfigMap"} <= {each.workload.resource.kind for each in found.values()}


def test_a_failure_costs_what_is_on_the_lost_cluster():
    """The number of calls does not depend on how many other clusters and workloads there are."""

    def calls(others: int) -> int:
        names = [f"other-{each}" for each in range(others)]
        elsewhere = [(f"web-{name}", 2, "1", only(name)) for name in names]
        fleet = [member("a"), member("b"), *map(member, names)]
        before = world(fleet, ("web", 4, "1", {**DIVIDED, **placed("a", "b")}), *elsewhere)
        failures = Failures(before, PROFILE, NOW)
        lost = [DomainLoss(FailureDomain.CLUSTER, "a", ("a",))]
        failures.impacts(lost)  # what is derived once
        counted = 0

        def count(_frame: object, event: str, _argument: object) -> None:
            nonlocal counted
            counted += event == "call"

        sys.setprofile(count)
        try:
            (impact,) = failures.impacts(lost)
        finally:
            sys.setprofile(None)
        assert impact.stopping == 1
        return counted

    few, many = calls(3), calls(60)
    assert many <= few * 1.1, (few, many)
