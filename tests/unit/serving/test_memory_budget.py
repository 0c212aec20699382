"""The account of the memory that requests use."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berthmaster.serving.memory_budget import SMALL_BYTES, MemoryBudget

MIB = 2**20


def test_bytes_that_arrive_have_a_limit():
    budget = MemoryBudget(64 * MIB)
    budget.arrived("a", 10 * MIB)
    assert budget.may_arrive
    budget.arrived("a", 12 * MIB)
    budget.arrived("b", 4 * MIB)
    assert not budget.may_arrive
    budget.release("b")
    assert budget.may_arrive


def test_answers_that_are_not_read_have_a_limit():
    budget = MemoryBudget(64 * MIB)
    budget.unread("a", 16 * MIB)
    assert not budget.too_much_unread
    budget.unread("b", 1)
    assert budget.too_much_unread
    budget.unread("b", 0)
    assert not budget.too_much_unread


@pytest.mark.parametrize(
    ("running", "size", "may"),
    [
        pytest.param([], 100 * MIB, True, id="one request of any size"),
        pytest.param([2 * MIB], 2 * MIB, True, id="two that fit, each with a multiple of its size"),
        pytest.param([2 * MIB], 3 * MIB, False, id="two that do not fit"),
        pytest.param([100 * MIB], SMALL_BYTES, True, id="a small request at any time"),
        pytest.param([SMALL_BYTES] * 1000, 4 * MIB, True, id="a large request beside small ones"),
    ],
)
def test_requests_in_progress_have_a_limit(running, size, may):
    budget = MemoryBudget(64 * MIB)
    for client, each in enumerate(running):
        budget.process(client, each)
    assert budget.may_process(size) is may


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["arrived", "unread", "process"]), st.integers(0, 3), st.integers(0, 3 * SMALL_BYTES)
        ),
        max_size=30,
    )
)
def test_nothing_is_counted_after_all_clients_are_released(steps):
    budget = MemoryBudget(MIB)
    for step, client, size in steps:
        getattr(budget, step)(client, size)
    for client in range(4):
        budget.release(client)
    assert (budget.may_arrive, budget.too_much_unread, budget.may_process(MIB)) == (True, False, True)
    assert (budget._arrived_bytes, budget._unread_bytes, budget._processing_bytes) == (0, 0, 0)
