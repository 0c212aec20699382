"""``berthmaster extender`` rejects invalid options before it serves."""

from click.testing import CliRunner
from tables import cases

from berthmaster_cli.extender import watched_kinds
from berthmaster_cli.main import main


@cases(
    ("arguments", "message"),
    {
        "an unknown kind": (["--watch", "pods"], "'pods' is not one of"),
        "policies without clusters": (["--watch", "policies"], "--watch needs one kind of cluster"),
        "two sources": (["--watch", "nodes", "-f", "."], "cannot be combined"),
        "no access": (["--watch", "nodes", "--kubeconfig", "nowhere"], "specify a kubeconfig file"),
        "an invalid selector": (["--kube-scheduler-members", "a in b"], "is not a selector"),
    },
)
def test_invalid_options_are_rejected(arguments, message):
    result = CliRunner().invoke(main, ["extender", *arguments])
    assert result.exit_code != 0
    assert message in f"{result.output}{result.exception}"


def test_kinds_to_watch_are_separated_by_commas():
    assert watched_kinds("bindings, workloads") == ("bindings", "workloads")
