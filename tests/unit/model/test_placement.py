import pytest
from builders import cluster
from hypothesis import given
from hypothesis import strategies as st

from berthmaster.model.decode import convert
from berthmaster.model.placement import AffinityTerm, ClusterAffinity

MEMBER = cluster("member1", region="north", provider="acme", zones=["n1", "n2"], labels={"env": "prod"})
BARE = cluster("bare")


def term(**fields):
    return AffinityTerm(convert(ClusterAffinity, fields))


def field(key, operator, *values):
    return {"fieldSelector": {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}}


def label(key, operator, *values):
    return {"labelSelector": {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}}


@pytest.mark.parametrize(
    ("affinity", "member", "matches"),
    [
        pytest.param({}, MEMBER, True, id="an empty affinity matches every cluster"),
        pytest.param({"clusterNames": ["member1"]}, MEMBER, True, id="a cluster by its name"),
        pytest.param({"clusterNames": ["member2"]}, MEMBER, False, id="another name"),
        pytest.param({"clusterNames": []}, MEMBER, True, id="an empty list of names matches every cluster"),
        pytest.param({"exclude": ["member1"]}, MEMBER, False, id="an excluded cluster"),
        pytest.param({"clusterNames": ["member1"], "exclude": ["member1"]}, MEMBER, False, id="exclusion beats names"),
        pytest.param({"labelSelector": {"matchLabels": {"env": "prod"}}}, MEMBER, True, id="a label"),
        pytest.param({"labelSelector": {"matchLabels": {"env": "dev"}}}, MEMBER, False, id="another label"),
        pytest.param({"labelSelector": {}}, MEMBER, True, id="an empty label selector"),
        pytest.param(
            {"labelSelector": {"matchLabels": {"env": "dev"}}, "clusterNames": ["member1"]},
            MEMBER,
            False,
            id="name and label must both match",
        ),
        pytest.param(label("env", "Wrong"), MEMBER, False, id="an invalid label selector matches nothing"),
        pytest.param(label("env", "Gt", "1"), MEMBER, False, id="Gt is invalid for labels"),
        pytest.param({"fieldSelector": {}}, MEMBER, True, id="an empty field selector"),
        pytest.param(field("region", "In", "north"), MEMBER, True, id="a region"),
        pytest.param(field("region", "NotIn", "north"), MEMBER, False, id="not this region"),
        pytest.param(field("region", "NotIn", "north"), BARE, True, id="no region is not this region"),
        pytest.param(field("region", "Exists"), BARE, False, id="no region does not exist"),
        pytest.param(field("provider", "In", "acme"), MEMBER, True, id="a provider"),
        pytest.param(field("provider", "DoesNotExist"), BARE, True, id="no provider"),
        pytest.param(field("continent", "In", "europe"), MEMBER, False, id="a field that clusters do not have"),
        pytest.param(field("continent", "NotIn", "europe"), MEMBER, True, id="NotIn holds for an unknown field"),
        pytest.param(field("region", "Wrong"), MEMBER, False, id="an invalid field selector matches nothing"),
        pytest.param(field("zone", "In", "n2", "n9"), MEMBER, True, id="In: one zone is listed"),
        pytest.param(field("zone", "In", "n9"), MEMBER, False, id="In: no zone is listed"),
        pytest.param(field("zone", "In", "n1"), BARE, False, id="In: there are no zones"),
        pytest.param(field("zone", "NotIn", "n9"), MEMBER, True, id="NotIn: no zone is listed"),
        pytest.param(field("zone", "NotIn", "n2"), MEMBER, False, id="NotIn: one zone is listed"),
        pytest.param(field("zone", "NotIn", "n1"), BARE, True, id="NotIn: there are no zones"),
        pytest.param(field("zone", "Exists"), MEMBER, True, id="Exists: there are zones"),
        pytest.param(field("zone", "Exists"), BARE, False, id="Exists: there are no zones"),
        pytest.param(field("zone", "DoesNotExist"), BARE, True, id="DoesNotExist: there are no zones"),
        pytest.param(field("zone", "DoesNotExist"), MEMBER, False, id="DoesNotExist: there are zones"),
        pytest.param(field("zone", "Gt", "1"), MEMBER, False, id="Gt is invalid for zones"),
        pytest.param(field("zone", "In", "a zone"), cluster(zones=["a zone"]), True, id="a zone may be any text"),
    ],
)
def test_affinity_matches(affinity, member, matches):
    assert term(**affinity).matches(member) is matches


@pytest.mark.parametrize(
    ("affinity", "reason"),
    [
        ({"exclude": ["member1"]}, "is excluded by name"),
        ({"clusterNames": ["other"]}, "is not among the named clusters"),
        ({"labelSelector": {"matchLabels": {"env": "dev"}}}, "label env=dev does not match (it is 'prod')"),
        ({"labelSelector": {"matchLabels": {"tier": "1"}}}, "label tier=1 does not match (it is not set)"),
        (field("region", "In", "south"), "field region=south does not match (it is 'north')"),
        (field("zone", "In", "n9"), "field zone=n9 does not match (zones are n1, n2)"),
        (label("env", "Wrong"), "the affinity has an invalid selector, which matches no cluster"),
    ],
)
def test_the_reason_why_a_cluster_does_not_match(affinity, reason):
    assert term(**affinity).mismatch(MEMBER) == reason


ZONES = st.lists(st.sampled_from(["a", "b", "c"]), unique=True)


@given(ZONES, st.lists(st.sampled_from(["a", "b", "c"]), min_size=1))
def test_the_operators_on_zones_are_opposites(zones, listed):
    member = cluster(zones=zones)
    assert term(**field("zone", "In", *listed)).matches(member) is bool(set(zones) & set(listed))
    assert term(**field("zone", "NotIn", *listed)).matches(member) is not bool(set(zones) & set(listed))
    assert term(**field("zone", "Exists")).matches(member) is not term(**field("zone", "DoesNotExist")).matches(member)
