"""Which events queue which bindings."""

from typing import Any

import msgspec
import pytest
from builders import binding, cluster
from decisions import AGGREGATED, asked
from fake_clock import FakeClock
from fixed_control import default_moves
from kube_in_memory import KubeInMemory

from berthmaster.controllers.binding_scheduler.binding_cache import BindingCache
from berthmaster.controllers.binding_scheduler.cluster_cache import ClusterCache
from berthmaster.controllers.binding_scheduler.event_handlers import EventHandlers, eligible, gains_capacity
from berthmaster.controllers.binding_scheduler.queue import SchedulingQueue
from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.deciding.failover import FailoverOptions
from berthmaster.kube.kinds import RESOURCE_BINDINGS
from berthmaster.model.binding import Binding
from berthmaster.model.claims import MANAGED_BY
from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import encode_json
from berthmaster.model.meta import Key
from berthmaster.model.policy import Suspension
from berthmaster.scheduling.karmada.profile import karmada_profile


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


@pytest.mark.parametrize(
    ("before", "after", "more"),
    [
        pytest.param(cluster(cpu=1), cluster(cpu=1), False, id="nothing changed"),
        pytest.param(cluster(cpu=1), cluster(cpu=2), True, id="more cores"),
        pytest.param(cluster(cpu=2), cluster(cpu=1), False, id="fewer cores"),
        pytest.param(cluster(cpu=2, allocated={"cpu": 1}), cluster(cpu=2), True, id="a workload ended there"),
        pytest.param(cluster(cpu=2), cluster(cpu=2, allocated={"cpu": 1}), False, id="a workload started there"),
        pytest.param(cluster(cpu=1, memory=9), cluster(cpu=2, memory=1), True, id="more of one, less of another"),
        pytest.param(cluster(), cluster(cpu=1), True, id="it reports resources for the first time"),
        pytest.param(cluster(cpu=1), cluster(), False, id="it reports no resources any more"),
        pytest.param(cluster(labels={"a": "b"}), cluster(labels={"a": "c"}), True, id="another label"),
        pytest.param(cluster(taints=["a:NoSchedule"]), cluster(), True, id="a taint is gone"),
        pytest.param(cluster(ready=False), cluster(), True, id="it becomes ready"),
        pytest.param(cluster(), cluster(ready=False), False, id="it becomes not ready"),
        pytest.param(cluster(serves=()), cluster(), True, id="it serves another kind"),
    ],
)
def test_which_changes_of_a_cluster_add_capacity(*, before: Cluster, after: Cluster, more: bool):
    assert gains_capacity(before, after) is more


class Uncounted:
    def incoming(self, event: str) -> None:
        pass


class Handled:
    """Event handlers with a cache of one cluster with ten cores, and their queue."""

    def __init__(self) -> None:
        clock = FakeClock()
        self.clusters = ClusterCache(karmada_profile(), clock, FailoverOptions())
        self.queue = SchedulingQueue(clock, lambda _: 0)
        self._context = ControllerContext(KubeInMemory(), clock, None, None)  # type: ignore[arg-type] # no events, no metrics
        bindings = BindingCache(self._context)
        self.handlers = EventHandlers(bindings, self.clusters, self.queue, Uncounted(), "me", default_moves(clock))
        self.handlers.cluster_changed(("", "m"), None, cluster("m", cpu=10))

    def hold(self, *bindings: Binding) -> None:
        """Add bindings without events."""
        for each in bindings:
            key = each.metadata.key
            self._context.informers[RESOURCE_BINDINGS].put(key, msgspec.Raw(encode_json(each)))

    def take_all(self) -> list[Key]:
        """Take all active keys, and finish them."""
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
    handled.handlers.binding_changed(key, None, old)
    handled.clusters.decide_and_assume(key, old)
    assert handled.take_all() == [key]
    assert handled.clusters.assumed_count() == 1

    handled.handlers.binding_changed(key, old, eligible_binding("web", "new", replicas=4))

    assert handled.clusters.assumed_count() == 0
    assert handled.take_all() == [key], "although its generation is the same"


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(None, id="is deleted"),
        pytest.param(eligible_binding("web", "uid", suspension=Suspension(scheduling=True)), id="is suspended"),
    ],
)
def test_a_failed_binding_that_is_not_eligible_any_more_is_queued_once(after: Binding | None):
    handled = Handled()
    key = "default", "web"
    handled.handlers.binding_changed(key, None, eligible_binding("web", "uid"))
    assert handled.take_all() == [key]
    handled.queue.retry(key)
    handled.handlers.binding_changed(key, eligible_binding("web", "uid"), after)
    assert handled.take_all() == [key], "its pending status or its assumed replicas may need work"


def test_a_deleted_cluster_queues_its_bindings():
    handled = Handled()
    on_it = eligible_binding("web", "uid", replicas=1, clusters={"m": 1})
    handled.hold(on_it, eligible_binding("other", "uid", replicas=1, clusters={"n": 1}))
    handled.handlers.cluster_changed(("", "m"), cluster("m", cpu=10), None)
    assert handled.take_all() == [("default", "web-deployment")]
