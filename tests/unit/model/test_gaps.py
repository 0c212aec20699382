"""Sentences of gaps for readers of few namespaces: no sentence names what its reader may not see."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berthmaster.model.gaps import Gap, GapKind, texts
from berthmaster.model.reader import ANY_READER, Reader

MINE, THEIRS, WIDE = "shop/Deployment/web", "vault/Deployment/secret", "ClusterRole/secret"
SHOP = Reader(frozenset({"shop"}))
FACTS = dict.fromkeys(
    [
        "text", "verb", "type", "kind", "api_version", "error", "number", "limit", "problem", "policy", "objects",
        "pause", "name",
    ],
    "x",
)  # fmt: skip
ELSEWHERE = (
    "invalid objects in namespaces that are not shown here are left out; the list of workloads names those in "
    "namespaces that you may see"
)


def invalid(resource: str) -> Gap:
    return Gap(GapKind.INVALID_OBJECT, (resource,), {"error": f"{resource} is invalid"})


def dependencies(*resources: str) -> Gap:
    return Gap(GapKind.DEPENDENCIES, resources)


@pytest.mark.parametrize(
    ("gap", "everyone", "of_shop"),
    [
        pytest.param(
            Gap(GapKind.INVALID_BUDGETS, None, {"error": THEIRS}),
            f"the budgets in the lease of the controllers are invalid, and not shown: {THEIRS}",
            "the budgets in the lease of the controllers are invalid, and not shown",
            id="it is not known which resources it names",
        ),
        pytest.param(
            Gap(GapKind.MORE_INVALID_OBJECTS, facts={"number": "3"}),
            "and 3 more objects are left out", "and 3 more objects are left out", id="no names",
        ),
        pytest.param(
            invalid(MINE), f"{MINE} is invalid; the object is left out", f"{MINE} is invalid; the object is left out",
            id="only visible names",
        ),
        pytest.param(invalid(THEIRS), f"{THEIRS} is invalid; the object is left out", ELSEWHERE, id="a hidden name"),
        pytest.param(
            dependencies(MINE, THEIRS),
            f"the dependencies of {MINE}, {THEIRS} are not known, so that more resources may move",
            f"the dependencies of {MINE} and workloads in other namespaces are not known, so that more resources may "
            "move",
            id="some hidden names",
        ),
        pytest.param(
            dependencies(THEIRS, WIDE),
            f"the dependencies of {THEIRS}, {WIDE} are not known, so that more resources may move",
            "the dependencies of workloads in other namespaces are not known, so that more resources may move",
            id="all names are hidden",
        ),
    ],
)  # fmt: skip
def test_what_a_gap_says(gap, everyone, of_shop):
    assert (gap.text(ANY_READER), gap.text(SHOP)) == (everyone, of_shop)


def test_equal_sentences_are_said_once():
    hidden = [dependencies(f"vault/Deployment/{each}") for each in range(3)]
    assert len(texts(hidden, SHOP)) == 1


@pytest.mark.parametrize("kind", GapKind)
def test_each_kind_has_a_sentence(kind):
    found = Gap(kind, (MINE,), FACTS).text(ANY_READER)
    assert found
    assert not re.search(r"[{}]", found)


@given(
    st.sampled_from([GapKind.INVALID_OBJECT, GapKind.DEPENDENCIES]),
    st.lists(st.sampled_from([MINE, THEIRS, WIDE]), max_size=12),
)
def test_no_gap_names_what_its_reader_may_not_see(kind, names):
    for about in (tuple(names), None):
        assert "secret" not in Gap(kind, about, {"error": ", ".join(names)}).text(SHOP)
