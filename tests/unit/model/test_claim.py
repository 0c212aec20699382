import pytest
from builders import policy, selector
from hypothesis import given
from hypothesis import strategies as st

from berthmaster.model.claim import MatchLevel, Template, claims, match_level

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
