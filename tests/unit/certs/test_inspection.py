"""The items of ``inspect``, and the metrics that are derived from them."""

import pytest
from certified import CONFIGURATIONS, DAY, OPTIONS, TARGETS, Installation, plugin
from faults import only, refuse

from certs.inspection import inspect
from certs.rotator import CertificateMetrics

HOOKS = CONFIGURATIONS[TARGETS[0]]


@pytest.fixture
def settled():
    installation = Installation()
    installation.reconcile()
    return installation


def items(installation):
    report = installation.replica().observe()
    return inspect(report.snapshot, installation.options, report.now)


def verdicts(installation):
    return {(each.kind, each.name): (str(each.verdict), each.reason) for each in items(installation)}


def test_a_new_installation_is_ok(settled):
    assert set(verdicts(settled).values()) == {("ok", "")}
    assert [each.kind for each in items(settled)] == ["authority", "leaf", "leaf", "bundle", "bundle", "bundle"]


def test_missing_secrets_are_bad():
    found = verdicts(Installation())
    assert found["authority", "Secret/ca"] == ("bad", "AuthorityMissing")
    assert found["leaf", "Secret/webhook-tls"] == ("bad", "LeafMissing")


def test_observing_writes_nothing(settled):
    before = len(settled.writes())
    settled.advance(5000 * DAY)
    items(settled)
    assert len(settled.writes()) == before


@pytest.mark.parametrize(
    ("time", "verdict", "reason"),
    [
        pytest.param(59 * DAY, "ok", "", id="before it is due"),
        pytest.param(61 * DAY, "due", "LeafDueForRenewal", id="due, not yet renewed"),
        pytest.param(76 * DAY, "bad", "LeafDueForRenewal", id="overdue"),
        pytest.param(91 * DAY, "bad", "LeafExpired", id="expired"),
    ],
)
def test_the_verdict_of_a_leaf_follows_its_age(settled, time, verdict, reason):
    settled.advance(time)
    assert verdicts(settled)["leaf", "Secret/webhook-tls"] == (verdict, reason)


def test_a_rotation_shows_successor_and_predecessor(settled):
    settled.reconcile(rotate_authority=True)
    found = verdicts(settled)
    assert found["successor", "Secret/ca"] == ("ok", "")
    assert found["authority", "Secret/ca"] == ("ok", "")
    settled.advance(OPTIONS.overlap)
    assert verdicts(settled)["authority", "Secret/ca"] == ("due", "SuccessorTakesOver")
    settled.reconcile()
    assert verdicts(settled)["predecessor", "Secret/ca"] == ("ok", "")


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        pytest.param(lambda each: each.cluster.remove(HOOKS), ("ok", ""), id="it does not exist"),
        pytest.param(
            lambda each: each.cluster.change(
                HOOKS, lambda content: content["webhooks"][0]["clientConfig"].pop("caBundle")
            ),
            ("bad", "BundleMissing"),
            id="it has no bundle",
        ),
        pytest.param(
            lambda each: setattr(
                each.cluster,
                "before",
                only(refuse(403, "Forbidden"), part=HOOKS),
            ),
            ("bad", "Unreadable"),
            id="it is unreadable",
        ),
    ],
)  # fmt: skip
def test_the_verdict_of_a_configuration_is_what_its_client_experiences(settled, spoil, expected):
    spoil(settled)
    assert verdicts(settled)["bundle", "MutatingWebhookConfiguration/hooks"] == expected


def test_a_plugin_without_tls_needs_no_bundle(settled):
    settled.cluster.put(CONFIGURATIONS[TARGETS[2]], plugin("http://extender"))
    assert verdicts(settled)["bundle", "SchedulerPluginWebhookConfiguration/plugin"] == ("ok", "")


def test_metrics_export_expiry_bundles_and_writes(settled):
    metrics = CertificateMetrics()
    metrics.show(items(settled))
    metrics.count("LeafMissing", "done")
    metrics.failed()
    metrics.succeeded(settled.clock.now())
    text = metrics.exposition()[1].decode()
    expiry = (settled.clock.now() + OPTIONS.leaf_lifetime).timestamp()
    samples = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    name = "berthmaster_certificate_expiry_timestamp_seconds"
    assert float(samples[f'{name}{{certificate="leaf/webhook-tls"}}']) == expiry
    assert f'{name}{{certificate="authority/ca"}}' in samples
    bundle = "berthmaster_certificate_bundle_authorities"
    assert samples[f'{bundle}{{configuration="MutatingWebhookConfiguration/hooks"}}'] == "1.0"
    assert samples['berthmaster_certificate_actions_total{outcome="done",reason="LeafMissing"}'] == "1.0"
    assert samples["berthmaster_certificate_problems"] == "0.0"
    assert samples["berthmaster_certificate_failures_total"] == "1.0"


def test_metrics_drop_removed_certificates(settled):
    metrics = CertificateMetrics()
    settled.reconcile(rotate_authority=True)
    metrics.show(items(settled))
    assert b'certificate="successor/ca"' in metrics.exposition()[1]
    settled.settle()
    metrics.show(items(settled))
    assert b'certificate="successor/ca"' not in metrics.exposition()[1]
