"""Which changes make which bindings be looked at."""

from typing import Any

import msgspec
import pytest
from builders import binding, cluster

from extender.controllers.bindings.eligibility import MANAGED_BY, eligible
from extender.controllers.bindings.watching import gains
from fleet.model.binding import Binding
from fleet.model.cluster import Cluster
from fleet.model.policy import Suspension


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
