"""Which namespaces the reader of an answer may see."""

import pytest

from berthmaster.model.reader import ANY_READER, NO_NAMES, Reader, about

MINE, THEIRS, WIDE = "shop/Deployment/web", "vault/Deployment/secret", "ClusterRole/secret"
SHOP = Reader(frozenset({"shop"}))
SHOP_AND_WIDE = Reader(frozenset({"shop", "-"}))


@pytest.mark.parametrize(
    ("reader", "seen"),
    [
        pytest.param(ANY_READER, [MINE, THEIRS, WIDE], id="of all namespaces"),
        pytest.param(SHOP, [MINE], id="of one namespace"),
        pytest.param(SHOP_AND_WIDE, [MINE, WIDE], id="of one namespace and of cluster-scoped objects"),
        pytest.param(about("vault"), [THEIRS], id="of an answer about one object"),
        pytest.param(about(""), [WIDE], id="of an answer about one cluster-scoped object"),
        pytest.param(NO_NAMES, [], id="of no namespace"),
    ],
)
def test_resources_that_a_reader_may_see(reader, seen):
    assert reader.seen([MINE, THEIRS, WIDE]) == seen


@pytest.mark.parametrize(
    ("policy", "sees"),
    [
        ("PropagationPolicy shop/web", True), ("shop/web", True), ("PropagationPolicy vault/web", False),
        ("ClusterPropagationPolicy shop", False), ("web", False),
    ],
)  # fmt: skip
def test_policies_that_a_reader_may_see(policy, sees):
    assert SHOP.sees_policy(policy) is sees
    assert ANY_READER.sees_policy(policy)
