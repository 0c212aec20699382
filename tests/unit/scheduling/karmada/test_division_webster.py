import numpy as np
import pytest

from berthmaster.scheduling.fnv import fnv1a_32
from berthmaster.scheduling.karmada.division import allocate, breaks_ties_descending


def seats_of(seats, votes, ranks=None):
    ranks = range(len(votes)) if ranks is None else ranks
    return allocate(seats, np.array(votes, dtype=np.int64), np.array(ranks, dtype=np.int64)).tolist()


@pytest.mark.parametrize(
    ("seats", "votes", "expected"),
    [
        pytest.param(7, [53000, 24000, 23000], [3, 2, 2], id="seven seats, a textbook example"),
        pytest.param(15, [6, 7, 39, 48], [1, 1, 6, 7], id="fifteen seats over very unequal parties"),
        pytest.param(10, [47000, 16000, 15900, 12000, 6000, 3100], [4, 2, 2, 1, 1, 0], id="a small party gets no seat"),
        pytest.param(9, [1, 2], [3, 6], id="votes in a whole ratio are met exactly"),
        pytest.param(3, [2, 1], [2, 1], id="static weights 2:1 over three replicas"),
        pytest.param(5, [0, 3, 0], [0, 5, 0], id="a party without votes gets no seat"),
        pytest.param(4, [0, 0], [0, 0], id="without votes no party gets a seat"),
        pytest.param(0, [3, 4], [0, 0], id="no seats"),
        pytest.param(3, [], [], id="no parties"),
        pytest.param(1, [7], [1], id="one party takes the only seat"),
        pytest.param(2**31 - 1, [1, 1, 1], [715827883, 715827882, 715827882], id="MaxInt32 seats"),
        pytest.param(2, [2**62, 2**62 - 1, 1], [1, 1, 0], id="votes near the limit of int64"),
    ],
)
def test_seats_follow_the_largest_quotients(seats, votes, expected):
    assert seats_of(seats, votes) == expected


@pytest.mark.parametrize(
    ("seats", "votes", "ranks", "expected"),
    [
        pytest.param(1, [5, 5], [0, 1], [1, 0], id="of equal parties without seats the smaller rank is first"),
        pytest.param(1, [5, 5], [1, 0], [0, 1], id="the order of the parties has no effect"),
        pytest.param(5, [9, 3], [0, 1], [4, 1], id="five seats: 9/7 beats 3/3"),
        pytest.param(2, [9, 3], [0, 1], [1, 1], id="3/1 ties with 9/3: fewer seats beat the smaller rank"),
        pytest.param(1, [2**53, 2**53 + 1], [0, 1], [1, 0], id="votes that are equal as doubles are a tie"),
        pytest.param(
            2, [3, 3, 3, 1], [2, 0, 1, 3], [0, 1, 1, 0], id="more equal parties than seats: the smallest ranks"
        ),
    ],
)
def test_ties_are_broken_by_fewer_seats_then_by_rank(seats, votes, ranks, expected):
    assert seats_of(seats, votes, ranks) == expected


@pytest.mark.parametrize(
    ("text", "digest"),
    [
        pytest.param(b"", 0x811C9DC5, id="the offset basis"),
        pytest.param(b"a", 0xE40C292C, id="one byte"),
        pytest.param(b"foobar", 0xBF9CF968, id="the example of the reference"),
    ],
)
def test_fnv1a_is_the_published_hash(text, digest):
    assert fnv1a_32(text) == digest


@pytest.mark.parametrize(
    ("uid", "descending"),
    [
        pytest.param("", False, id="no UID: ascending, although the hash of no bytes is odd"),
        pytest.param("a", False, id="an even hash: ascending"),
        pytest.param("b", True, id="an odd hash: descending"),
    ],
)
def test_the_parity_of_the_hash_of_the_uid_decides_the_order_of_names(uid, descending):
    assert breaks_ties_descending(uid) is descending
