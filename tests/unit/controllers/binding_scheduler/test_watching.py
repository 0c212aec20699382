"""Which changes make which bindings be looked at."""

from typing import Any

import msgspec
import pytest
from builders import binding, cluster
from decisions import AGGREGATED, asked
from fake_clock import FakeClock
from kube_in_memory import KubeInMemory

from berthmaster.controllers.binding_scheduler.bindings import RESOURCE_BINDINGS, Bindings
from berthmaster.controllers.binding_scheduler.desk import Desk
from berthmaster.controllers.binding_scheduler.eligibility import MANAGED_BY, eligible
from berthmaster.controllers.binding_scheduler.failover import FailoverOptions
from berthmaster.controllers.binding_scheduler.queue import SchedulingQueue
from berthmaster.controllers.binding_scheduler.watching import Watching, gains
from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.kube.requests import Key
from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import encode_json
from berthmaster.model.policy import Suspension
from berthmaster.scheduling.karmada.profile import karmada_profile


def labelled(made: Binding, **labels: str) -> Binding:
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, labels=labels))


@pytest.mark.parametrize(
    ("spec", "label", "ours"),
    [
        *(pytest.param({"scheduler_name": "me"}, label, True, id=f"labelled {label}") for label in MANAGED_BY),
        pytest.param({"scheduler_name": "me"}, "app", False, id="without a label of a policy"),
        pytest.param({"scheduler_name": "other"}, MANAGED_BY[0], False, id="of another scheduler"),
        pytest.param({}, MANAGED_BY[0], False, id="without a scheduler, which is default-scheduler"),
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
def test_which_bindings_are_ours(*, spec: dict[str, Any], label: str, ours: bool):
    assert eligible(labelled(binding(**spec), **{label: "x"}), "me") is ours


def test_an_empty_label_is_no_claim():
    assert not eligible(labelled(binding(scheduler_name="me"), **{MANAGED_BY[0]: ""}), "me")


def test_a_binding_without_a_scheduler_is_the_default_scheduler_s():
    assert eligible(labelled(binding(), **{MANAGED_BY[0]: "x"}), "default-scheduler")


@pytest.mark.parametrize(
    ("before", "after", "more"),
    [
        pytest.param(cluster(cpu=1), cluster(cpu=1), False, id="nothing changed"),
        pytest.param(cluster(cpu=1), cluster(cpu=2), True, id="more cores"),
        pytest.param(cluster(cpu=2), cluster(cpu=1), False, id="fewer cores"),
        pytest.param(cluster(cpu=2, allocated={"cpu": 1}), cluster(cpu=2), True, id="something ended there"),
        pytest.param(cluster(cpu=2), cluster(cpu=2, allocated={"cpu": 1}), False, id="something came there"),
        pytest.param(cluster(cpu=1, memory=9), cluster(cpu=2, memory=1), True, id="more of one, less of another"),
        pytest.param(cluster(), cluster(cpu=1), True, id="it reports resources at last"),
        pytest.param(cluster(cpu=1), cluster(), False, id="it reports none any more"),
        pytest.param(cluster(labels={"a": "b"}), cluster(labels={"a": "c"}), True, id="another label"),
        pytest.param(cluster(taints=["a:NoSchedule"]), cluster(), True, id="a taint is gone"),
        pytest.param(cluster(ready=False), cluster(), True, id="it is ready again"),
        pytest.param(cluster(), cluster(ready=False), False, id="it is not ready any more"),
        pytest.param(cluster(serves=()), cluster(), True, id="it serves more"),
    ],
)
def test_when_a_cluster_may_hold_what_it_could_not_hold(*, before: Cluster, after: Cluster, more: bool):
    assert gains(before, after) is more


class Uncounted:
    def incoming(self, event: str) -> None:
        pass


class Heard:
    """A watching over a fleet of one cluster with ten cores, and the queue that it fills."""

    def __init__(self) -> None:
        clock = FakeClock()
        self.desk = Desk(karmada_profile(), clock, FailoverOptions())
        self.queue = SchedulingQueue(clock, lambda _: 0)
        self._context = ControllerContext(KubeInMemory(), clock, None, None)  # type: ignore[arg-type] # nothing is told or counted
        bindings = Bindings(self._context)
        self.watching = Watching(bindings, self.desk, self.queue, Uncounted(), "me")
        self.watching.cluster_changed(("", "m"), None, cluster("m", cpu=10))

    def hold(self, *bindings: Binding) -> None:
        """These are there, and nobody has looked at them yet."""
        for each in bindings:
            key = each.metadata.namespace, each.metadata.name
            self._context.informers[RESOURCE_BINDINGS].put(key, msgspec.Raw(encode_json(each)))

    def work_off(self) -> list[Key]:
        """The keys that are ready, which are taken and done."""
        found: list[Key] = []
        while self.queue.lengths()["active"]:
            key = self.queue.take()
            assert key is not None
            found.append(key)
            self.queue.done(key)
        return found


def ours(name: str, uid: str, **spec: Any) -> Binding:
    made = labelled(asked(name=name, scheduler_name="me", **spec), **{MANAGED_BY[0]: "x"})
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, uid=uid, generation=1))


def test_a_binding_that_was_made_anew_between_two_looks_is_a_new_one():
    heard = Heard()
    key = "default", "web"
    old = ours("web", "old", scheduling=AGGREGATED, requests={"cpu": 1}, replicas=4)
    heard.watching.binding_changed(key, None, old)
    heard.desk.decide(key, old)
    assert heard.work_off() == [key]
    assert heard.desk.assumptions() == 1

    heard.watching.binding_changed(key, old, ours("web", "new", replicas=4))

    assert heard.desk.assumptions() == 0
    assert heard.work_off() == [key], "although its generation is the same"


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(None, id="is deleted"),
        pytest.param(ours("web", "uid", suspension=Suspension(scheduling=True)), id="is suspended"),
    ],
)
def test_a_binding_that_failed_and_is_no_more_ours_is_looked_at_once_more(after: Binding | None):
    heard = Heard()
    key = "default", "web"
    heard.watching.binding_changed(key, None, ours("web", "uid"))
    assert heard.work_off() == [key]
    heard.queue.retry(key)
    heard.watching.binding_changed(key, ours("web", "uid"), after)
    assert heard.work_off() == [key], "what was written for it may have to be told, or its room be given up"


def test_a_cluster_that_is_gone_has_its_bindings_looked_at():
    heard = Heard()
    on_it = ours("web", "uid", replicas=1, clusters={"m": 1})
    heard.hold(on_it, ours("other", "uid", replicas=1, clusters={"n": 1}))
    heard.watching.cluster_changed(("", "m"), cluster("m", cpu=10), None)
    assert heard.work_off() == [("default", "web-deployment")]
