"""Which policy may preempt which: a table of every pair of kinds and priorities, and what follows from it."""

import pytest
from builders import policy, selector
from hypothesis import given
from hypothesis import strategies as st

from berthmaster.model.claim import Template, match_level
from berthmaster.model.policy import Policy
from berthmaster.model.preemption import Resource, awaited, may_preempt, named_resources, rank, strongest_first
from berthmaster.model.priority_drop import Drop

WEB = Resource("apps/v1", "Deployment", "default", "web")
READER = Resource("rbac.authorization.k8s.io/v1", "ClusterRole", "", "reader")
KINDS = {"PropagationPolicy": False, "ClusterPropagationPolicy": True}
PRIORITIES = {"lower": 1, "equal": 2, "higher": 3}
TAKES = {
    ("PropagationPolicy", "higher", "PropagationPolicy"),
    ("PropagationPolicy", "lower", "ClusterPropagationPolicy"),
    ("PropagationPolicy", "equal", "ClusterPropagationPolicy"),
    ("PropagationPolicy", "higher", "ClusterPropagationPolicy"),
    ("ClusterPropagationPolicy", "higher", "ClusterPropagationPolicy"),
}


@pytest.mark.parametrize("held", ["Always", "Never"])
@pytest.mark.parametrize("wants", ["Always", "Never", ""])
@pytest.mark.parametrize("holder", KINDS)
@pytest.mark.parametrize("priority", PRIORITIES)
@pytest.mark.parametrize("challenger", KINDS)
def test_who_takes_what(challenger, priority, holder, wants, held):
    strong = policy("c", cluster_scoped=KINDS[challenger], priority=PRIORITIES[priority], preemption=wants)
    weak = policy("h", cluster_scoped=KINDS[holder], priority=PRIORITIES["equal"], preemption=held)
    assert may_preempt(strong, weak) == (wants == "Always" and (challenger, priority, holder) in TAKES)


@pytest.mark.parametrize(
    ("mine", "theirs", "takes"),
    [
        pytest.param(None, -1, True, id="no priority is zero, more than a negative one"),
        pytest.param(None, 0, False, id="and no more than zero"),
        pytest.param(-1, None, False, id="a negative one is less than none"),
    ],
)
def test_a_missing_priority_is_zero(mine, theirs, takes):
    assert may_preempt(policy("c", priority=mine, preemption="Always"), policy("h", priority=theirs)) is takes


def test_closeness_and_names_play_no_role():
    close = policy("a", selectors=[selector(name="web")], preemption="Always")
    loose = policy("z", selectors=[selector()], preemption="Always")
    assert not may_preempt(close, loose)
    assert not may_preempt(loose, close)


def named(chosen, **more):
    return named_resources(policy(selectors=chosen, **{"preemption": "Always", **more}))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(named([selector(name="web")]), (WEB,), id="a PropagationPolicy names what is in its namespace"),
        pytest.param(named([selector(name="web", namespace="default")]), (WEB,), id="said or not"),
        pytest.param(named([selector(name="web", namespace="other")]), (), id="and nothing of another one"),
        pytest.param(named([selector(name="web")], preemption="Never"), (), id="one that does not preempt"),
        pytest.param(named([selector(name="web")], deleting=True), (), id="one that is being deleted"),
        pytest.param(named([selector()]), (), id="a selector without a name"),
        pytest.param(named([selector(name="web"), selector(name="web")]), (WEB,), id="a name said twice"),
        pytest.param(
            named([selector(name="web", namespace="default")], cluster_scoped=True),
            (WEB,),
            id="a ClusterPropagationPolicy names the namespace",
        ),
        pytest.param(
            named([selector("ClusterRole", READER.api_version, name="reader")], cluster_scoped=True),
            (READER,),
            id="or else a cluster-scoped resource",
        ),
        pytest.param(
            named([selector("ClusterRole", READER.api_version, name="system:reader")], cluster_scoped=True),
            (READER._replace(name="system:reader"),),
            id="a name with a colon",
        ),
        pytest.param(named([selector(name="../../secrets/web")]), (), id="a name that leads to another path"),
        pytest.param(named([selector(name="..")]), (), id="a name that leads upwards"),
        pytest.param(named([selector(name="a%2fb")]), (), id="a name that hides a slash"),
        pytest.param(named([selector(api_version="apps/v1/../..", name="web")]), (), id="a version that leads away"),
        pytest.param(
            named([selector(namespace="a/b", name="web")], cluster_scoped=True), (), id="a namespace that leads away"
        ),
        pytest.param(
            named([selector("ResourceBinding", "work.karmada.io/v1alpha2", name="web-deployment")]),
            (),
            id="a ResourceBinding, which carries the claim of its workload, and is none",
        ),
        pytest.param(named([selector("Lease", "coordination.k8s.io/v1", name="web")]), (), id="what never leaves"),
    ],
)
def test_what_a_policy_may_take_over(given, expected):
    assert given == expected


def test_what_a_policy_names_it_also_matches():
    """Else the detector would let go at once what was taken over."""
    owner = policy(selectors=[selector(name="web")], preemption="Always")
    (resource,) = named_resources(owner)
    template = Template(resource.api_version, resource.kind, resource.name, resource.namespace)
    assert match_level(owner.spec.resource_selectors[0], template)


def test_the_strongest_come_first():
    ordered = [
        policy("b", priority=2),
        policy("a", priority=1),
        policy("b", priority=1),
        policy("a", cluster_scoped=True, priority=9),
        policy("a2", cluster_scoped=True, priority=-1),
    ]
    assert strongest_first(reversed(ordered)) == ordered


DROPPED = policy("dropped", priority=3)
CANDIDATES = [
    policy("above", priority=8, preemption="Always"),
    policy("at-the-top", priority=7, preemption="Always"),
    policy("between-b", priority=5, preemption="Always"),
    policy("between-a", priority=5, preemption="Always"),
    policy("peaceful", priority=5, preemption="Never"),
    policy("at-the-bottom", priority=3, preemption="Always"),
    policy("elsewhere", namespace="other", priority=5, preemption="Always"),
    policy("everywhere", cluster_scoped=True, priority=5, preemption="Always"),
    policy("everywhere-else", cluster_scoped=True, priority=4, preemption="Always"),
]


@pytest.mark.parametrize(
    ("dropped", "expected"),
    [
        pytest.param(DROPPED, ["at-the-top", "between-a", "between-b"], id="its namespace"),
        pytest.param(
            policy("dropped", cluster_scoped=True, priority=3),
            ["everywhere", "everywhere-else"],
            id="its kind",
        ),
        pytest.param(policy("at-the-top", priority=3), ["between-a", "between-b"], id="and never itself"),
    ],
)
def test_whose_turn_it_is_after_a_drop(dropped, expected):
    found = awaited(Drop(from_=7, to=3), dropped, CANDIDATES)
    assert [each.metadata.name for each in found] == expected


POLICIES = st.lists(
    st.builds(
        lambda name, cluster_scoped, priority, preemption: policy(
            name, cluster_scoped=cluster_scoped, priority=priority, preemption=preemption
        ),
        st.sampled_from("abcdef"),
        st.booleans(),
        st.sampled_from([None, -2, -1, 0, 1, 2]),
        st.sampled_from(["Always", "Never"]),
    ),
    unique_by=lambda each: each.reference,
    min_size=1,
    max_size=12,
)


@given(POLICIES, st.randoms(use_true_random=False))
def test_takeovers_end_and_nobody_takes_twice_from_the_same(policies, random):
    """Whoever may, takes, in any order: as if ours and Karmada's controller raced each other."""
    holder = random.choice(policies)
    history: list[tuple[Policy, Policy]] = []
    while takers := [each for each in policies if may_preempt(each, holder)]:
        taker = random.choice(takers)
        assert rank(taker) > rank(holder)
        history.append((holder, taker))
        holder = taker
        assert len(history) < len(policies)
    pairs = [frozenset((before.reference, after.reference)) for before, after in history]
    assert len(pairs) == len(set(pairs))
    always = [each for each in policies if each.spec.preemption == "Always"]
    assert all(rank(each) <= rank(holder) for each in always)
