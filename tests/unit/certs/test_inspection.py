"""What ``inspect`` and metrics tell of how everything is."""

import pytest
from certified import CONFIGURATIONS, DAY, OPTIONS, TARGETS, Installation, plugin
from faults import only, refuse

from certs.inspection import inspect
from certs.rotator import CertificateMetrics

HOOKS = CONFIGURATIONS[TARGETS[0]]


@pytest.fixture
def settled():
    installation = Installation()
    installation.keep()
    return installation


def items(installation):
    report = installation.replica().observe()
    return inspect(report.snapshot, installation.options, report.now)


def told(installation):
    return {(each.kind, each.name): (str(each.verdict), each.reason) for each in items(installation)}


def test_all_is_well_with_what_was_just_made(settled):
    assert set(told(settled).values()) == {("ok", "")}
    assert [each.kind for each in items(settled)] == ["authority", "leaf", "leaf", "bundle", "bundle", "bundle"]


def test_nothing_is_there():
    found = told(Installation())
    assert found["authority", "Secret/ca"] == ("bad", "AuthorityMissing")
    assert found["leaf", "Secret/webhook-tls"] == ("bad", "LeafMissing")


def test_looking_changes_nothing(settled):
    before = len(settled.writes())
    settled.turn(5000 * DAY)
    items(settled)
    assert len(settled.writes()) == before


@pytest.mark.parametrize(
    ("time", "verdict", "reason"),
    [
        pytest.param(59 * DAY, "ok", "", id="before it is due"),
        pytest.param(61 * DAY, "due", "LeafDueForRenewal", id="due, and nobody has looked yet"),
        pytest.param(76 * DAY, "bad", "LeafDueForRenewal", id="due long ago: nobody renews"),
        pytest.param(91 * DAY, "bad", "LeafExpired", id="expired"),
    ],
)
def test_a_leaf_ages(settled, time, verdict, reason):
    settled.turn(time)
    assert told(settled)["leaf", "Secret/webhook-tls"] == (verdict, reason)


def test_a_rotation_is_seen(settled):
    settled.keep(rotate_authority=True)
    found = told(settled)
    assert found["successor", "Secret/ca"] == ("ok", "")
    assert found["authority", "Secret/ca"] == ("ok", "")
    settled.turn(OPTIONS.overlap)
    assert told(settled)["authority", "Secret/ca"] == ("due", "SuccessorTakesOver")
    settled.keep()
    assert told(settled)["predecessor", "Secret/ca"] == ("ok", "")


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        pytest.param(lambda each: each.cluster.remove(HOOKS), ("ok", ""), id="it is not there"),
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
            id="it cannot be read",
        ),
    ],
)  # fmt: skip
def test_a_configuration_is_judged_by_what_its_client_meets(settled, spoil, expected):
    spoil(settled)
    assert told(settled)["bundle", "MutatingWebhookConfiguration/hooks"] == expected


def test_a_plugin_without_tls_needs_no_bundle(settled):
    settled.cluster.put(CONFIGURATIONS[TARGETS[2]], plugin("http://extender"))
    assert told(settled)["bundle", "SchedulerPluginWebhookConfiguration/plugin"] == ("ok", "")


def test_metrics_tell_expiry_bundles_and_what_was_done(settled):
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


def test_metrics_forget_what_is_gone(settled):
    metrics = CertificateMetrics()
    settled.keep(rotate_authority=True)
    metrics.show(items(settled))
    assert b'certificate="successor/ca"' in metrics.exposition()[1]
    settled.settle()
    metrics.show(items(settled))
    assert b'certificate="successor/ca"' not in metrics.exposition()[1]
