from tables import cases

from berthmaster.scheduling.columns import fnv1_32, fnv1_32_of_names


@cases("count", {"few": 3, "many": 500})
def test_hashes_of_names_continue_with_the_same_bytes(count):
    names = [f"member{number}" for number in range(count)]
    assert fnv1_32_of_names(names, b"default/web") == [fnv1_32(f"{name}default/web".encode()) for name in names]
