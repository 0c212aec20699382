"""The options of the webhook (flags, environment, file, in this order), of the extender and of the console."""

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tables import cases

from berthmaster.model.errors import InputError
from berthmaster.model.kinds import Scope
from berthmaster_cli.extender import watched_kinds
from berthmaster_cli.main import main
from berthmaster_cli.webhook import command
from webhook import serving
from webhook.admission.settings import Level, WebhookMode

FILES = ["--cert-file", "c", "--key-file", "k"]


@pytest.fixture
def started(monkeypatch):
    """A function that runs the command without a server, and returns the server's options."""
    seen = []
    monkeypatch.setattr(serving, "serve", seen.append)
    monkeypatch.setattr("berthmaster.runtime.logs.configure", lambda _level: None)

    def start(*arguments, file=None, tmp_path=None, env=None):
        seen.clear()
        options = [*arguments]
        if file is not None:
            (tmp_path / "config.yaml").write_text(file)
            options += ["--config", str(tmp_path / "config.yaml")]
        result = CliRunner().invoke(command, options, env=env)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return seen[0] if seen else result

    return start


def test_defaults(started):
    options = started(*FILES)
    server = options.server
    assert (server.host, server.port, server.workers) == ("0.0.0.0", 8443, 2)  # noqa: S104 - not bound here
    assert server.tls.certificate == Path("c")
    assert options.settings.mode is WebhookMode.COMPANION
    assert server.request_timeout_s < 3, "karmada's webhook configuration waits 3 s"


def test_the_client_of_an_api_server_is_not_imported_without_events(started, monkeypatch):
    monkeypatch.setitem(sys.modules, "berthmaster.kube.http_client", None)  # an import fails
    assert started(*FILES).impact is None
    with pytest.raises(ImportError):
        started(*FILES, "--impact-url", "https://extender:9443", "--blast-radius-events")


def test_flags_override_the_environment_and_it_overrides_the_file(started, tmp_path):
    file = "workers: 3\nthreads: 3\nbind: 127.0.0.1:3\ncert-file: f\nkey-file: f\n"
    env = {"BERTHMASTER_WEBHOOK_THREADS": "4", "BERTHMASTER_WEBHOOK_BIND": "[::1]:4"}
    server = started("--bind", "127.0.0.1:5", file=file, env=env, tmp_path=tmp_path).server
    assert (server.workers, server.threads, server.port) == (3, 4, 5)
    server = started(file=file, env=env, tmp_path=tmp_path).server
    assert (server.host, server.port) == ("::1", 4)


def test_the_extender_is_asked_for_impacts(started, tmp_path):
    file = (
        "impact-url: https://extender:9443\nimpact-timeout-ms: 250\nimpact-ca-file: ca\nimpact-token-file: token\n"
        "rule:\n  blast-radius: deny\nblast-radius: moved=5,lost=0\nblast-radius-exempt-group: [oncall]\n"
    )
    options = started(*FILES, file=file, tmp_path=tmp_path)
    assert options.impact.access.files == [Path("ca"), Path("token")]
    assert options.impact.timeout_s == 0.25
    assert (str(options.settings.blast_radius), options.settings.exempt_groups) == ("moved=5,lost=0", {"oncall"})
    assert options.settings.levels == {"blast-radius": Level.DENY}


@cases(
    ("arguments", "error"),
    {
        "a gate alone": (["--rule", "blast-radius=deny"], "--rule blast-radius needs --impact-url"),
        "events alone": (["--blast-radius-events"], "--blast-radius-events needs --impact-url"),
        "no number": (["--blast-radius", "moved=x"], "moved='x' is not accepted"),
        "a key without certificate": (
            ["--impact-url", "https://e", "--impact-client-key-file", "k"],
            "need each other",
        ),
    },
)
def test_invalid_options_of_impacts(started, arguments, error):
    result = started(*FILES, *arguments)
    assert result.exit_code == 2
    assert error in result.output


def test_lists_and_mappings_are_read_from_the_file(started, tmp_path):
    file = (
        "mode: standalone\npeer-checks: yes\nrule:\n  selector-repeated: off\n  lazy-change: deny\n"
        "cluster-scoped-kind: [example.org/Gadget]\ndrop-handler: [system:serviceaccount:a:b]\n"
    )
    settings = started(*FILES, file=file, tmp_path=tmp_path).settings
    assert settings.standalone
    assert settings.peer_checks
    assert settings.levels == {"selector-repeated": Level.OFF, "lazy-change": Level.DENY}
    assert settings.scope("example.org/v1", "Gadget") is Scope.CLUSTER
    assert settings.drop_handlers == {"system:serviceaccount:a:b"}
    assert not settings.policy_preemption


def test_the_gate_of_preemption_is_that_of_the_controllers(started, tmp_path):
    settings = started(*FILES, "--feature-gates", "PolicyPreemption=true", tmp_path=tmp_path).settings
    assert settings.policy_preemption


@cases(
    ("file", "message"),
    {
        "a misspelt key": ("worker: 2", "did you mean workers?"),
        "an unknown key": ("nothing: 2", "accepted are"),
        "a list for a single value": ("workers: [2]", "not a single value"),
        "a single value for a list": ("drop-handler: a", "not a list"),
        "a list of options": ("- workers", "not a mapping"),
        "a duplicate key": ("workers: 2\nworkers: 3", "workers"),
    },
)
def test_an_invalid_file_is_rejected(started, tmp_path, file, message):
    with pytest.raises(InputError, match=message):
        started(*FILES, file=file, tmp_path=tmp_path)


@cases(
    ("arguments", "message"),
    {
        "a misspelt rule": (["--rule", "selector-repeted=warn"], "did you mean selector-repeated?"),
        "an unknown level": (["--rule", "selector-repeated=loud"], "deny, warn, off"),
        "an invalid address": (["--bind", "nowhere"], "HOST:PORT"),
        "IPv6 without brackets": (["--bind", "::1:8443"], "HOST:PORT"),
        "an invalid port": (["--bind", "a:99999"], "HOST:PORT"),
        "no workers": (["--workers", "0"], "workers"),
        "an old TLS": (["--tls-min-version", "1.0"], "1.2"),
        "a kind of two scopes": (["--namespaced-kind", "a/B", "--cluster-scoped-kind", "a/B"], "both"),
    },
)
def test_bad_usage_exits_with_2(started, arguments, message):
    result = started(*FILES, *arguments)
    assert result.exit_code == 2
    assert message in result.output


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
def test_invalid_options_of_the_extender_are_rejected(arguments, message):
    result = CliRunner().invoke(main, ["extender", *arguments])
    assert result.exit_code != 0
    assert message in f"{result.output}{result.exception}"


def test_kinds_to_watch_are_separated_by_commas():
    assert watched_kinds("bindings, workloads") == ("bindings", "workloads")


@cases(
    ("words", "streams"),
    {
        "the default": ((), 60),
        "fewer threads have fewer streams": (("--threads=64",), 28),
        "one stream is always possible": (("--threads=2",), 1),
        "a given number": (("--threads=64", "--max-streams=20"), 20),
        "a given number that does not fit is refused": (("--threads=64", "--max-streams=60"), None),
    },
)
def test_streams_fit_the_threads(monkeypatch, words, streams):
    served = []
    monkeypatch.setattr("console.serving.serve", served.append)
    result = CliRunner().invoke(main, ["console", "--extender-url=http://127.0.0.1:9443", *words])
    assert [each.app.streams for each in served] == ([] if streams is None else [streams])
    assert result.exit_code == (2 if streams is None else 0), result.output
