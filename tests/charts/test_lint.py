import json

import pytest
from charts.cases import CASES

from charts import helm


@pytest.mark.parametrize("case", ["default", "single-with-everything", "kubeadmiral", "monitoring", "placed"])
def test_helm_lint_passes(case):
    output = helm.run(
        "lint", "--strict", str(helm.CHART), "--values=-", stdin=json.dumps({"image": helm.IMAGE, **CASES[case]})
    )
    assert "0 chart(s) failed" in output
    assert "[WARNING]" not in output
