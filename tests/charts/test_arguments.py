"""Every container starts with arguments that its command accepts."""

import click
import pytest
from charts.cases import CASES

from berthmaster.scheduling.prices import PriceEntry
from berthmaster_cli.ledger_options import ENVIRONMENT
from berthmaster_cli.main import COMMANDS, main
from berthmaster_cli.scheduling_options import prices_in
from charts import helm

# ``berthmaster ledger`` and ``explain --at`` run in this pod by ``kubectl exec``.
BY_HAND = {"Deployment/berthmaster-controllers": {ENVIRONMENT, f"{ENVIRONMENT}_FILE"}}


def containers(case):
    for name, template in helm.pods(helm.render(CASES[case])):
        [container] = template["spec"]["containers"]
        yield name, container


def rendered(case):
    for name, container in containers(case):
        yield name, container["args"]


def environment(container):
    ours = [each for each in container.get("env", []) if each["name"].startswith("BERTHMASTER_")]
    return {each["name"]: each["value"] for each in ours}


def parse(arguments):
    command, rest, name = main, list(arguments), "berthmaster"
    context = click.Context(main, info_name=name)
    while isinstance(command, click.Group):
        name, *rest = rest
        found = command.get_command(context, name)
        assert found is not None, f"there is no command {name}"
        command = found
    return command.make_context(name, rest, parent=context)


def test_every_container_starts_a_command_with_options_it_has(case, monkeypatch):
    for name, container in containers(case):
        with monkeypatch.context() as within:
            for variable, value in environment(container).items():
                within.setenv(variable, value)
            try:
                context = parse(container["args"])
            except click.UsageError as error:
                pytest.fail(f"{name}: {error.format_message()}")
            known = {f"{context.auto_envvar_prefix}_{option.name.upper()}" for option in context.command.params}
            assert environment(container).keys() <= known | BY_HAND.get(name, set()), name


@pytest.mark.parametrize("command", [["rotate"], ["rotate", "--ca"], ["inspect"], ["bootstrap"]], ids=" ".join)
@pytest.mark.parametrize("case", ["default", "single", "kubeadmiral"])
def test_the_certs_pods_have_the_options_of_all_certificate_commands(case, command, monkeypatch):
    """``kubectl exec deployment/berthmaster-certs -- berthmaster certs rotate`` uses the options of the pod."""
    container = dict(containers(case))["Deployment/berthmaster-certs"]
    for variable, value in environment(container).items():
        monkeypatch.setenv(variable, value)
    kept, asked = parse(container["args"]).params, parse(["certs", *command]).params
    shared = kept.keys() & asked.keys()
    assert {"namespace", "serving", "target_kubeconfig", "mutating", "scheduler_plugin"} <= shared
    assert {name: asked[name] for name in shared} == {name: kept[name] for name in shared}


def test_the_commands_that_the_chart_runs_are_known():
    run = {arguments[0] for case in CASES for _, arguments in rendered(case)}
    assert run == {"webhook", "extender", "controllers", "console", "certs", "register"}
    assert {"webhook", "extender", "console"} <= set(COMMANDS)


def one(case, component, flag):
    [found] = [text.partition("=")[2] for name, args in rendered(case) if name.endswith(component) for text in args
               if text.startswith(f"--{flag}=")]  # fmt: skip
    return found


def test_the_controllers_may_clear_records_of_priority_drops():
    """The golden files show the users of the other ways to reach the target."""
    assert one("least-power", "webhook", "drop-handler") == "berthmaster-controllers"


def test_a_certificate_has_every_name_that_is_called():
    kept = environment(dict(containers("default"))["Deployment/berthmaster-certs"])["BERTHMASTER_CERTS_SERVING"]
    assert one("default", "Job/berthmaster-register", "serving") == kept, "Jobs and the certs Deployment agree"
    mounted, _, names = kept.partition("=")
    assert mounted == "berthmaster-webhook-tls"
    assert f"berthmaster-webhook.{helm.NAMESPACE}.svc" in names.split(",")


def test_controllers_and_extender_read_the_prices_of_the_values(tmp_path):
    objects = helm.render(CASES["extender-live"])
    found = {}
    for name, template in helm.pods(objects):
        volumes = {each["name"]: each for each in template["spec"]["volumes"]}
        if "prices" in volumes:
            config = helm.named(objects, "ConfigMap", volumes["prices"]["configMap"]["name"])["data"]
            (tmp_path / "prices.yaml").write_text(config["prices.yaml"])
            arguments = template["spec"]["containers"][0]["args"]
            assert {"--prices=/etc/berthmaster/prices/prices.yaml", "--cost-weight=60"} <= set(arguments)
            found[name] = prices_in(tmp_path / "prices.yaml").prices
    expected = (PriceEntry(0.011, 0.0015, {"tier": "spot"}), PriceEntry(0.031, 0.004))
    assert found == dict.fromkeys(("Deployment/berthmaster-controllers", "Deployment/berthmaster-extender"), expected)
    assert "prices" not in helm.text(CASES["extender"])
