import pytest

from berthmaster.scheduling.columns import fnv1_32, fnv1_32_of_names


@pytest.mark.parametrize(
    ("text", "digest"),
    [
        pytest.param("", 2166136261, id="no bytes"),
        pytest.param("A", 84696414, id="A"),
        pytest.param("B", 84696413, id="B"),
        pytest.param("C", 84696412, id="C"),
        pytest.param("D", 84696411, id="D"),
        pytest.param("Adefault/web", 3000979914, id="A of default/web"),
        pytest.param("Bdefault/web", 898917171, id="B of default/web"),
        pytest.param("Cdefault/web", 2583235596, id="C of default/web"),
        pytest.param("Ddefault/web", 2078156493, id="D of default/web"),
        pytest.param("cluster1default/web", 2329918954, id="cluster1 of default/web"),
        pytest.param("cluster2default/web", 1861480531, id="cluster2 of default/web"),
        pytest.param("cluster3default/web", 3025948204, id="cluster3 of default/web"),
    ],
)
def test_hashes(text, digest):
    assert fnv1_32(text.encode()) == digest


@pytest.mark.parametrize("count", [3, 500], ids=["few", "many"])
def test_hashes_of_names_continue_with_the_same_bytes(count):
    names = [f"member{number}" for number in range(count)]
    assert fnv1_32_of_names(names, b"default/web") == [fnv1_32(f"{name}default/web".encode()) for name in names]
