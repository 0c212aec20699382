"""The chart's tests need helm. Without it they skip and say how to get it; where they are required, they fail."""

import os

import pytest
from charts.assets import MissingHelmError, helm_binary
from charts.cases import CASES

from charts import helm


@pytest.fixture(autouse=True, scope="session")
def _helm_is_there() -> None:
    try:
        helm_binary()
    except MissingHelmError as problem:
        if os.environ.get("CI") == "true":
            pytest.fail(f"the chart's tests are required here, but: {problem}", pytrace=False)
        pytest.skip(str(problem))


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> str:
    """Every case in turn."""
    return request.param


@pytest.fixture
def objects(case: str) -> list[helm.Manifest]:
    return helm.render(CASES[case])
