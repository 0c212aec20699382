"""Assignments in messages."""

import pytest

from berthmaster.model.binding import CLUSTERS_SHOWN, short_assignment


@pytest.mark.parametrize(
    ("clusters", "text"),
    [
        pytest.param({}, "no clusters", id="no clusters"),
        pytest.param({"b": 1, "a": 2}, "a:2, b:1", id="clusters are sorted by name"),
        pytest.param({f"m{n}": 1 for n in range(CLUSTERS_SHOWN)}, "m0:1, m1:1, m2:1, m3:1, m4:1, m5:1, m6:1, m7:1",
                     id="as many clusters as fit"),
        pytest.param({f"m{n}": 0 for n in range(CLUSTERS_SHOWN + 2)},
                     "m0:0, m1:0, m2:0, m3:0, m4:0, m5:0, m6:0, m7:0 and 2 more", id="more clusters than fit"),
    ],
)  # fmt: skip
def test_an_assignment_is_text(clusters, text):
    assert short_assignment(clusters) == text


def test_the_text_without_clusters_can_be_another():
    assert not short_assignment({}, none="")
