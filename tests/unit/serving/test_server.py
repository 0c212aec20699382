"""The settings that a server derives from its environment."""

import resource

import pytest

from berthmaster.serving.server import affordable_connections


@pytest.mark.parametrize(
    ("descriptors", "expected"),
    [
        pytest.param(1064, 1000, id="enough for all connections"),
        pytest.param(1063, 999, id="one too few"),
        pytest.param(10, 1, id="fewer than the reserve"),
        pytest.param(resource.RLIM_INFINITY, 1000, id="no limit of open files"),
    ],
)
def test_connections_leave_descriptors_for_everything_else(descriptors, expected, monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (descriptors, descriptors))
    assert affordable_connections(1000) == expected
