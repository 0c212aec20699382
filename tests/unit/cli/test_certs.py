"""``berthmaster certs`` and ``register``, from their options to their output, with a cluster in memory."""

import json
from pathlib import Path

import pytest
import yaml
from certified import AUTHORITY, CONFIGURATIONS, LEAVES, TARGETS, Installation, plugin, webhooks
from click.testing import CliRunner
from tables import cases

from berthmaster.kube.kubeconfig import ClusterAccess
from berthmaster.model.errors import InputError, ServiceError
from berthmaster_cli import register
from berthmaster_cli.certs import command as certs
from berthmaster_cli.register import command as registering
from certs.ownership import REGISTERED_BY

FLAGS = (
    "--namespace=system", "--authority-secret=ca", "--serving=webhook-tls=webhook.system.svc,10.0.0.1",
    "--serving=extender-tls=extender.svc", "--mutating=hooks", "--validating=hooks", "--scheduler-plugin=plugin",
)  # fmt: skip
HOOKS = CONFIGURATIONS[TARGETS[0]]
CONNECT = "berthmaster.kube.http_client.connect"


@pytest.fixture
def installation(monkeypatch):
    made = Installation()

    def found(file=None, context=None):
        return ClusterAccess((file or Path("default"),), context or "", "")

    monkeypatch.setattr("berthmaster.kube.kubeconfig.find_access", found)
    monkeypatch.setattr(CONNECT, lambda _: made.cluster)
    monkeypatch.setattr("berthmaster_cli.certs.SystemClock", lambda: made.clock)
    monkeypatch.setattr("berthmaster.kube.events._POLL_S", 0.01)
    return made


def run(command, *words, code=0, **environment):
    result = CliRunner().invoke(command, words, env=environment, catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.stderr if code == 2 else result.stdout


def regarded(cluster):
    return {each["regarding"]["kind"] for path, each in cluster.objects.items() if "/events" in path}


class TestCerts:
    def test_bootstrap_prints_what_it_did_and_why(self, installation):
        lines = run(certs, "bootstrap", *FLAGS).splitlines()
        assert lines[0] == "Secret/ca: AuthorityMissing: there is no Secret with an authority"
        assert any(line.startswith("Secret/webhook-tls: LeafMissing") for line in lines)
        assert run(certs, "bootstrap", *FLAGS) == "nothing to do\n"
        assert len(installation.injected()) == 1

    def test_rotate_replaces_leaves_and_with_ca_starts_with_the_authority(self, installation):
        run(certs, "bootstrap", *FLAGS)
        before = installation.leaf()
        assert run(certs, "rotate", *FLAGS).count("RenewalRequested") == 2
        assert installation.leaf() != before
        assert "RotationRequested" in run(certs, "rotate", "--ca", *FLAGS)
        assert len(installation.bundle()) == 2

    def test_inspect_prints_a_table(self, installation):
        run(certs, "bootstrap", *FLAGS)
        lines = run(certs, "inspect", *FLAGS).splitlines()
        assert lines[0].split()[:5] == ["KIND", "NAME", "STATE", "EXPIRES", "IN"]
        assert lines[1].split()[:5] == ["authority", "Secret/ca", "ok", "2028-12-31T00:00:00Z", "1095d"]
        assert installation.writes()

    @pytest.mark.parametrize(("output", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
    def test_inspect_prints_data_and_exits_with_1_if_an_item_is_bad(self, installation, output, read):
        data = read(run(certs, "inspect", "-o", output, *FLAGS, code=1))
        assert data["items"][0] == {
            "kind": "authority", "name": "Secret/ca", "verdict": "bad", "reason": "AuthorityMissing",
            "message": "there is no Secret with an authority",
        }  # fmt: skip
        assert AUTHORITY not in installation.cluster.objects

    def test_options_are_read_from_the_environment(self, installation):
        environment = {
            "BERTHMASTER_CERTS_NAMESPACE": "system", "BERTHMASTER_CERTS_AUTHORITY_SECRET": "ca",
            "BERTHMASTER_CERTS_SERVING": "webhook-tls=a.svc extender-tls=b.svc",
        }  # fmt: skip
        run(certs, "bootstrap", **environment)
        assert set(LEAVES.values()) < set(installation.cluster.objects)

    def test_secrets_are_on_the_host_and_configurations_on_the_target(self, installation, monkeypatch):
        target = Installation()
        files = {"host": installation.cluster, "target": target.cluster}
        sent_as = []

        def connected(access):
            sent_as.append(access.manner.user)
            return files[str(access.files[0])]

        monkeypatch.setattr(CONNECT, connected)
        run(certs, "bootstrap", "--kubeconfig=host", "--target-kubeconfig=target", "--as=jane", *FLAGS)
        assert sent_as == ["jane", "jane"]
        assert target.injected() == {installation.bundle().pem}
        assert AUTHORITY not in target.cluster.objects
        assert installation.injected() == {b""}
        assert {"Secret"} == regarded(installation.cluster)
        assert {target.kind.kind for target in TARGETS} == regarded(target.cluster)

    def test_a_failed_step_is_an_error(self, installation):
        installation.cluster.put(HOOKS, {"metadata": {"name": "hooks"}, "webhooks": "nonsense"})
        with pytest.raises(ServiceError, match="do not have the structure of this kind"):
            run(certs, "bootstrap", *FLAGS)

    @cases(
        ("flags", "problem"),
        {
            "a Secret without names": (["--serving=a"], "names are missing"),
            "names of all kinds": (["--serving=a=b.svc,10.0.0.1,::1,*.c"], ""),
            "an invalid Secret name": (["--serving=A=b"], "is not the name of a Secret"),
            "an invalid DNS name": (["--serving=a=UPPER.svc"], "neither a lower-case DNS name"),
            "an empty name": (["--serving=a=b.svc,,c"], "neither a lower-case DNS name"),
            "too many names": (["--serving=a=" + ",".join(["a"] * 101)], "at most 100"),
            "the Secret of the authority": (["--serving=ca=b"], "must name different Secrets"),
            "a duplicate Secret": (["--serving=a=b", "--serving=a=c"], "must name different Secrets"),
            "a negative overlap": (["--serving=a=b", "--overlap-s=-1"], "not in the range"),
        },
    )
    @pytest.mark.usefixtures("installation")
    def test_options_are_checked(self, flags, problem):
        output = run(certs, "bootstrap", *FLAGS[:2], *flags, code=2 if problem else 0)
        assert problem in output

    @cases(
        ("flags", "problem"),
        {
            "a short leaf lifetime": (["--leaf-lifetime-days=0.01"], "3 times the overlap"),
            "a short authority lifetime": (["--authority-lifetime-days=100"], "at least twice"),
        },
    )
    @pytest.mark.usefixtures("installation")
    def test_lifetimes_must_be_longer_than_the_overlap(self, flags, problem):
        with pytest.raises(InputError, match=problem):
            run(certs, "bootstrap", *FLAGS, *flags)

    @pytest.mark.usefixtures("installation")
    def test_provided_certificates_cannot_be_rotated(self):
        assert "with --authority provided, the component that provides the certificates" in run(
            certs, "rotate", "--authority=provided", *FLAGS, code=2
        )


class TestRegister:
    @pytest.fixture
    def file(self, tmp_path):
        path = tmp_path / "webhooks.yaml"
        kinds = {"a": "MutatingWebhookConfiguration", "b": "ValidatingWebhookConfiguration"}
        path.write_text(yaml.safe_dump_all([*(webhooks(kind, name) for name, kind in kinds.items()), plugin()]))
        return f"--filename={path}"

    def test_webhooks_are_registered_when_they_respond_and_removed_completely(self, installation, file, monkeypatch):
        for path in CONFIGURATIONS.values():
            installation.cluster.remove(path)
        asked = []
        monkeypatch.setattr(
            register, "wait_until_reachable", lambda places, bundle, *_: asked.append((list(places), bundle()))
        )
        assert run(registering, "apply", file, *FLAGS).count("applied") == 3
        assert [str(each) for each in asked[0][0]][:1] == ["https://webhook.system.svc:443/a"]
        assert asked[0][1] == installation.bundle()
        assert installation.injected() == {installation.bundle().pem}
        output = run(registering, "remove", "--certificates", file, *FLAGS)
        assert output.count("removed") == 6
        assert [path for path in installation.cluster.objects if "/events" not in path] == []
        assert "gone already" in run(registering, "remove", "--certificates", file, *FLAGS)

    def test_webhooks_of_another_installation_are_refused_at_once(self, installation, file):
        hooks = CONFIGURATIONS[TARGETS[0]]
        installation.cluster.change(hooks, lambda each: each["metadata"].update(labels={REGISTERED_BY: "other"}))
        with pytest.raises(InputError, match="was registered by other, not berthmaster"):
            run(registering, "apply", file, *FLAGS)
        assert not installation.writes()

    def test_a_webhook_that_does_not_respond_is_not_registered(self, installation, file, monkeypatch):
        for path in CONFIGURATIONS.values():
            installation.cluster.remove(path)
        monkeypatch.setattr("certs.registration.problem_of", lambda *_: "connection refused")
        with pytest.raises(ServiceError, match="has not answered within 0 s: connection refused"):
            run(registering, "apply", "--timeout-s=0", file, *FLAGS)
        assert not set(CONFIGURATIONS.values()) & set(installation.cluster.objects)

    def test_provided_certificates_are_waited_for(self, installation, file):
        with pytest.raises(ServiceError, match="ProvidedBundleMissing: the Secret webhook-tls does not exist"):
            run(registering, "apply", "--timeout-s=0", "--authority=provided", file, *FLAGS)
        assert not installation.writes()

    @pytest.mark.usefixtures("installation")
    def test_the_owner_must_be_a_label_value(self, file):
        assert "is not a label value" in run(registering, "remove", "--registered-by=a/b", file, *FLAGS, code=2)


LEASE = "/apis/coordination.k8s.io/v1/namespaces/karmada-system/leases/berthmaster-controllers"


def test_remove_deletes_a_lease_without_holder(installation):
    metadata = {"name": "berthmaster-controllers", "uid": "1"}
    installation.cluster.put(LEASE, {"kind": "Lease", "metadata": metadata, "spec": {"holderIdentity": ""}})
    words = ("remove", "-f", "-", "--lease=karmada-system/berthmaster-controllers", *FLAGS)
    assert "Lease/berthmaster-controllers: removed" in run(registering, *words)
    assert LEASE not in installation.cluster.objects
    assert "Lease/berthmaster-controllers: gone already" in run(registering, *words)


@pytest.mark.parametrize("lease", ["berthmaster-controllers", "a/b/c", "karmada-system/", "../leases"])
def test_a_lease_needs_namespace_and_name(lease):
    assert "is not a Lease" in run(registering, "remove", "-f", "-", f"--lease={lease}", *FLAGS, code=2)
