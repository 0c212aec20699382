from tables import cases

from berthmaster.scheduling.columns import fnv1a_32
from berthmaster.scheduling.karmada.division import breaks_ties_descending


@cases(
    ("text", "digest"),
    {
        "the offset basis": (b"", 0x811C9DC5),
        "one byte": (b"a", 0xE40C292C),
        "the example of the reference": (b"foobar", 0xBF9CF968),
    },
)
def test_fnv1a_is_the_published_hash(text, digest):
    assert fnv1a_32(text) == digest


@cases(
    ("uid", "descending"),
    {
        "no UID: ascending, although the hash of no bytes is odd": ("", False),
        "an even hash: ascending": ("a", False),
        "an odd hash: descending": ("b", True),
    },
)
def test_the_parity_of_the_hash_of_the_uid_decides_the_order_of_names(uid, descending):
    assert breaks_ties_descending(uid) is descending
