"""What-if: a policy is new, or says something else."""

from datetime import UTC, datetime

import pytest
from builders import cluster

from berthmaster.manifests import Document, Manifests
from berthmaster.model.decode import convert
from berthmaster.model.defaults import defaulted
from berthmaster.model.policy import Policy
from berthmaster.scheduling.plugins import built_in
from berthmaster.scheduling.scheduler import Profile
from berthmaster.simulation.loading import world_of
from berthmaster.simulation.policy_change import SetPolicy
from berthmaster.simulation.run import run

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PROFILE = Profile(built_in())
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"}},
    "spec": {"replicas": 2, "template": {"spec": {"containers": [{"name": "web"}]}}},
}


def made(name, to, *, kind="PropagationPolicy", target=None, **spec):
    """A policy that sends what it selects to one cluster."""
    selector = {"apiVersion": "apps/v1", "kind": "Deployment", **({"name": "web"} if target is None else target)}
    raw = {
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "resourceSelectors": [selector],
            "placement": {"clusterAffinity": {"clusterNames": [to]}},
            **spec,
        },
    }
    return defaulted(convert(Policy, raw))


def after(change, *policies):
    """Where the deployment is, and whose it is, once the change was made."""
    manifests = Manifests(
        clusters=[cluster("a"), cluster("b")], policies=list(policies), templates=[Document("x", 1, "", DEPLOYMENT)]
    )
    world, _ = run(world_of(manifests), PROFILE, NOW)
    world, outcomes = run(SetPolicy(change).applied(world, NOW), PROFILE, NOW)
    claim = outcomes[0].workload.claim
    return list(outcomes[0].assignment), claim.policy.metadata.name if claim is not None else None


@pytest.mark.parametrize(
    ("policies", "change", "expected"),
    [
        pytest.param([], made("p", "b"), (["b"], "p"), id="a new policy claims what nobody had"),
        pytest.param([made("p", "a")], made("p", "b"), (["b"], "p"), id="a changed one takes its workload along"),
        pytest.param(
            [made("p", "a")],
            made("q", "b", priority=9),
            (["a"], "p"),
            id="a higher one takes nothing unless it preempts",
        ),
        pytest.param(
            [made("p", "a")],
            made("q", "b", priority=9, preemption="Always"),
            (["b"], "q"),
            id="with preemption it takes what it names",
        ),
        pytest.param(
            [made("p", "a")],
            made("q", "b", priority=9, preemption="Always", target={}),
            (["a"], "p"),
            id="but not what it only selects",
        ),
        pytest.param(
            [made("p", "a", priority=9)],
            made("q", "b", priority=9, preemption="Always"),
            (["a"], "p"),
            id="and nothing of its own priority",
        ),
        pytest.param(
            [made("p", "a", kind="ClusterPropagationPolicy", priority=99)],
            made("q", "b", preemption="Always"),
            (["b"], "q"),
            id="a namespaced one takes from any cluster-wide one",
        ),
        pytest.param(
            [made("p", "a")],
            made("q", "b", kind="ClusterPropagationPolicy", priority=99, preemption="Always"),
            (["a"], "p"),
            id="a cluster-wide one never takes from a namespaced one",
        ),
        pytest.param(
            [made("p", "a"), made("q", "b", target={})],
            made("p", "a", target={"name": "other"}),
            (["b"], "q"),
            id="what a policy lets go goes to the next",
        ),
        pytest.param(
            [made("p", "a")],
            made("p", "a", target={"name": "other"}),
            (["a"], None),
            id="or to nobody, and stays where it is",
        ),
    ],
)
def test_workloads_change_hands_as_karmada_would_have_it(policies, change, expected):
    assert after(change, *policies) == expected
