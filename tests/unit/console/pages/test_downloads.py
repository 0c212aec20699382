"""Cells of files for spreadsheets."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import cases

from console.pages.downloads import _csv


def cell(value):
    return list(csv.reader(io.StringIO(_csv([{"name": value}]), newline="")))[1][0]


@pytest.mark.parametrize(
    "unseen", ["", " ", "\n", "\r", "\t", "\x0b", "\u00a0", "\ufeff", "\u200b", "\u2028", " \n \ufeff"], ids=repr
)
@pytest.mark.parametrize("sign", "=+-@＝＋－＠﹢﹣﹦﹫⁺₊", ids=repr)  # noqa: RUF001 - forms of the signs
def test_a_text_that_a_spreadsheet_would_calculate_begins_with_an_apostrophe(unseen, sign):
    assert cell(f"{unseen}{sign}1+1") == f"'{unseen}{sign}1+1"


@cases(
    ("value", "shown"),
    {
        "a name": ("web", "web"),
        "a space before a name": (" web", " web"),
        "a line end before a name": ("\nweb", "'\nweb"),
        "a number": (-5, "-5"),
        "a sign in the middle": ("a=1", "a=1"),
        "nothing": ("", ""),
        "a list": (["=1"], '["=1"]'),
    },
)
def test_other_values_stay_as_they_are(value, shown):
    assert cell(value) == shown


@given(st.text(max_size=20))
def test_a_cell_is_the_text_with_or_without_an_apostrophe(text):
    text = text.replace("\r", "")
    assert cell(text) in {text, f"'{text}"}
