"""What all tests share."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent

# No test may reach the cluster of the developer who runs it. Tests name their kubeconfig files.
os.environ["KUBECONFIG"] = str(ROOT / "tests" / "no-kubeconfig")

# A slow machine is no failure, nor is a draw of many worlds that a property says nothing about: if all were such, it
# would still fail.
settings.register_profile(
    "berthmaster",
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.load_profile("berthmaster")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write what is printed today to tests/golden")


@pytest.fixture
def golden(request: pytest.FixtureRequest):
    """Compare a text with the golden file of a name, or write it with --update-golden."""

    def compare(name: str, text: str) -> None:
        path = ROOT / "tests" / "golden" / name
        if request.config.getoption("--update-golden"):
            path.write_text(text)
        assert text == path.read_text(), f"differs from {path}; if that is right, run pytest --update-golden"

    return compare
