"""What the filters say would let a cluster pass, and that no filter is forgotten."""

import pytest
from builders import cluster
from decisions import asked, spread

from berthmaster.model.binding import GracefulEvictionTask
from berthmaster.scheduling.diagnosis import cluster_remedies
from berthmaster.scheduling.filter_remedies import (
    EvictionRemedy,
    ExclusionRemedy,
    FieldSelectorRemedy,
    LabelRemedy,
    LocationRemedy,
    NameRemedy,
    ServedKindRemedy,
    TaintRemedy,
)
from berthmaster.scheduling.filters import Filter
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.profile import DELETING, STAGES, built_in, karmada_profile
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler

NO_REMEDY = {DELETING, "WorkloadAffinity", "WorkloadAntiAffinity"}
"""No small change of a cluster, a policy or a template satisfies them."""
ZONED = {"spread": [spread(each, 1) for each in ("zone", "region", "zone")]}


def remedies(found, **fields):
    """Return what lets a cluster pass the filters of the first group."""
    scheduler, request = Scheduler(Fleet([found]), karmada_profile()), Request.of(asked(**fields))
    return cluster_remedies(scheduler, request, scheduler.compile(request.placement).groups[0], found)


def affinity(**fields):
    return {"clusterAffinity": fields}


def labels(*requirements):
    names = ("key", "operator", "values")
    return affinity(labelSelector={"matchExpressions": [dict(zip(names, each, strict=True)) for each in requirements]})


@pytest.mark.parametrize(
    "plugin", [STAGES.members, *built_in(workload_affinity=True).filters], ids=lambda each: each.name
)
def test_each_filter_has_remedies_or_is_known_to_have_none(plugin):
    assert (type(plugin).remedies is Filter.remedies) is (plugin.name in NO_REMEDY)


@pytest.mark.parametrize(
    ("made", "fields", "expected"),
    [
        pytest.param({}, {}, [], id="nothing, if no filter rejects it"),
        pytest.param({}, affinity(clusterNames=["b"]), [NameRemedy()], id="its name among the named clusters"),
        pytest.param(
            {}, affinity(exclude=["a"], clusterNames=["b"]), [ExclusionRemedy(), NameRemedy()],
            id="both, if it is excluded and not named",
        ),
        pytest.param({}, labels(("env", "In", ["prod", "b"])), [LabelRemedy("env", "b")], id="the first value"),
        pytest.param(
            {}, labels(("n", "In", ["5", "9"]), ("n", "NotIn", ["5"])), [LabelRemedy("n", "9")],
            id="a value that all requirements on a label accept",
        ),
        pytest.param(
            {"labels": {"old": "x"}}, labels(("old", "DoesNotExist", [])), [LabelRemedy("old", None)],
            id="a label less, if the label must not exist",
        ),
        pytest.param(
            {}, labels(("n", "In", ["1"]), ("n", "In", ["2"])), None, id="none, if no value satisfies all requirements"
        ),
        pytest.param({}, labels(("n", "Gt", ["x"])), None, id="none, if the selector is invalid"),
        pytest.param(
            {"region": "eu"},
            affinity(fieldSelector={"matchExpressions": [{"key": "region", "operator": "In", "values": ["us"]}]}),
            [FieldSelectorRemedy()], id="no field selector, if a field does not match",
        ),
        pytest.param(
            {"region": "eu"},
            affinity(clusterNames=["b"], fieldSelector={"matchExpressions": [{"key": "region", "operator": "Exists"}]}),
            [NameRemedy()], id="the field selector stays, if the fields match",
        ),
        pytest.param({}, ZONED, [LocationRemedy("zone"), LocationRemedy("region")], id="each field to spread by, once"),
        pytest.param(
            {"serves": []}, {}, [ServedKindRemedy("apps/v1", "Deployment")], id="the kind, if it is not served"
        ),
        pytest.param({"deleting": True}, affinity(clusterNames=["b"]), None, id="none, if it is being deleted"),
    ],
)  # fmt: skip
def test_what_lets_a_cluster_pass_is(made, fields, expected):
    assert remedies(cluster("a", **made), **fields) == expected


def test_a_taint_has_a_remedy_unless_the_cluster_has_the_workload():
    tainted = cluster("a", taints=["gpu:NoSchedule", "net:NoExecute"])
    assert remedies(tainted) == [TaintRemedy(each) for each in tainted.spec.taints]
    assert remedies(tainted, clusters={"a": 1}) == []


def test_an_eviction_has_a_remedy():
    assert remedies(cluster("a"), graceful_eviction_tasks=(GracefulEvictionTask("a"),)) == [EvictionRemedy()]
