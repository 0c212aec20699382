"""FederatedResourceQuotas: which changes let assignments pass that did not pass before."""

import pytest

from berthmaster.model.decode import convert
from berthmaster.model.quota import FederatedResourceQuota, is_looser


def quota(overall, used=None):
    return convert(
        FederatedResourceQuota,
        {"metadata": {"name": "limit"}, "spec": {"overall": overall}, "status": {"overallUsed": used or {}}},
    )


@pytest.mark.parametrize(
    ("before", "after", "looser"),
    [
        pytest.param(quota({"cpu": "3"}), quota({"cpu": "3"}), False, id="nothing changed"),
        pytest.param(quota({"cpu": "3"}), quota({"cpu": "3001m"}), True, id="a limit is raised"),
        pytest.param(quota({"cpu": "3"}), quota({"cpu": "2"}), False, id="a limit is lowered"),
        pytest.param(quota({"cpu": "1000m"}), quota({"cpu": "1"}), False, id="the same limit in another unit"),
        pytest.param(quota({"cpu": "3"}), quota({}), True, id="a limit is removed"),
        pytest.param(quota({"cpu": "3"}), quota({"cpu": "3", "memory": "1"}), False, id="a limit is added"),
        pytest.param(
            quota({"cpu": "3", "memory": 1}), quota({"cpu": "1", "memory": 2}), True, id="one of two is raised"
        ),
        pytest.param(quota({"cpu": "3"}, {"cpu": "2"}), quota({"cpu": "3"}, {"cpu": "1"}), True, id="less is used"),
        pytest.param(quota({"cpu": "3"}, {"cpu": "1"}), quota({"cpu": "3"}, {"cpu": "2"}), False, id="more is used"),
        pytest.param(quota({"cpu": "3"}, {"cpu": "1"}), quota({"cpu": "3"}), True, id="nothing is used any more"),
        pytest.param(quota({"cpu": "3"}), None, True, id="it is deleted"),
    ],
)
def test_which_changes_of_a_quota_make_it_looser(before, after, looser):
    assert is_looser(before, after) is looser
