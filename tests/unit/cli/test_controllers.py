"""``berthmaster controllers``: the settings that its options make, and the options that it rejects."""

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from tables import cases

from berthmaster.controllers import run as running
from berthmaster.controllers.registry import Registration
from berthmaster.controllers.settings import ControllerSettings, EstimatorSettings
from berthmaster.runtime.feature_gates import POLICY_PREEMPTION, WORKLOAD_AFFINITY
from berthmaster_cli import controllers
from berthmaster_cli.main import main

KNOWN = tuple(
    Registration(name, lambda _parts, _settings: pytest.fail("a test must not build it"), by_default, gate)
    for name, by_default, gate in (
        ("binding-scheduler", True, None),
        ("preemption", True, POLICY_PREEMPTION),
        ("workload-rebalancer", False, None),
    )
)


@pytest.fixture
def invoke(monkeypatch):
    """A function that runs the command without controllers, and returns what would run and the result."""
    monkeypatch.setattr(controllers, "REGISTRY", KNOWN)
    started = []
    monkeypatch.setattr(running, "run", lambda options, registrations: started.append((options, registrations)) or 0)

    def one(*arguments: str, env: dict[str, str] | None = None):
        result = CliRunner().invoke(main, ["controllers", *arguments], env=env)
        return (started[-1] if started else (None, None)), result

    return one


def names(registrations) -> list[str]:
    return [each.name for each in registrations]


def test_the_defaults(invoke):
    (options, registrations), result = invoke()
    assert result.exit_code == 0, result.output
    assert names(registrations) == ["binding-scheduler"], "preemption needs its gate"
    assert (options.kubeconfig, options.context, options.read_only) == (None, None, False)
    assert (options.probe_host, options.probe_port) == ("0.0.0.0", 9080)  # noqa: S104 - the default of the command
    lease = options.lease
    assert (lease.namespace, lease.name) == ("karmada-system", "berthmaster-controllers")
    assert (lease.lease_s, lease.renew_s, lease.retry_s) == (15, 10.0, 2.0)
    plain = ControllerSettings()
    given = options.settings
    assert str(given.gates) == str(plain.gates)
    assert replace(given, gates=plain.gates, profile=plain.profile) == plain


def test_every_flag_is_applied(invoke):
    (options, registrations), result = invoke(
        "--kubeconfig=k", "--context=c", "--controllers=*,workload-rebalancer,-binding-scheduler",
        "--feature-gates=PolicyPreemption=true,WorkloadAffinity=true",
        "--scheduler-name=s", "--concurrent-bindings=3", "--concurrent-rebalancers=5", "--plugins=*,-ClusterLocality",
        "--enable-empty-workload-propagation", "--failover=not-ready", "--failover-toleration-s=7",
        "--enable-scheduler-estimator", "--scheduler-estimator-timeout-s=2",
        "--scheduler-estimator-service-namespace=n", "--scheduler-estimator-service-prefix=p",
        "--scheduler-estimator-port=99", "--scheduler-estimator-ca-file=ca", "--scheduler-estimator-cert-file=crt",
        "--scheduler-estimator-key-file=key", "--scheduler-estimator-insecure-skip-verify",
        "--leader-elect-namespace=ln", "--leader-elect-name=l", "--leader-elect-lease-s=30",
        "--leader-elect-renew-s=20", "--leader-elect-retry-s=4", "--kube-api-qps=0", "--kube-api-burst=6",
        "--probe-bind=[::1]:1234", "--log-level=debug",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert names(registrations) == ["preemption", "workload-rebalancer"]
    assert (options.kubeconfig, options.context) == (Path("k"), "c")
    assert (options.qps, options.burst) == (0, 6)
    assert (options.probe_host, options.probe_port) == ("::1", 1234)
    lease = options.lease
    assert (lease.namespace, lease.name, lease.lease_s, lease.renew_s, lease.retry_s) == ("ln", "l", 30, 20.0, 4.0)
    settings = options.settings
    assert settings.gates.on(POLICY_PREEMPTION)
    assert settings.gates.on(WORKLOAD_AFFINITY)
    assert settings.scheduler_name == "s"
    assert (settings.concurrent_bindings, settings.concurrent_rebalancers) == (3, 5)
    assert (settings.failover, settings.failover_toleration_s) == ("not-ready", 7.0)
    assert settings.profile.keep_empty
    assert "ClusterLocality" not in settings.profile.plugins.names
    assert "WorkloadAffinity" in settings.profile.plugins.names
    files = {"ca_file": Path("ca"), "cert_file": Path("crt"), "key_file": Path("key")}
    assert settings.estimators == EstimatorSettings("n", "p", 99, 2.0, **files, verify=False)


def test_without_leader_election_there_is_no_lease(invoke):
    assert invoke("--no-leader-elect")[0][0].lease is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["--controllers=scheduler"], "'scheduler' is unknown; known are binding-scheduler, preemption, "
                     "workload-rebalancer", id="an unknown controller"),
        pytest.param(["--controllers=-binding-scheduler"], "enables no controller", id="no controller left"),
        pytest.param(["--controllers=preemption"], "preemption needs PolicyPreemption=true", id="a closed gate"),
        pytest.param(["--feature-gates=Preemption=true"], "unknown gate 'Preemption'; known are "
                     "MultiplePodTemplatesScheduling, PolicyPreemption, PriorityBasedScheduling, "
                     "SchedulingOvercommitProtection, WorkloadAffinity", id="an unknown gate"),
        pytest.param(["--shadow", "--controllers=*"], "only the shadow scheduler runs", id="controllers, in shadow"),
        pytest.param(["--shadow", "--moves-config=m.yaml"], "nothing moves", id="moves in shadow mode"),
        pytest.param(["--failover=always"], "'always' is not one of", id="an unknown failover"),
        pytest.param(["--plugins=Nothing"], "unknown plugin 'Nothing'", id="an unknown plugin"),
        pytest.param(["--concurrent-bindings=0"], "0 is not in the range", id="no workers"),
        pytest.param(["--enable-scheduler-estimator", "--scheduler-estimator-key-file=k"], "need each other",
                     id="a key without a certificate"),
    ],
)  # fmt: skip
def test_invalid_options_are_rejected(invoke, arguments, message):
    (options, _), result = invoke(*arguments)
    assert result.exit_code != 0
    assert message in " ".join(f"{result.output} {result.exception}".split())
    assert options is None


@cases(
    ("arguments", "message"),
    {
        "a short lease": (["--leader-elect-lease-s=10"], "must be longer than the renew deadline"),
        "no access": (["--kubeconfig=nowhere"], "specify a kubeconfig file"),
    },
)
def test_options_are_checked_before_anything_starts(arguments, message):
    result = CliRunner().invoke(main, ["controllers", "--controllers=binding-scheduler", *arguments])
    assert result.exit_code != 0
    assert message in str(result.exception)


def test_help_lists_controllers_and_gates():
    text = " ".join(CliRunner().invoke(main, ["controllers", "--help"]).output.split())
    assert "binding-scheduler" in text
    assert "PolicyPreemption (alpha, false by default)" in text
    assert "PriorityBasedScheduling (beta, true by default)" in text


def test_shadow_mode_runs_one_controller_without_lease_and_without_writes(invoke):
    (options, registrations), result = invoke("--shadow", "--scheduler-name=default-scheduler")
    assert result.exit_code == 0, result.output
    assert names(registrations) == ["shadow-scheduler"]
    assert (options.lease, options.read_only, options.settings.scheduler_name) == (None, True, "default-scheduler")
