import msgspec
import pytest
from builders import policy, selector
from hypothesis import given
from hypothesis import strategies as st
from kube_store import merged
from tables import cases, data

from berthmaster.model.binding import holder
from berthmaster.model.claims import claim_patch, claimed_externally, claims, match_level, permanent_id
from berthmaster.model.decode import builtins, convert
from berthmaster.model.meta import ObjectMeta
from berthmaster.model.policy import Policy, PolicyReference, ResourceSelector
from berthmaster.model.policy_preemption import Resource, may_preempt, named_resources, rank, strongest_first
from berthmaster.model.priority_drops import PriorityDrop, newly_eligible
from berthmaster.model.replicas import Template

NGINX = Template(api_version="apps/v1", kind="Deployment", name="nginx", namespace="default", labels={"app": "nginx"})
NODE_ROLE = Template(api_version="rbac.authorization.k8s.io/v1", kind="ClusterRole", name="reader")
BY_NAME = selector(name="nginx")
BY_LABEL = selector(labelSelector={"matchLabels": {"app": "nginx"}})
BY_KIND = selector()


def winner(template, *policies):
    found = claims(template, policies)
    return found[0].policy.metadata.name if found else None


@cases(("chosen", "level"), data("model/match_levels"))
def test_match_levels(chosen, level):
    assert match_level(convert(ResourceSelector, chosen), NGINX).name == level


@cases(
    ("policies", "name"),
    {
        "none": ([policy("a", selectors=[selector(name="other")])], None),
        "one policy": ([policy("a")], "a"),
        "a PropagationPolicy beats a ClusterPropagationPolicy of any priority": (
            [policy("c", cluster_scoped=True, priority=100, selectors=[BY_NAME]), policy("p")],
            "p",
        ),
        "explicit priority beats the match level": (
            [policy("close", selectors=[BY_NAME]), policy("high", priority=1)],
            "high",
        ),
        "the default priority 0 is higher than a negative one": (
            [policy("low", priority=-1, selectors=[BY_NAME]), policy("unset")],
            "unset",
        ),
        "labels beat the kind": (
            [policy("a-kind", selectors=[BY_KIND]), policy("b-label", selectors=[BY_LABEL])],
            "b-label",
        ),
        "the name beats labels": (
            [policy("a-label", selectors=[BY_LABEL]), policy("b-name", selectors=[BY_NAME])],
            "b-name",
        ),
        "the closest selector of a policy counts, then the name": (
            [policy("b", selectors=[BY_NAME]), policy("a", selectors=[BY_KIND, BY_NAME])],
            "a",
        ),
        "names are compared by byte": ([policy("b"), policy("B"), policy("a")], "B"),
        "a policy that is being deleted claims nothing": ([policy("a", deleting=True), policy("b")], "b"),
        "a PropagationPolicy of another namespace claims nothing": (
            [policy("a", namespace="other"), policy("c", cluster_scoped=True)],
            "c",
        ),
        "a policy without selectors claims nothing": ([policy("a", selectors=[])], None),
    },
)
def test_the_claiming_policy(policies, name):
    assert winner(NGINX, *policies) == name
    assert winner(NGINX, *reversed(policies)) == name


def test_only_cluster_policies_claim_cluster_scoped_resources():
    chosen = [selector("ClusterRole", "rbac.authorization.k8s.io/v1")]
    everywhere = policy("c", cluster_scoped=True, selectors=chosen)
    nowhere = policy("p", namespace="", selectors=chosen)
    assert winner(NODE_ROLE, nowhere, everywhere) == "c"


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
        pytest.param(meta(OWN), NEW_P, meta(OWN, BY_NEW_P), id="a PropagationPolicy claims an unclaimed resource"),
        pytest.param(meta(OWN, BY_P), NEW_P, meta(OWN, BY_NEW_P), id="it replaces the claim of a policy of its kind"),
        pytest.param(
            meta(OWN, BY_C), NEW_P, meta(OWN, BY_NEW_P), id="it replaces the claim of a ClusterPropagationPolicy"
        ),
        pytest.param(meta(OWN, BY_C, BY_P), NEW_P, meta(OWN, BY_NEW_P), id="it replaces both claims"),
        pytest.param(
            meta(OWN), NEW_C, meta(OWN, BY_NEW_C), id="a ClusterPropagationPolicy claims an unclaimed resource"
        ),
        pytest.param(meta(OWN, BY_C), NEW_C, meta(OWN, BY_NEW_C), id="it replaces the claim of a policy of its kind"),
        pytest.param(meta(OWN, BY_P), NEW_C, meta(OWN, BY_P, BY_NEW_C), id="it keeps the claim of a PropagationPolicy"),
    ],
)
def test_the_metadata_after_a_claim(before, by, after):
    patched = merged(builtins(before), claim_patch(before, by))
    assert patched == builtins(after)


def test_a_claim_removes_only_existing_keys():
    """A null for a missing key has no effect, but it would call admission."""
    assert None not in claim_patch(meta(OWN), NEW_P)["labels"].values()
    assert None not in claim_patch(meta(OWN), NEW_P)["annotations"].values()


@cases(
    ("metadata", "expected"),
    {
        "none": (meta(OWN), None),
        "a PropagationPolicy": (meta(BY_P), PolicyReference("PropagationPolicy", "default", "p")),
        "a ClusterPropagationPolicy": (meta(BY_C), PolicyReference("ClusterPropagationPolicy", "", "c")),
        "both: the PropagationPolicy": (meta(BY_C, BY_P), PolicyReference("PropagationPolicy", "default", "p")),
        "an incomplete claim": (meta({"labels": {}, "annotations": {f"{P}name": "p"}}), None),
        "an invalid name": (meta({"labels": {}, "annotations": {f"{P}namespace": "..", f"{P}name": "p"}}), None),
        "a name with a path": (meta({"labels": {}, "annotations": {f"{C}name": "../secrets"}}), None),
    },
)
def test_the_holder_of_a_resource(metadata, expected):
    assert holder(metadata) == expected


def test_the_permanent_id_belongs_to_the_kind_of_the_policy():
    assert (permanent_id(NEW_P), permanent_id(NEW_C), permanent_id(policy())) == ("3", "4", "")
    both = policy(cluster_scoped=True)
    other = msgspec.structs.replace(both.metadata, labels={f"{P}permanent-id": "9"})
    assert permanent_id(msgspec.structs.replace(both, metadata=other)) == ""


@pytest.mark.parametrize(("value", "external"), [("FederatedHPA", True), ("", False)])
def test_resources_that_another_owner_claims(value, external):
    label = {"labels": {"resourcetemplate.karmada.io/claimed-by": value}, "annotations": {}}
    assert claimed_externally(meta(label)) is external


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
@pytest.mark.parametrize("preemptor", KINDS)
def test_preemption_by_kind_and_priority(preemptor, priority, holder, wants, held):
    strong = policy("c", cluster_scoped=KINDS[preemptor], priority=PRIORITIES[priority], preemption=wants)
    weak = policy("h", cluster_scoped=KINDS[holder], priority=PRIORITIES["equal"], preemption=held)
    assert may_preempt(strong, weak) == (wants == "Always" and (preemptor, priority, holder) in TAKES)


@cases(
    ("mine", "theirs", "takes"),
    {
        "the default priority 0 is higher than a negative one": (None, -1, True),
        "the default priority is not higher than 0": (None, 0, False),
        "a negative priority is lower than the default": (-1, None, False),
    },
)
def test_a_missing_priority_is_zero(mine, theirs, takes):
    assert may_preempt(policy("c", priority=mine, preemption="Always"), policy("h", priority=theirs)) is takes


def test_match_level_and_name_do_not_matter():
    close = policy("a", selectors=[selector(name="web")], preemption="Always")
    loose = policy("z", selectors=[selector()], preemption="Always")
    assert not may_preempt(close, loose)
    assert not may_preempt(loose, close)


def named(chosen, **more):
    return named_resources(policy(selectors=chosen, **{"preemption": "Always", **more}))


@cases(
    ("given", "expected"),
    {
        "a PropagationPolicy names resources of its namespace": (named([selector(name="web")]), (WEB,)),
        "with an explicit namespace": (named([selector(name="web", namespace="default")]), (WEB,)),
        "no resource of another namespace": (named([selector(name="web", namespace="other")]), ()),
        "a policy that does not preempt": (named([selector(name="web")], preemption="Never"), ()),
        "a policy that is being deleted": (named([selector(name="web")], deleting=True), ()),
        "a selector without a name": (named([selector()]), ()),
        "a duplicate name": (named([selector(name="web"), selector(name="web")]), (WEB,)),
        "a ClusterPropagationPolicy with a namespace": (
            named([selector(name="web", namespace="default")], cluster_scoped=True),
            (WEB,),
        ),
        "a ClusterPropagationPolicy without a namespace": (
            named([selector("ClusterRole", READER.api_version, name="reader")], cluster_scoped=True),
            (READER,),
        ),
        "a name with a colon": (
            named([selector("ClusterRole", READER.api_version, name="system:reader")], cluster_scoped=True),
            (READER._replace(name="system:reader"),),
        ),
        "a name with a path": (named([selector(name="../../secrets/web")]), ()),
        "a name of two dots": (named([selector(name="..")]), ()),
        "a name with an encoded slash": (named([selector(name="a%2fb")]), ()),
        "a namespace with a path": (named([selector(namespace="a/b", name="web")], cluster_scoped=True), ()),
        "a ResourceBinding, which carries the claim of its workload": (
            named([selector("ResourceBinding", "work.karmada.io/v1alpha2", name="web-deployment")]),
            (),
        ),
        "a kind that is never propagated": (named([selector("Lease", "coordination.k8s.io/v1", name="web")]), ()),
    },
)
def test_named_resources(given, expected):
    assert given == expected


def test_a_policy_matches_the_resources_that_it_names():
    """Otherwise the detector would release the resource at once."""
    owner = policy(selectors=[selector(name="web")], preemption="Always")
    (resource,) = named_resources(owner)
    template = Template(resource.api_version, resource.kind, resource.name, resource.namespace)
    assert match_level(owner.spec.resource_selectors[0], template)


def test_strongest_first():
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


@cases(
    ("dropped", "expected"),
    {
        "the same namespace": (DROPPED, ["at-the-top", "between-a", "between-b"]),
        "the same kind": (policy("dropped", cluster_scoped=True, priority=3), ["everywhere", "everywhere-else"]),
        "never the policy itself": (policy("at-the-top", priority=3), ["between-a", "between-b"]),
    },
)
def test_newly_eligible_policies_after_a_drop(dropped, expected):
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
def test_takeovers_end_and_none_repeats(policies, random):
    """Policies take over in any order, as if our controller and Karmada's raced."""
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
