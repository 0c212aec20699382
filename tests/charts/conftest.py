"""The chart's tests need helm. Without it they skip and say how to get it; where they are required, they fail."""

import os
from pathlib import Path

import pytest
from charts.assets import MissingHelmError, helm_binary


@pytest.fixture(autouse=True, scope="session")
def helm() -> Path:
    try:
        return helm_binary()
    except MissingHelmError as problem:
        if os.environ.get("CI") == "true":
            pytest.fail(f"the chart's tests are required here, but: {problem}", pytrace=False)
        pytest.skip(str(problem))
