"""``berthmaster extender`` rejects invalid options before it serves."""

import pytest
from click.testing import CliRunner

from berthmaster_cli.extender import watched_kinds
from berthmaster_cli.main import main


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["--watch", "pods"], "'pods' is not one of", id="an unknown kind"),
        pytest.param(["--watch", "policies"], "--watch needs one kind of cluster", id="policies without clusters"),
        pytest.param(["--watch", "nodes", "-f", "."], "cannot be combined", id="two sources"),
        pytest.param(["--watch", "nodes", "--kubeconfig", "nowhere"], "specify a kubeconfig file", id="no access"),
        pytest.param(["--kube-scheduler-members", "a in b"], "is not a selector", id="an invalid selector"),
    ],
)
def test_invalid_options_are_rejected(arguments, message):
    result = CliRunner().invoke(main, ["extender", *arguments])
    assert result.exit_code != 0
    assert message in f"{result.output}{result.exception}"


def test_kinds_to_watch_are_separated_by_commas():
    assert watched_kinds("bindings, workloads") == ("bindings", "workloads")
