"""Options of ``berthmaster extender`` that cannot be meant: a line on standard error, and nothing is served."""

import pytest
from click.testing import CliRunner

from berthmaster_cli.main import main


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        pytest.param(["--watch", "pods"], "'pods' is not one of", id="an unknown kind"),
        pytest.param(["--watch", "policies"], "one kind of cluster has to be watched", id="policies alone"),
        pytest.param(["--watch", "nodes", "-f", "."], "give one of them", id="two sources"),
        pytest.param(["--watch", "nodes", "--kubeconfig", "nowhere"], "name a kubeconfig file", id="no access"),
        pytest.param(["--kube-scheduler-members", "a in b"], "is not a selector", id="a broken selector"),
    ],
)
def test_is_refused(arguments, told):
    result = CliRunner().invoke(main, ["extender", *arguments])
    assert result.exit_code != 0
    assert told in f"{result.output}{result.exception}"
