"""Hints for misspelled names."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import cases

from berthmaster.model.hints import closest

FEW = ["member1", "member2", "europe-west1"]
MANY = dict.fromkeys(f"member-{number:05}-in-europe" for number in range(20_000))
MOST_S = 0.2
"""Of processor time. The largest hint takes a tenth of it."""


@cases(
    ("name", "known", "expected"),
    {
        "a letter too many": ("memberr1", FEW, "member1"),
        "two errors": ("eurpe-wst1", FEW, "europe-west1"),
        "nothing like it": ("asia", FEW, None),
        "no names": ("member1", [], None),
        "a missing letter among many": ("membr-00317-in-europe", MANY, "member-00317-in-europe"),
        "a letter too many among many": ("member-00317-inn-europe", MANY, "member-00317-in-europe"),
        "two letters that changed places, among many": ("memebr-00317-in-europe", MANY, "member-00317-in-europe"),
        "another letter among many": ("member-00317-jn-europe", MANY, "member-00317-in-europe"),
        "an iterator of many": ("member-00317-jn-europe", iter(MANY), "member-00317-in-europe"),
    },
)
def test_the_closest_name(name, known, expected):
    assert closest(name, known) == expected


@pytest.mark.parametrize("name", ["x", "member", "ab" * 32, "a" * 128, "ab" * 1000, "x" * 2**20], ids=len)
@cases(
    "known", {"many": MANY, "long": ["ba" * 126] * 5000, "few": ["ba" * 32] * 50, "one of a megabyte": ["a" * 2**20]}
)
def test_a_hint_costs_a_bounded_time(name, known):
    begun_s = time.process_time()
    for _ in range(3):
        closest(name, known)
    assert (time.process_time() - begun_s) / 3 < MOST_S


@given(st.text(max_size=200), st.lists(st.text(max_size=200), max_size=30))
def test_a_hint_is_a_known_name(name, known):
    assert closest(name, known) in {None, *known}
