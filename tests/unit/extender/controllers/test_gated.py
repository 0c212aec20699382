"""Controllers behind feature gates."""

import pytest

from extender.controllers.registry import REGISTRY, gated
from extender.controllers.settings import GATES
from fleet.errors import InputError
from fleet.ops.feature_gates import FeatureGates

PREEMPTION = [each for each in REGISTRY if each.name == "preemption"]


@pytest.mark.parametrize(
    ("gates", "runs"),
    [
        pytest.param("", False, id="is off by default"),
        pytest.param("PolicyPreemption=true", True, id="runs with its gate"),
        pytest.param("PolicyPreemption=false,WorkloadAffinity=true", False, id="and with no other one"),
    ],
)
def test_preemption(gates, runs):
    names = [each.name for each in gated(REGISTRY, FeatureGates.parse(gates, GATES))]
    assert ("preemption" in names) == runs
    assert "binding-scheduler" in names


def test_who_asks_for_preemption_alone_is_told_of_the_gate():
    with pytest.raises(InputError, match="PolicyPreemption=true"):
        gated(PREEMPTION, FeatureGates(GATES))
