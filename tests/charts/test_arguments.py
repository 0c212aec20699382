"""Every container is started with arguments that the command takes."""

import click
import pytest
from charts.cases import CASES

from charts import helm
from cli.main import _COMMANDS, main


def rendered(case):
    for name, template in helm.pods(helm.render(CASES[case])):
        [container] = template["spec"]["containers"]
        yield name, container["args"]


def parse(arguments):
    """Parse, and run nothing."""
    command, rest, name = main, list(arguments), "berthmaster"
    context = click.Context(main, info_name=name)
    while isinstance(command, click.Group):
        name, *rest = rest
        found = command.get_command(context, name)
        assert found is not None, f"there is no command {name}"
        command = found
    return command.make_context(name, rest, parent=context)


@pytest.mark.parametrize("case", CASES)
def test_every_container_starts_a_command_with_options_it_has(case):
    """Those that do not exist yet are checked from the day they do."""
    for name, arguments in rendered(case):
        if arguments[0] in _COMMANDS:
            try:
                parse(arguments)
            except click.UsageError as error:
                pytest.fail(f"{name}: {error.format_message()}")


def test_the_commands_that_the_chart_runs_are_known():
    run = {arguments[0] for case in CASES for _, arguments in rendered(case)}
    assert run == {"webhook", "extender", "controllers", "certs", "register"}
    assert {"webhook", "extender"} <= set(_COMMANDS)


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["webhook", "--no-such-option"], id="an option that is none"),
        pytest.param(["webhook", "--cert-file=a"], id="one that is missing"),
        pytest.param(["extender", "--watch=everything"], id="a value that is none"),
    ],
)
def test_the_check_finds(arguments):
    with pytest.raises(click.UsageError):
        parse(arguments)


def one(case, component, flag):
    [found] = [text.partition("=")[2] for name, args in rendered(case) if name.endswith(component) for text in args
               if text.startswith(f"--{flag}=")]  # fmt: skip
    return found


@pytest.mark.parametrize(
    ("case", "user"),
    [
        pytest.param("default", "system:admin", id="the user of Karmada's kubeconfig"),
        pytest.param("least-power", "berthmaster-controllers", id="the user of a kubeconfig of its own"),
        pytest.param(
            "single", "system:serviceaccount:karmada-system:berthmaster-controllers", id="in one cluster the account"
        ),
    ],
)
def test_the_controllers_may_clear_records_of_priority_drops(case, user):
    assert one(case, "webhook", "drop-handler") == user
    if case == "single":
        account = next(
            template["spec"]["serviceAccountName"]
            for name, template in helm.pods(helm.render(CASES[case]))
            if name.endswith("controllers")
        )
        assert user == f"system:serviceaccount:{helm.NAMESPACE}:{account}"


def test_a_certificate_has_every_name_that_is_called():
    mounted, _, names = one("default", "Deployment/berthmaster-certs", "serving").partition("=")
    assert mounted == "berthmaster-webhook-tls"
    assert f"berthmaster-webhook.{helm.NAMESPACE}.svc" in names.split(",")
