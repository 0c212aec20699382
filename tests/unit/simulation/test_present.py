"""A world starts from what a control plane has: claims, bindings, evictions, suspensions."""

from dataclasses import replace

import pytest
from builders import deployment
from fleet_dump import DIVIDED, load, members, stored_binding, stored_policy, stored_template
from simulated_worlds import NOW, WEB, explain, planned, simulated_rows, web_row
from switched_on import world_of
from tables import cases

from berthmaster.model.binding import Component
from berthmaster.model.taint import Taint
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.simulation.changes import AddTaint, Down, Reschedule, Scale
from berthmaster.simulation.report import claim_rows, row
from berthmaster.simulation.workload import NotScheduled, ResourceName

P = stored_policy("p", to=["a"], placement=DIVIDED)
WEB_OF_P = stored_template(held_by=P)
BOUND = stored_binding(WEB_OF_P, {"a": 2}, policy=P)
FLEET = members("a", "b", "c")


def other(name="q", **fields):
    return stored_policy(name, to=["b"], placement=DIVIDED, **fields)


ALWAYS = {"preemption": "Always", "target": {"name": "web"}}


@pytest.mark.parametrize(
    ("policy", "holder", "clusters", "reason"),
    [
        pytest.param(
            other(priority=9), "p", {"a": 2}, "it does not preempt, and a claim lasts (spec.preemption is Never)",
            id="a higher priority alone does not take a held resource",
        ),
        pytest.param(
            other(target={"name": "web"}), "p", {"a": 2}, "it does not preempt, and a claim lasts",
            id="a closer selector does not take a held resource",
        ),
        pytest.param(
            other("a", priority=0), "p", {"a": 2}, "it does not preempt", id="an earlier name does not take a resource",
        ),
        pytest.param(
            other(priority=9, **ALWAYS), "p", {"a": 2}, "it may preempt and has not: preemption is off",
            id="a stored policy that could preempt has not done so",
        ),
        pytest.param(
            other(priority=9, new=True, **ALWAYS), "q", {"b": 2}, "PropagationPolicy default/q takes it by preemption",
            id="a new policy preempts",
        ),
        pytest.param(
            other(priority=9, new=True, preemption="Always"), "p", {"a": 2}, "it preempts only resources that its",
            id="a new policy preempts only what it names",
        ),
        pytest.param(
            other(new=True, **ALWAYS), "p", {"a": 2}, "its priority 0 is not above the holder's 0",
            id="a new policy of equal priority does not preempt",
        ),
        pytest.param(
            other(kind="ClusterPropagationPolicy", priority=9, new=True, target={"name": "web", "namespace": "default"},
                  preemption="Always"),
            "p", {"a": 2}, "a ClusterPropagationPolicy never preempts a PropagationPolicy",
            id="a ClusterPropagationPolicy never preempts a PropagationPolicy",
        ),
    ],
)  # fmt: skip
def test_who_holds_a_resource_and_why_another_policy_does_not(policy, holder, clusters, reason):
    found = explain(*FLEET, P, policy, WEB_OF_P, BOUND)
    assert (found.policy, found.clusters) == (f"PropagationPolicy default/{holder}", clusters)
    assert [each.holds for each in found.claims] == [True, False]
    assert (found.claims[0].why_not, reason in found.claims[1].why_not) == ("", True)


VOLCANO, OWN = "batch.volcano.sh/v1alpha1", "example.io/v1"


def job(api_version, fewest):
    spec = {"tasks": [{"name": "main", "minAvailable": fewest}, {"name": "side", "minAvailable": 2}]}
    return {"apiVersion": api_version, "kind": "Job", "metadata": {"name": "web", "namespace": "default", "uid": "u"},
            "spec": spec}  # fmt: skip


SIDE = Component("side", 2)


@cases(
    ("api_version", "template", "components", "old"),
    {
        "a changed template": (VOLCANO, job(VOLCANO, 9), (Component("main", 9), SIDE), False),
        "the same template": (VOLCANO, job(VOLCANO, 1), (SIDE, Component("main", 1)), False),
        "no template": (VOLCANO, None, (SIDE, Component("main", 1)), False),
        "a changed template of a kind without a known interpreter": (
            OWN,
            job(OWN, 9),
            (SIDE, Component("main", 1)),
            True,
        ),
    },
)
def test_components_follow_a_template_that_is_applied(api_version, template, components, old):
    policy = stored_policy("p", to=["a"], selects=f"{api_version}/Job")
    stored = stored_template(job(api_version, 1), held_by=policy)
    bound = stored_binding(stored, {"a": 0}, policy=policy, replicas=0)
    bound["spec"]["components"] = [{"name": "side", "replicas": 2}, {"name": "main", "replicas": 1}]
    world = world_of(load(*FLEET, policy, stored, bound, over=[] if template is None else [template]))
    (workload,) = world.workloads
    assert workload.binding.spec.components == components
    assert (workload.binding.spec.replicas, workload.components_are_old) == (0, old)
    (shown,) = (row(each.after) for each in planned(world) if each.resource == "default/Job/web")
    assert any("its components are those of its binding" in each for each in shown.notes) is old


def test_an_explanation_names_a_lazy_policy():
    lazy = stored_policy("p", to=["a"], placement=DIVIDED, activationPreference="Lazy")
    found = explain(*FLEET, lazy, stored_template(held_by=lazy), stored_binding(WEB_OF_P, {"a": 2}, policy=lazy))
    assert "its policy is Lazy: a change of the policy counts when the template changes" in found.notes


NAMED = {"name": "web", "namespace": "default"}


@cases(
    ("first", "second"),
    {
        "a higher priority": ({}, {"priority": 1}),
        "a closer selector": ({"target": {}}, {}),
        "an earlier name": ({"name": "zebra"}, {"name": "alpha"}),
        "a PropagationPolicy after a ClusterPropagationPolicy": ({"kind": "ClusterPropagationPolicy"}, {}),
    },
)
def test_a_policy_of_a_file_does_not_hold_what_an_earlier_one_claims(first, second):
    files = [
        stored_policy(new=True, to=["a"], **{"name": name, "target": NAMED, **fields})
        for name, fields in (("p1", first), ("p2", second))
    ]
    stored = {**deployment("web", replicas=2), "metadata": {"name": "web", "namespace": "default", "uid": "u"}}
    world = world_of(load(*FLEET, stored, over=files))
    claims = claim_rows(world.workloads[0])
    assert [each.policy.rpartition(" ")[2].rpartition("/")[2] for each in claims] == [
        each["metadata"]["name"] for each in files
    ]
    assert claims[1].why_not == "it does not preempt, and a claim lasts (spec.preemption is Never)"


@cases(
    ("objects", "policy", "clusters"),
    {
        "it keeps what it holds": ([P, other(priority=9, target={"name": "web"}), WEB_OF_P, BOUND], "p", {"a": 2}),
        "a policy that no longer selects it loses it to the next one": (
            [stored_policy("p", to=["a"], placement=DIVIDED, target={"name": "other"}), other(), WEB_OF_P, BOUND],
            "q",
            {"b": 2},
        ),
        "without another policy the binding stays": (
            [stored_policy("p", to=["a"], placement=DIVIDED, target={"name": "other"}), WEB_OF_P, BOUND],
            None,
            {"a": 2},
        ),
        "a holder that was not read keeps it": ([other(), WEB_OF_P, BOUND], "p", {"a": 2}),
        "a binding keeps the record of a policy that is gone": ([stored_template(), BOUND], None, {"a": 2}),
        "a file keeps the claim": ([P, other(), deployment("web", replicas=2), BOUND], "p", {"a": 2}),
    },
)
def test_claims_of_a_fleet_in_use(objects, policy, clusters):
    web = web_row(*FLEET, *objects)
    assert web.after.policy == (policy and f"PropagationPolicy default/{policy}")
    assert web.after.clusters == clusters
    assert web.before.clusters == {"a": 2}


def test_a_holder_that_was_not_read_is_reported():
    found = explain(*FLEET, other(), WEB_OF_P, BOUND)
    assert found.notes == ["PropagationPolicy default/p holds it, and is not among the input"]
    assert [each.holds for each in found.claims] == [False]


def test_a_resource_that_lost_its_policy_says_so():
    gone = stored_policy("p", to=["a"], placement=DIVIDED, target={"name": "other"})
    after = web_row(*FLEET, gone, WEB_OF_P, BOUND, changes=[Reschedule()]).after
    assert (after.not_scheduled, after.clusters) == (NotScheduled.UNCLAIMED, {"a": 2})
    assert after.message == "no policy holds it any more: it stays where it is"
    assert after.notes == ["PropagationPolicy default/p held it, and no longer selects it"]


def test_before_is_what_the_binding_says_and_not_a_fresh_decision():
    elsewhere = stored_binding(WEB_OF_P, {"c": 2}, policy=P, applied=False)
    web = web_row(*FLEET, P, WEB_OF_P, elsewhere)
    assert (web.before.clusters, web.before.trigger, web.after.clusters) == ({"c": 2}, Trigger.NONE, {"a": 2})
    assert web.moves == web.due == {"a": (None, 2), "c": (2, None)}
    (found,) = planned(world_of(load(*FLEET, P, WEB_OF_P, elsewhere)))
    placed = row(found.settled, found.before)
    assert (placed.present, placed.clusters, placed.trigger) == ({"c": 2}, {"a": 2}, Trigger.FIRST)


def widget(**metadata):
    named = {"name": "web", "namespace": "default", **metadata}
    return {"apiVersion": "example.io/v1", "kind": "Widget", "metadata": named, "spec": {"size": 7}}


WIDGETS = stored_policy("p", to=["a"], placement=DIVIDED, selects="example.io/v1/Widget")
SERVES = {"serves": [{"groupVersion": "example.io/v1", "resources": [{"name": "widgets", "kind": "Widget"}]}]}


@pytest.mark.parametrize(
    ("raw", "over", "replicas", "note"),
    [
        pytest.param(stored_template(held_by=P, replicas=2), [], 4, "the template has 2 replicas; the binding has 4",
                     id="the binding counts"),
        pytest.param(stored_template(held_by=P, replicas=4), [], 4, "", id="both are equal"),
        pytest.param(deployment("web", replicas=6), [], 6, "", id="a template from a file would be applied"),
        pytest.param(None, [stored_template(held_by=P, replicas=6)], 6, "", id="a template over stored objects counts"),
        pytest.param(None, [], 4, "", id="the template is not among the input"),
    ],
)  # fmt: skip
def test_which_replicas_count(raw, over, replicas, note):
    bound = stored_binding(stored_template(held_by=P), {"a": 4}, policy=P, replicas=4)
    web = web_row(*FLEET, P, *filter(None, [raw]), bound, over=over)
    assert web.after.replicas == replicas
    assert note in "".join(web.after.notes)
    assert bool(web.after.notes) == bool(note)


def test_a_binding_with_replicas_is_scheduled_with_these_whatever_its_kind():
    fleet = members("a", "b", **SERVES)
    known = widget(uid="1", resourceVersion="1")
    bound = stored_binding(known, {"a": 5}, policy=WIDGETS, replicas=5)
    after = simulated_rows(*fleet, WIDGETS, known, bound, changes=[Scale(ResourceName("", "Widget", "web"), 6)])
    row = after["default/Widget/web"].after
    assert (row.clusters, row.trigger, row.not_scheduled) == ({"a": 6}, Trigger.SCALE, None)


@pytest.mark.parametrize(
    ("spec", "reason", "message"),
    [
        pytest.param({"suspension": {"scheduling": True}}, NotScheduled.SUSPENDED, "its scheduling is suspended",
                     id="suspended"),
        pytest.param({"schedulerName": "other"}, NotScheduled.OTHER_SCHEDULER, "it belongs to scheduler other",
                     id="another scheduler"),
        pytest.param({"schedulerName": "berthmaster"}, None, None, id="our scheduler"),
        pytest.param({"suspension": {"dispatching": True}}, None, None, id="only dispatching is suspended"),
    ],
)  # fmt: skip
def test_which_bindings_a_scheduler_looks_at(spec, reason, message):
    bound = {**BOUND, "spec": {**BOUND["spec"], **spec}}
    web = web_row(*FLEET, P, WEB_OF_P, bound, changes=[Scale(WEB, 3)])
    assert (web.after.not_scheduled, web.after.clusters) == (reason, {"a": 2} if reason else {"a": 3})
    assert (web.after.message or "").startswith(message or "")


def test_a_named_scheduler_is_rows():
    bound = {**BOUND, "spec": {**BOUND["spec"], "schedulerName": "other"}}
    web = web_row(*FLEET, P, WEB_OF_P, bound, changes=[Scale(WEB, 3)], schedulers={"other"})
    assert (web.after.clusters, web.after.scheduler) == ({"a": 3}, "other")


def test_a_holder_that_no_longer_selects_a_template_does_not_scale_it():
    """Karmada's detector removes a claim when the policy changes, and not when the labels of the resource do."""
    elsewhere = stored_policy("p", to=["a"], placement=DIVIDED, target={"name": "other"})
    world = world_of(replace(load(*FLEET, elsewhere, WEB_OF_P, BOUND), read_at=NOW))
    (workload,) = planned(world, Scale(WEB, 3))
    web = row(workload.after)
    assert web.clusters == {"a": 2}
    assert "holds it and no longer selects it" in web.notes[-1]


def test_a_suspended_dispatch_is_reported():
    held = {"suspension": {"dispatchingOnClusters": {"clusterNames": ["a"]}}}
    policy = {**P, "spec": {**P["spec"], **held}}
    after = web_row(*FLEET, policy, WEB_OF_P, BOUND).after
    assert after.notes == ["dispatching to a is suspended: no changes arrive there"]


ANYWHERE = stored_policy("p", placement=DIVIDED)
EVICTED = {"gracefulEvictionTasks": [{"fromCluster": "b", "producer": "TaintManager", "reason": "TaintUntolerated"}]}


def anywhere(clusters, **spec):
    template = stored_template(held_by=ANYWHERE)
    return [ANYWHERE, template, stored_binding(template, clusters, policy=ANYWHERE, **spec)]


def test_an_existing_eviction_task_excludes_its_cluster_and_is_reported():
    after = web_row(*members("a", "b"), *anywhere({"a": 2}, **EVICTED), changes=[Scale(WEB, 200)]).after
    assert (after.error.value, after.evicting, after.notes) == ("Insufficient", ["b"], ["being evicted from b"])


@pytest.mark.parametrize(
    ("reporting", "waits"),
    [
        pytest.param([], True, id="nothing is known about copies"),
        pytest.param(["a", "b"], True, id="the old copy is there"),
        pytest.param(["a"], False, id="the old copy is gone"),
    ],
)
def test_an_eviction_with_the_purge_mode_directly_says_what_new_copies_wait_for(reporting: list[str], *, waits: bool):
    tasks = [{**EVICTED["gracefulEvictionTasks"][0], "purgeMode": "Directly"}]
    objects = anywhere({"a": 2}, gracefulEvictionTasks=tasks)
    objects[-1] = {
        **objects[-1],
        "status": {"aggregatedStatus": [{"clusterName": n, "applied": True} for n in reporting]},
    }
    after = web_row(*members("a", "b"), *objects, changes=[Scale(WEB, 200)]).after
    note = "being evicted from b with purgeMode Directly: no new copy starts before the one on b is deleted"
    assert after.notes == ([note] if waits else [])


def test_an_eviction_of_a_suspended_binding_is_not_replaced():
    web = web_row(*FLEET, *anywhere({"b": 2}, suspension={"scheduling": True}), changes=[Down("b")])
    assert (web.after.not_scheduled, web.moves) == (NotScheduled.SUSPENDED, {"b": (2, None)})


def test_tolerations_of_the_last_scheduling_count():
    tolerant = {**DIVIDED, "clusterTolerations": [{"key": "drain", "operator": "Exists"}]}
    policy = stored_policy("p", to=["a", "b"], placement=tolerant)
    template = stored_template(held_by=policy)
    bound = stored_binding(template, {"a": 2}, policy=policy)
    drain = AddTaint("a", Taint(key="drain", effect="NoExecute"))
    assert web_row(*FLEET, policy, template, bound, changes=[drain]).moves == {}
    applied = '{"replicaScheduling":{}}'
    bound["metadata"]["annotations"]["policy.karmada.io/applied-placement"] = applied
    moved = web_row(*FLEET, policy, template, bound, over=[], changes=[drain])
    assert moved.moves == {}, "the placement changed first, so that the new tolerations were applied before the taint"


DUPLICATED = stored_policy("p")


def duplicated(**spec):
    template = stored_template(held_by=DUPLICATED)
    return [DUPLICATED, template, stored_binding(template, {"a": 2, "b": 2}, policy=DUPLICATED, **spec)]


def test_a_duplicated_eviction_is_a_failover():
    web = web_row(*members("a", "b"), *duplicated(), changes=[Down("b")])
    assert (web.after.trigger, web.after.clusters) == (Trigger.FAILOVER, {"a": 2})


def test_an_old_eviction_is_no_failover():
    task = {**EVICTED["gracefulEvictionTasks"][0], "fromCluster": "c", "creationTimestamp": "2025-12-31T00:00:00Z"}
    web = web_row(*FLEET, *duplicated(gracefulEvictionTasks=[task]))
    assert (web.after.trigger, web.after.clusters) == (Trigger.RECONCILE, {"a": 2, "b": 2})


def test_a_binding_keeps_its_observed_group():
    groups = {"clusterAffinities": [{"affinityName": name, "clusterNames": [name]} for name in ("a", "b")]}
    policy = stored_policy("p", placement={**DIVIDED, **groups})
    template = stored_template(held_by=policy)
    web = web_row(
        *FLEET, policy, template, stored_binding(template, {"b": 2}, policy=policy, observed="b"),
        changes=[Scale(WEB, 3)],
    )  # fmt: skip
    assert (web.before.group, web.after.group, web.after.clusters) == ("b", "b", {"b": 3})


def test_an_explanation_without_a_trigger_shows_what_a_scheduler_would_find():
    found = explain(*FLEET, P, WEB_OF_P, BOUND)
    assert (found.trigger, found.clusters, found.present) == (Trigger.NONE, {"a": 2}, {"a": 2})
    assert {each.cluster: each.outcome.value for each in found.diagnosis.groups[0].clusters} == {
        "a": "assigned", "b": "rejected", "c": "rejected",
    }  # fmt: skip
