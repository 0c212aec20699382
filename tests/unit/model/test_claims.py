import msgspec
import pytest
from builders import policy, selector
from hypothesis import given
from hypothesis import strategies as st
from patches import merged

from berthmaster.model.claims import (
    MatchLevel,
    PriorityDrop,
    Resource,
    claim_patch,
    claimed_externally,
    claims,
    holder,
    match_level,
    may_preempt,
    named_resources,
    newly_eligible,
    permanent_id,
    rank,
    strongest_first,
)
from berthmaster.model.decode import builtins
from berthmaster.model.meta import ObjectMeta
from berthmaster.model.policy import Policy, PolicyReference
from berthmaster.model.replicas import Template

NGINX = Template(api_version="apps/v1", kind="Deployment", name="nginx", namespace="default", labels={"app": "nginx"})
NODE_ROLE = Template(api_version="rbac.authorization.k8s.io/v1", kind="ClusterRole", name="reader")
BY_NAME = selector(name="nginx")
BY_LABEL = selector(labelSelector={"matchLabels": {"app": "nginx"}})
BY_KIND = selector()


def winner(template, *policies):
    found = claims(template, policies)
    return found[0].policy.metadata.name if found else None


@pytest.mark.parametrize(
    ("chosen", "level"),
    [
        pytest.param(BY_KIND, MatchLevel.KIND, id="kind alone"),
        pytest.param(BY_LABEL, MatchLevel.LABELS, id="labels"),
        pytest.param(selector(labelSelector={}), MatchLevel.LABELS, id="an empty label selector is one"),
        pytest.param(BY_NAME, MatchLevel.NAME, id="name"),
        pytest.param(selector(namespace="default"), MatchLevel.KIND, id="its namespace"),
        pytest.param(selector(namespace="other"), MatchLevel.NONE, id="another namespace"),
        pytest.param(selector(name="other"), MatchLevel.NONE, id="another name"),
        pytest.param(selector(kind="StatefulSet"), MatchLevel.NONE, id="another kind"),
        pytest.param(selector(api_version="apps/v1beta1"), MatchLevel.NONE, id="another version"),
        pytest.param(selector(labelSelector={"matchLabels": {"app": "x"}}), MatchLevel.NONE, id="other labels"),
        pytest.param(
            selector(name="nginx", labelSelector={"matchLabels": {"app": "x"}}),
            MatchLevel.NAME,
            id="with a name the label selector plays no part",
        ),
        pytest.param(
            selector(labelSelector={"matchExpressions": [{"key": "app", "operator": "Wrong"}]}),
            MatchLevel.NONE,
            id="a broken label selector",
        ),
    ],
)
def test_how_closely_a_selector_names_a_resource(chosen, level):
    assert match_level(chosen, NGINX) is level


@pytest.mark.parametrize(
    ("policies", "name"),
    [
        pytest.param([policy("a", selectors=[selector(name="other")])], None, id="nobody"),
        pytest.param([policy("a")], "a", id="the only one"),
        pytest.param(
            [policy("c", cluster_scoped=True, priority=100, selectors=[BY_NAME]), policy("p")],
            "p",
            id="a PropagationPolicy beats a ClusterPropagationPolicy of any priority",
        ),
        pytest.param(
            [policy("close", selectors=[BY_NAME]), policy("high", priority=1)],
            "high",
            id="explicit priority beats closeness",
        ),
        pytest.param(
            [policy("low", priority=-1, selectors=[BY_NAME]), policy("unset")],
            "unset",
            id="no priority is zero, more than a negative one",
        ),
        pytest.param(
            [policy("a-kind", selectors=[BY_KIND]), policy("b-label", selectors=[BY_LABEL])],
            "b-label",
            id="labels beat the kind",
        ),
        pytest.param(
            [policy("a-label", selectors=[BY_LABEL]), policy("b-name", selectors=[BY_NAME])],
            "b-name",
            id="the name beats labels",
        ),
        pytest.param(
            [policy("b", selectors=[BY_NAME]), policy("a", selectors=[BY_KIND, BY_NAME])],
            "a",
            id="the closest selector of a policy counts, then the smaller name",
        ),
        pytest.param([policy("b"), policy("B"), policy("a")], "B", id="names are compared by byte"),
        pytest.param(
            [policy("a", deleting=True), policy("b")], "b", id="a policy that is being deleted claims nothing"
        ),
        pytest.param(
            [policy("a", namespace="other"), policy("c", cluster_scoped=True)],
            "c",
            id="a PropagationPolicy of another namespace claims nothing",
        ),
        pytest.param([policy("a", selectors=[])], None, id="a policy without selectors claims nothing"),
    ],
)
def test_who_claims_a_resource(policies, name):
    assert winner(NGINX, *policies) == name
    assert winner(NGINX, *reversed(policies)) == name


def test_a_resource_without_namespace_is_claimed_by_cluster_policies_only():
    chosen = [selector("ClusterRole", "rbac.authorization.k8s.io/v1")]
    everywhere = policy("c", cluster_scoped=True, selectors=chosen)
    nowhere = policy("p", namespace="", selectors=chosen)
    assert winner(NODE_ROLE, nowhere, everywhere) == "c"


POLICIES = st.lists(
    st.builds(
        lambda name, cluster_scoped, priority, chosen: policy(
            name, cluster_scoped=cluster_scoped, priority=priority, selectors=[chosen]
        ),
        st.sampled_from("abc"),
        st.booleans(),
        st.sampled_from([None, -1, 0, 1]),
        st.sampled_from([BY_NAME, BY_LABEL, BY_KIND]),
    ),
    unique_by=lambda each: (each.cluster_scoped, each.metadata.name),
    min_size=1,
)


@given(POLICIES, st.randoms(use_true_random=False))
def test_the_order_of_policies_changes_nothing(policies, random):
    shuffled = random.sample(policies, len(policies))
    assert claims(NGINX, policies) == claims(NGINX, shuffled)


P, C = "propagationpolicy.karmada.io/", "clusterpropagationpolicy.karmada.io/"
OWN = {"labels": {"app": "web"}, "annotations": {"note": "kept"}}
BY_P = {"labels": {f"{P}permanent-id": "1"}, "annotations": {f"{P}namespace": "default", f"{P}name": "p"}}
BY_C = {"labels": {f"{C}permanent-id": "2"}, "annotations": {f"{C}name": "c"}}


def meta(*parts):
    labels = {key: value for part in parts for key, value in part["labels"].items()}
    annotations = {key: value for part in parts for key, value in part["annotations"].items()}
    return ObjectMeta(name="web", namespace="default", labels=labels, annotations=annotations)


def with_id(name, identity, *, cluster_scoped):
    made = policy(name, cluster_scoped=cluster_scoped)
    label = f"{C if cluster_scoped else P}permanent-id"
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, labels={label: identity}))


NEW_P = with_id("new", "3", cluster_scoped=False)
NEW_C = with_id("new", "4", cluster_scoped=True)
BY_NEW_P = {"labels": {f"{P}permanent-id": "3"}, "annotations": {f"{P}namespace": "default", f"{P}name": "new"}}
BY_NEW_C = {"labels": {f"{C}permanent-id": "4"}, "annotations": {f"{C}name": "new"}}


@pytest.mark.parametrize(
    ("before", "by", "after"),
    [
        pytest.param(meta(OWN), NEW_P, meta(OWN, BY_NEW_P), id="a PropagationPolicy takes what is nobody's"),
        pytest.param(meta(OWN, BY_P), NEW_P, meta(OWN, BY_NEW_P), id="or another one's"),
        pytest.param(
            meta(OWN, BY_C), NEW_P, meta(OWN, BY_NEW_P), id="or a ClusterPropagationPolicy's, leaving no trace"
        ),
        pytest.param(meta(OWN, BY_C, BY_P), NEW_P, meta(OWN, BY_NEW_P), id="or what carries both claims"),
        pytest.param(meta(OWN), NEW_C, meta(OWN, BY_NEW_C), id="a ClusterPropagationPolicy takes what is nobody's"),
        pytest.param(meta(OWN, BY_C), NEW_C, meta(OWN, BY_NEW_C), id="or another one's"),
        pytest.param(
            meta(OWN, BY_P), NEW_C, meta(OWN, BY_P, BY_NEW_C), id="and leaves a PropagationPolicy's claim alone"
        ),
    ],
)
def test_what_a_claim_writes(before, by, after):
    patched = merged(builtins(before), claim_patch(before, by))
    assert patched == builtins(after)


def test_nothing_is_taken_away_that_is_not_there():
    """A null for a missing key is harmless, and yet a change that admission would be asked about."""
    assert None not in claim_patch(meta(OWN), NEW_P)["labels"].values()
    assert None not in claim_patch(meta(OWN), NEW_P)["annotations"].values()


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        pytest.param(meta(OWN), None, id="nobody"),
        pytest.param(meta(BY_P), PolicyReference("PropagationPolicy", "default", "p"), id="a PropagationPolicy"),
        pytest.param(meta(BY_C), PolicyReference("ClusterPropagationPolicy", "", "c"), id="a cluster-wide one"),
        pytest.param(meta(BY_C, BY_P), PolicyReference("PropagationPolicy", "default", "p"), id="of both, the former"),
        pytest.param(meta({"labels": {}, "annotations": {f"{P}name": "p"}}), None, id="nobody by half a claim"),
        pytest.param(
            meta({"labels": {}, "annotations": {f"{P}namespace": "..", f"{P}name": "p"}}),
            None,
            id="nobody by what cannot be a name",
        ),
        pytest.param(
            meta({"labels": {}, "annotations": {f"{C}name": "../secrets"}}), None, id="nor by what leads elsewhere"
        ),
    ],
)
def test_who_has_a_resource(metadata, expected):
    assert holder(metadata) == expected


def test_the_permanent_id_is_the_one_of_the_policys_kind():
    assert (permanent_id(NEW_P), permanent_id(NEW_C), permanent_id(policy())) == ("3", "4", "")
    both = policy(cluster_scoped=True)
    other = msgspec.structs.replace(both.metadata, labels={f"{P}permanent-id": "9"})
    assert permanent_id(msgspec.structs.replace(both, metadata=other)) == ""


@pytest.mark.parametrize(("value", "aside"), [("FederatedHPA", True), ("", False)])
def test_what_is_claimed_by_something_else_is_set_aside(value, aside):
    label = {"labels": {"resourcetemplate.karmada.io/claimed-by": value}, "annotations": {}}
    assert claimed_externally(meta(label)) is aside


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
    found = newly_eligible(PriorityDrop(from_=7, to=3), dropped, CANDIDATES)
    assert [each.metadata.name for each in found] == expected


CONTENDERS = st.lists(
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


@given(CONTENDERS, st.randoms(use_true_random=False))
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
