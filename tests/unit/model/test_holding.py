"""Which policies match a resource; ``tests/unit/simulation/test_present.py`` has the tables of holders."""

from builders import policy, selector
from hypothesis import given, settings
from hypothesis import strategies as st

from berthmaster.model.claims import PolicyCatalog, claims
from berthmaster.model.replicas import Template

VALUES = st.sampled_from(["web", "shop"])
LABELS = st.dictionaries(st.sampled_from(["app", "tier"]), VALUES, max_size=2)
SELECTORS = st.lists(
    st.builds(
        lambda kind, name, labels: selector(
            kind,
            **({"name": name} if name else {}),
            **({"labelSelector": labels} if labels is not None else {}),
        ),
        st.sampled_from(["Deployment", "StatefulSet"]),
        st.sampled_from(["", "web", "shop"]),
        st.one_of(
            st.none(),
            LABELS.map(lambda labels: {"matchLabels": labels}),
            st.just({"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
        ),
    ),
    min_size=1,
    max_size=2,
)
POLICIES = st.lists(
    st.builds(
        lambda name, namespace, cluster_scoped, chosen: policy(
            name, namespace=namespace, cluster_scoped=cluster_scoped, selectors=chosen
        ),
        st.sampled_from("abcd"),
        st.sampled_from(["default", "other"]),
        st.booleans(),
        SELECTORS,
    ),
    unique_by=lambda each: each.reference,
    max_size=5,
)


@settings(max_examples=50)
@given(POLICIES, st.sampled_from(["Deployment", "StatefulSet"]), VALUES, LABELS, st.sampled_from(["default", ""]))
def test_the_catalog_finds_the_policies_that_a_search_of_all_finds(policies, kind, name, labels, namespace):
    template = Template("apps/v1", kind, name, namespace, labels)
    assert list(PolicyCatalog(policies).matching(template)) == claims(template, policies)
