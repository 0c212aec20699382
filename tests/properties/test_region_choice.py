"""The choice of regions without enumeration matches a full enumeration."""

import oracle
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from berthmaster.scheduling.karmada.selection import ClusterGroup, select_groups

small = st.integers(0, 3)
weights = small | st.sampled_from([1000, 2000, 2050, 2100]) | st.integers(2**60, 2**66)
choices = st.lists(st.tuples(st.integers(1, 4), weights), min_size=1, max_size=9)


@given(drawn=choices, shortest=st.integers(1, 4), spare=st.integers(-1, 6), target=st.integers(0, 14))
@example(drawn=[(1, 2), (1, 2), (2, 2), (3, 1)], shortest=2, spare=2, target=4)
def test_the_choice_is_the_one_of_a_full_enumeration(drawn, shortest, spare, target):
    from_drawn = [ClusterGroup(f"g{index}", *pair) for index, pair in enumerate(drawn)]
    chosen = select_groups(from_drawn, shortest, shortest + spare, target)
    assert [group.name for group in chosen] == list(
        oracle.select_groups(from_drawn, shortest, shortest + spare, target)
    )


@given(drawn=choices, seed=st.randoms(use_true_random=False), longest=st.integers(1, 9), target=st.integers(0, 9))
def test_the_order_of_the_groups_has_no_effect(drawn, seed, longest, target):
    in_order = [ClusterGroup(f"g{index}", *pair) for index, pair in enumerate(drawn)]
    shuffled = seed.sample(in_order, len(in_order))
    assert select_groups(in_order, 1, longest, target) == select_groups(shuffled, 1, longest, target)


@pytest.mark.parametrize(
    ("text", "shortest", "longest", "target"),
    [
        pytest.param("a:1/1 b:1/3 c:1/2", 1, 1, 0, id="the heaviest group"),
        pytest.param("a:1/1 b:1/3 c:1/2", 2, 2, 0, id="the heaviest two groups"),
        pytest.param("a:2/5 b:3/5", 1, 1, 1, id="of equal weights the group with more clusters"),
        pytest.param("b:2/5 a:2/5", 1, 1, 1, id="of equal weights and sizes the first by name"),
        pytest.param("a:1/1 b:1/3 c:2/2", 1, 3, 4, id="as many groups as needed to reach the target"),
        pytest.param("a:1/9 b:5/1", 1, 1, 5, id="a light group that reaches the target alone"),
        pytest.param("a:5/1 b:1/9 c:1/8", 1, 3, 5, id="a combination may be longer than needed"),
        pytest.param("a:2/9 b:3/8 c:4/7", 1, 3, 5, id="the order of the walk decides that 2+3 is recorded"),
        pytest.param("a:1/1 b:1/1", 3, 5, 0, id="fewer groups than the minimum"),
        pytest.param("a:1/1 b:1/1", 1, 0, 0, id="a maximum of 0 allows none"),
        pytest.param("a:1/1 b:1/1", 2, 1, 0, id="a maximum below the minimum allows none"),
        pytest.param("a:1/1 b:1/1", 1, 2, 3, id="fewer clusters than the target"),
        pytest.param("a:1/1 b:1/1 c:9/0", 1, 2, 11, id="the maximum number of groups cannot reach the target"),
        pytest.param("a:1/0 b:1/0", 1, 2, 0, id="without weights the shortest combination"),
        pytest.param("", 1, 2, 0, id="no groups"),
    ],
)
def test_special_cases_match_a_full_enumeration(text, shortest, longest, target):
    parsed = (part.replace(":", "/").split("/") for part in text.split())
    groups = [ClusterGroup(name, int(value), int(weight)) for name, value, weight in parsed]
    chosen = [group.name for group in select_groups(groups, shortest, longest, target)]
    assert chosen == list(oracle.select_groups(groups, shortest, longest, target))
