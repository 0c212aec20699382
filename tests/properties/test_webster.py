"""Webster's method in bulk matches giving seats one by one."""

import numpy as np
import oracle
from hypothesis import given
from hypothesis import strategies as st

from berthmaster.scheduling.karmada import division
from berthmaster.scheduling.karmada.division import allocate


def seats_of(seats, votes):
    return allocate(seats, np.array(votes, dtype=np.int64), np.arange(len(votes))).tolist()


few_votes = st.lists(st.integers(0, 6), min_size=1, max_size=8)
many_votes = st.lists(st.integers(0, 40) | st.integers(0, 10**6), min_size=1, max_size=25)


@given(seats=st.integers(0, 30), votes=few_votes)
def test_few_seats_match_the_oracle(seats, votes):
    assert seats_of(seats, votes) == list(oracle.webster(seats, _named(votes)).values())


@given(seats=st.integers(0, 300), votes=many_votes)
def test_many_seats_in_rounds_match_the_oracle(seats, votes):
    quotas, ranks = np.array(votes, dtype=np.float64), np.arange(len(votes))
    if not quotas.any():
        return
    rounds = division._in_rounds(seats, np.zeros(len(votes), dtype=np.int64), quotas, ranks)  # noqa: SLF001 - the oracle checks one of two ways of division
    assert rounds.tolist() == list(oracle.webster(seats, _named(votes)).values())


@given(seats=st.integers(97, 400), votes=many_votes)
def test_certain_seats_do_not_change_the_result(seats, votes):
    assert seats_of(seats, votes) == list(oracle.webster(seats, _named(votes)).values())


@given(seats=st.integers(0, 2**31 - 1), votes=st.lists(st.integers(1, 2**63 - 1), min_size=1, max_size=6))
def test_all_seats_are_given(seats, votes):
    assert sum(seats_of(seats, votes)) == seats


def _named(votes):
    return {f"{index:03}": vote for index, vote in enumerate(votes)}
