"""Which events queue which bindings; quotas, gates that are ignored, and metrics."""

import json
import logging
from typing import Any

import msgspec
import pytest
from builders import binding, cluster
from decisions import AGGREGATED, asked
from fake_clock import FakeClock
from fixed_control import default_moves
from karmada_model.stage import Stage
from kube_in_memory import KubeInMemory
from prometheus_client import REGISTRY
from retained import retained
from tables import cases, data

from berthmaster.controllers.binding_scheduler.binding_cache import BindingCache
from berthmaster.controllers.binding_scheduler.binding_index import BindingIndex
from berthmaster.controllers.binding_scheduler.cluster_cache import ClusterCache
from berthmaster.controllers.binding_scheduler.controller import BindingScheduler
from berthmaster.controllers.binding_scheduler.event_handlers import ACTIVATED, EventHandlers, eligible, gains_capacity
from berthmaster.controllers.binding_scheduler.ignored_gates import IGNORED_GATES, IgnoredGates
from berthmaster.controllers.binding_scheduler.reconciler import count_attempt
from berthmaster.controllers.binding_scheduler.scheduling_queue import SchedulingQueue
from berthmaster.controllers.binding_scheduler.scheduling_times import SchedulingTimes
from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.controllers.settings import GATES, ControllerSettings
from berthmaster.deciding.failover import FailoverOptions
from berthmaster.kube.kinds import KARMADA_CLUSTERS
from berthmaster.kube.requests import RESOURCE_BINDINGS, APIRequest
from berthmaster.model.binding import Binding, Component, WorkloadAffinityGroups
from berthmaster.model.claims import MANAGED_BY
from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import encode_json
from berthmaster.model.errors import ApiError
from berthmaster.model.meta import Key
from berthmaster.model.policy import Suspension
from berthmaster.runtime.feature_gates import FeatureGates
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.scheduling.pending_replicas import LIFETIME_S


def labelled(made: Binding, **labels: str) -> Binding:
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, labels=labels))


@pytest.mark.parametrize(
    ("spec", "label", "expected"),
    [
        *(pytest.param({"scheduler_name": "me"}, label, True, id=f"labelled {label}") for label in MANAGED_BY),
        pytest.param({"scheduler_name": "me"}, "app", False, id="without a label of a policy"),
        pytest.param({"scheduler_name": "other"}, MANAGED_BY[0], False, id="another scheduler"),
        pytest.param({}, MANAGED_BY[0], False, id="no scheduler, which means default-scheduler"),
        pytest.param(
            {"scheduler_name": "me", "suspension": Suspension(scheduling=True)},
            MANAGED_BY[0],
            False,
            id="with scheduling suspended",
        ),
        pytest.param(
            {"scheduler_name": "me", "suspension": Suspension(dispatching=True)},
            MANAGED_BY[0],
            True,
            id="with only dispatching suspended",
        ),
    ],
)
def test_eligible_bindings(*, spec: dict[str, Any], label: str, expected: bool):
    assert eligible(labelled(binding(**spec), **{label: "x"}), "me") is expected


def test_an_empty_label_does_not_count():
    assert not eligible(labelled(binding(scheduler_name="me"), **{MANAGED_BY[0]: ""}), "me")


def test_a_binding_without_a_scheduler_is_the_default_scheduler_s():
    assert eligible(labelled(binding(), **{MANAGED_BY[0]: "x"}), "default-scheduler")


@cases(
    ("before", "after", "more"),
    {
        "nothing changed": (cluster(cpu=1), cluster(cpu=1), False),
        "more cores": (cluster(cpu=1), cluster(cpu=2), True),
        "fewer cores": (cluster(cpu=2), cluster(cpu=1), False),
        "a workload ended there": (cluster(cpu=2, allocated={"cpu": 1}), cluster(cpu=2), True),
        "a workload started there": (cluster(cpu=2), cluster(cpu=2, allocated={"cpu": 1}), False),
        "more of one, less of another": (cluster(cpu=1, memory=9), cluster(cpu=2, memory=1), True),
        "it reports resources for the first time": (cluster(), cluster(cpu=1), True),
        "it reports no resources any more": (cluster(cpu=1), cluster(), False),
        "another label": (cluster(labels={"a": "b"}), cluster(labels={"a": "c"}), True),
        "a taint is gone": (cluster(taints=["a:NoSchedule"]), cluster(), True),
        "it becomes ready": (cluster(ready=False), cluster(), True),
        "it becomes not ready": (cluster(), cluster(ready=False), False),
        "it serves another kind": (cluster(serves=()), cluster(), True),
    },
)
def test_which_changes_of_a_cluster_add_capacity(*, before: Cluster, after: Cluster, more: bool):
    assert gains_capacity(before, after) is more


class Handled:
    """Event handlers with a cache of one cluster with ten cores, and their queue."""

    def __init__(self, **options: Any) -> None:
        self.clock = clock = FakeClock()
        self.clusters = ClusterCache(karmada_profile(), clock, FailoverOptions(), **options)
        self.queue = SchedulingQueue(clock, lambda _: 0)
        self._context = ControllerContext(KubeInMemory(), clock, None)  # type: ignore[arg-type] # no events
        bindings = BindingCache(self._context)
        self.handlers = EventHandlers(
            bindings, self.clusters, self.queue, "me", default_moves(clock), SchedulingTimes()
        )
        self.cluster_changed(("", "m"), None, cluster("m", cpu=10))

    def binding_changed(self, key: Key, before: Binding | None, after: Binding | None) -> None:
        self.handlers.keep_binding(key, before, after)
        self.handlers.binding_changed(key, before, after)

    def cluster_changed(self, key: Key, before: Cluster | None, after: Cluster | None) -> None:
        self.handlers.keep_cluster(key, before, after)
        self.handlers.cluster_changed(key, before, after)

    def hold(self, *bindings: Binding) -> None:
        """Add bindings without events."""
        for each in bindings:
            key = each.metadata.key
            self._context.informers[RESOURCE_BINDINGS].put(key, msgspec.Raw(encode_json(each)))

    def take_all(self) -> list[Key]:
        found: list[Key] = []
        while self.queue.lengths()["active"]:
            key = self.queue.take()
            assert key is not None
            found.append(key)
            self.queue.done(key)
        return found


def eligible_binding(name: str, uid: str, **spec: Any) -> Binding:
    made = labelled(asked(name=name, scheduler_name="me", **spec), **{MANAGED_BY[0]: "x"})
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, uid=uid, generation=1))


def test_a_binding_that_was_created_again_between_two_events_is_new():
    handled = Handled()
    key = "default", "web"
    old = eligible_binding("web", "old", scheduling=AGGREGATED, requests={"cpu": 1}, replicas=4)
    handled.binding_changed(key, None, old)
    handled.clusters.decide_and_assume(key, old)
    assert handled.take_all() == [key]
    assert handled.clusters.assumed_count() == 1

    handled.binding_changed(key, old, eligible_binding("web", "new", replicas=4))

    assert handled.clusters.assumed_count() == 0
    assert handled.take_all() == [key], "although its generation is the same"


@cases(
    "after",
    {"is deleted": None, "is suspended": eligible_binding("web", "uid", suspension=Suspension(scheduling=True))},
)
def test_a_failed_binding_that_is_not_eligible_any_more_is_queued_once(after: Binding | None):
    handled = Handled()
    key = "default", "web"
    handled.binding_changed(key, None, eligible_binding("web", "uid"))
    assert handled.take_all() == [key]
    handled.queue.retry(key)
    handled.binding_changed(key, eligible_binding("web", "uid"), after)
    assert handled.take_all() == [key], "its pending status or its assumed replicas may need work"


def test_a_deleted_cluster_queues_its_bindings():
    handled = Handled()
    on_it = eligible_binding("web", "uid", replicas=1, clusters={"m": 1})
    handled.hold(on_it, eligible_binding("other", "uid", replicas=1, clusters={"n": 1}))
    handled.cluster_changed(("", "m"), cluster("m", cpu=10), None)
    assert handled.take_all() == [("default", "web-deployment")]


@cases(
    ("change", "expected"),
    {
        "it is deleted": ((cluster("m", cpu=10), None), {"web", "named", "no-label"}),
        "it is not ready": ((cluster("m"), cluster("m", ready=False)), {"web", "named", "no-label"}),
        "another label": ((cluster("m", labels={"a": "b"}), cluster("m")), {"named", "anywhere"}),
    },
)
def test_an_event_of_a_cluster_looks_only_at_the_bindings_that_it_concerns(
    change: tuple[Cluster, Cluster | None], expected: set[str], monkeypatch: pytest.MonkeyPatch
):
    handled = Handled()
    elsewhere = {"clusterAffinity": {"clusterNames": ["n"]}}
    handled.hold(
        eligible_binding("web", "uid", replicas=1, clusters={"m": 1}, **elsewhere),
        eligible_binding("named", "uid", replicas=1, clusters={"m": 1}, clusterAffinity={"clusterNames": ["m"]}),
        eligible_binding("anywhere", "uid", replicas=1, clusters={"n": 1}),
        labelled(eligible_binding("no-label", "uid", replicas=1, clusters={"m": 1}, **elsewhere)),
        *(eligible_binding(f"other-{each}", "uid", clusters={"n": 1}, **elsewhere) for each in range(50)),
    )
    looked_at, found = [], BindingCache.observed

    def observed(cache: BindingCache, key: Key) -> Binding | None:
        looked_at.append(key[1].removesuffix("-deployment"))
        return found(cache, key)

    monkeypatch.setattr(BindingCache, "items", None)  # no handler may go over all bindings
    monkeypatch.setattr(BindingCache, "observed", observed)
    handled.cluster_changed(("", "m"), *change)
    assert set(looked_at) == expected


GROUPS = [{"affinityName": "first", "clusterNames": ["m"]}, {"affinityName": "second", "clusterNames": ["n"]}]


@cases(
    ("group", "observed_generation", "affected_by"),
    {
        "the group of its assignment counts": ("second", 1, {"n"}),
        "without an assignment the first group counts": ("", 1, {"m"}),
        "the first group counts if its group is gone": ("gone", 1, {"m"}),
        "every cluster counts while its status is old": ("second", 0, {"m", "n", "o"}),
    },
)
def test_which_clusters_affect_a_binding_with_groups(group: str, observed_generation: int, affected_by: set[str]):
    made = eligible_binding("web", "uid", clusters={"n": 1}, groups=GROUPS)
    status = msgspec.structs.replace(
        made.status, scheduler_observing_affinity_name=group, scheduler_observed_generation=observed_generation
    )
    made = msgspec.structs.replace(made, status=status)
    index, key = BindingIndex(), made.metadata.key
    empty = retained(index)
    index.changed(key, None, made)
    assert {name for name in ("m", "n", "o") if index.affected([cluster(name)])} == affected_by
    changed = msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, placement=None, clusters=()))
    index.changed(key, made, changed)
    assert not [name for name in ("m", "n", "o") if index.affected([cluster(name)]) or index.on(name)]
    index.changed(key, changed, None)
    assert retained(index) == empty


def test_a_namespace_with_many_unschedulable_bindings_does_not_delay_another_one():
    handled = Handled()
    placement = eligible_binding("any", "uid").spec.placement
    failing = [(f"large-{each}", "large") for each in range(ACTIVATED + 100)] + [("web", "small")]
    for name, namespace in failing:
        made = eligible_binding(name, "uid", namespace=namespace)
        handled.hold(made)
        handled.queue.add_unschedulable(made.metadata.key, placement)
    assert len(handled.queue.unschedulable()) == 2, "an event of a cluster looks once at each placement of a namespace"
    handled.cluster_changed(("", "m"), cluster("m", cpu=10), cluster("m", cpu=20))
    handled.handlers.activate_unschedulable()
    first = handled.take_all()
    assert first.index(("small", "web-deployment")) <= 1
    assert len(first) == ACTIVATED + 1
    handled.handlers.activate_unschedulable()
    assert len(handled.take_all()) == 100, "the others follow, although no cluster has gained capacity since"
    handled.handlers.activate_unschedulable()
    assert not handled.take_all()


def test_a_standby_keeps_its_caches_and_a_leader_fills_its_queue():
    context = ControllerContext(KubeInMemory(), FakeClock(), None)  # type: ignore[arg-type] # no events
    scheduler = BindingScheduler(context, ControllerSettings(scheduler_name="me"))
    clusters, bindings = context.informers[KARMADA_CLUSTERS.collection], context.informers[RESOURCE_BINDINGS]
    for each in (clusters, bindings):
        each.mute()
        each.unmute(standby=True)
    made = eligible_binding("web", "uid", replicas=1, clusters={"m": 1}, requests={"cpu": 1})
    clusters.put(("", "m"), msgspec.Raw(encode_json(cluster("m", cpu=10))))
    bindings.put(made.metadata.key, msgspec.Raw(encode_json(made)))
    scheduler.housekeep()
    assert REGISTRY.get_sample_value("berthmaster_scheduler_assumed_assignments") == 1
    assert not scheduler.queue.lengths()["active"]
    for each in (clusters, bindings):
        each.unmute()
    assert scheduler.queue.lengths()["active"] == 1


@cases("protected", {"on": True, "off": False})
def test_what_another_scheduler_assigns_counts_until_its_cluster_reports_it(*, protected: bool):
    shared: dict[str, Any] = {"scheduling": AGGREGATED, "requests": {"cpu": 1}}
    own = eligible_binding("web", "uid", replicas=4, **shared)
    its, assigned = (
        labelled(asked(name="db", scheduler_name="other", replicas=8, clusters=clusters, **shared))
        for clusters in ({}, {"m": 8})
    )
    handled = Handled(overcommit_protection=protected)
    handled.binding_changed(its.metadata.key, None, its)
    handled.binding_changed(its.metadata.key, its, assigned)
    assert not handled.take_all(), "the binding of the other scheduler is not decided here"
    assert handled.clusters.preview(own).result.ok is not protected, "8 of 10 cores are taken"
    handled.clock.pass_by(LIFETIME_S)
    handled.clusters.expire()
    assert handled.clusters.preview(own).clusters == {"m": 4}


NAMESPACE = "shop"
MEMBER, BINDING = data("quotas").values()


def quota(cpu: str, namespace: str = NAMESPACE) -> dict[str, Any]:
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "FederatedResourceQuota",
        "metadata": {"name": "limit", "namespace": namespace},
        "spec": {"overall": {"cpu": cpu}},
    }


class Refusing:
    """A control plane whose quota of three CPUs has refused a binding with four replicas for half a minute.

    Attributes:
        stage: the control plane.
        refused: whether the quota still refuses the binding.
        writes: the assignments that were sent.
    """

    def __init__(self) -> None:
        self.refused, self.writes = True, 0
        self.stage = Stage(MEMBER, quota("3"), quota("3", "bank"), only=())
        self.stage.api.before = self._check
        self.stage.put(BINDING)
        self.stage.run(30)
        self.writes = 0

    def assigned(self) -> bool:
        return "clusters" in (self.stage.get(BINDING) or {"spec": {}})["spec"]

    def _check(self, request: APIRequest) -> None:
        if request.method == "PATCH" and "clusters" in json.loads(request.body).get("spec", {}):
            self.writes += 1
            if self.refused:
                raise ApiError(403, "QuotaExceeded", "the quota is exceeded")


@pytest.fixture
def refusing() -> Refusing:
    return Refusing()


def test_a_looser_quota_retries_it_at_once(refusing: Refusing):
    refusing.refused = False
    refusing.stage.apply(quota("4"))
    refusing.stage.run(0.5)
    assert refusing.assigned()


def test_a_deleted_quota_retries_it_at_once(refusing: Refusing):
    refusing.refused = False
    refusing.stage.delete(quota("3"))
    refusing.stage.run(0.5)
    assert refusing.assigned()


@cases("change", {"a tighter quota": quota("2"), "another namespace": quota("9", "bank")})
def test_other_changes_retry_nothing(refusing: Refusing, change: dict[str, Any]):
    refusing.stage.apply(change)
    refusing.stage.run(0.5)
    assert refusing.writes == 0


def test_a_binding_that_is_refused_again_waits_for_its_backoff(refusing: Refusing):
    refusing.stage.apply(quota("4"))
    refusing.stage.run(9)
    assert refusing.writes == 1
    refusing.stage.run(2)
    assert refusing.writes == 2


GROUPED = binding(workload_affinity_groups=WorkloadAffinityGroups("app=x"))
COMPONENTS = binding(components=(Component("driver", 1),))


@cases(
    ("on", "found", "gates"),
    {
        "one gate, once": ({}, [GROUPED, GROUPED], ["WorkloadAffinity"]),
        "the gate is on": ({"WorkloadAffinity": True}, [GROUPED], []),
        "a gate that is on by default": ({}, [COMPONENTS, binding()], []),
        "two gates": (
            {"MultiplePodTemplatesScheduling": False},
            [COMPONENTS, GROUPED],
            ["MultiplePodTemplatesScheduling", "WorkloadAffinity"],
        ),
    },
)
def test_ignored_gates(caplog, on, found, gates):
    IGNORED_GATES.clear()
    observer = IgnoredGates(FeatureGates(GATES, on))
    with caplog.at_level(logging.WARNING, "berthmaster.binding_scheduler"):
        for each in found:
            observer.binding_changed(("ns", "web"), None, each)
        observer.binding_changed(("ns", "web"), found[0], None)
    assert [record.getMessage().rpartition(" ")[2] for record in caplog.records] == [f"{gate}=true" for gate in gates]
    assert sorted(sample.labels["gate"] for metric in IGNORED_GATES.collect() for sample in metric.samples) == gates


@cases(
    ("trigger", "schedule_type"),
    {
        "a scaling": (Trigger.SCALE, "ScaleSchedule"),
        "a failover": (Trigger.FAILOVER, "ReconcileSchedule"),
        "the first scheduling": (Trigger.FIRST, "ReconcileSchedule"),
    },
)
def test_an_attempt_is_counted_by_type_and_trigger(trigger, schedule_type):
    labels = {"result": "scheduled", "schedule_type": schedule_type, "trigger": trigger.value}
    name = "berthmaster_scheduler_schedule_attempts_total"
    before = REGISTRY.get_sample_value(name, labels) or 0
    count_attempt("scheduled", trigger, 0.1)
    assert REGISTRY.get_sample_value(name, labels) == before + 1
