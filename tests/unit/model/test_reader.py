"""Sentences for readers of few namespaces: a text with a name reaches them only if it says whom it names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berthmaster.model.reader import ANY_READER, NAMES, NO_NAMES, Gap, Reader, about, known_gap, texts

MINE, THEIRS, WIDE = "shop/Deployment/web", "vault/Deployment/secret", "ClusterRole/secret"
SHOP = Reader(frozenset({"shop"}))
SHOP_AND_WIDE = Reader(frozenset({"shop", "-"}))
LISTED = f"the labels of {NAMES} are not known"


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


@pytest.mark.parametrize(
    ("gap", "everyone", "of_shop"),
    [
        pytest.param(
            Gap(f"{THEIRS} is invalid"),
            f"{THEIRS} is invalid", "something is not known about objects that this answer does not name",
            id="a message that does not say whom it names",
        ),
        pytest.param(known_gap("kinds are not listed"), "kinds are not listed", "kinds are not listed", id="no names"),
        pytest.param(
            Gap(f"{MINE} is invalid", (MINE,)), f"{MINE} is invalid", f"{MINE} is invalid", id="only visible names"
        ),
        pytest.param(
            Gap(f"{THEIRS}: 'x' is invalid", (THEIRS,), elsewhere="objects are invalid"),
            f"{THEIRS}: 'x' is invalid", "objects are invalid", id="a hidden name",
        ),
        pytest.param(
            Gap(LISTED, (MINE, THEIRS)),
            f"the labels of {MINE}, {THEIRS} are not known",
            f"the labels of {MINE} and workloads in other namespaces are not known", id="some hidden names",
        ),
        pytest.param(
            Gap(LISTED, (THEIRS, WIDE)),
            f"the labels of {THEIRS}, {WIDE} are not known",
            "the labels of workloads in other namespaces are not known", id="all names are hidden",
        ),
    ],
)  # fmt: skip
def test_what_a_gap_says(gap, everyone, of_shop):
    assert (gap.text(ANY_READER), gap.text(SHOP)) == (everyone, of_shop)


def test_equal_sentences_are_said_once():
    hidden = [Gap(LISTED, (f"vault/Deployment/{each}",)) for each in range(3)]
    assert texts(hidden, SHOP) == ["the labels of workloads in other namespaces are not known"]


@given(st.lists(st.sampled_from([MINE, THEIRS, WIDE]), max_size=12), st.booleans())
def test_no_gap_names_what_its_reader_may_not_see(names, composed):
    message = LISTED if composed else f"invalid: {', '.join(names)}"
    for named in (tuple(names), None):
        assert "secret" not in Gap(message, named).text(SHOP)
