import pytest

from berthmaster.scheduling.columns import fnv1a_32
from berthmaster.scheduling.karmada.division import breaks_ties_descending


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
