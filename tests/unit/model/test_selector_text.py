"""Selectors as kubectl writes them."""

import pytest

from berthmaster.model.errors import InputError
from berthmaster.model.selector_text import parse_selector

GOLD, SILVER, BARE = {"tier": "gold", "type": "virtual-node"}, {"tier": "silver"}, {}


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        pytest.param("", [GOLD, SILVER, BARE], id="nothing asked selects everything"),
        pytest.param("tier=gold", [GOLD], id="equal"),
        pytest.param("tier == gold", [GOLD], id="equal, twice and with spaces"),
        pytest.param("tier!=gold", [SILVER, BARE], id="unequal, which a missing label is, too"),
        pytest.param("tier in (gold, silver)", [GOLD, SILVER], id="one of several"),
        pytest.param("tier notin (gold)", [SILVER, BARE], id="none of several"),
        pytest.param("tier", [GOLD, SILVER], id="present"),
        pytest.param("!tier", [BARE], id="absent"),
        pytest.param("tier in (gold,silver), type=virtual-node", [GOLD], id="all parts must hold"),
        pytest.param("in", [], id="a key that looks like an operator"),
        pytest.param("tier=", [], id="an empty value"),
    ],
)
def test_selects(text, selected):
    selector = parse_selector(text)
    assert [each for each in (GOLD, SILVER, BARE) if selector.matches(each)] == selected


@pytest.mark.parametrize(
    "text",
    [
        "tier=gold,", ",tier", "tier in gold", "tier in (gold", "tier in ()x", "=gold", "a b", "tier=g old", "ti!er",
        "-bad=x", "tier=-bad", "x" * 5000,
    ],
)  # fmt: skip
def test_refuses(text):
    with pytest.raises(InputError) as caught:
        parse_selector(text)
    assert "\n" not in str(caught.value)
