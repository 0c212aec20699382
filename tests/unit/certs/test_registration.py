"""Registrations: what is injected, inspected and written."""

import base64
import copy
import json
from datetime import UTC, datetime, timedelta

import jsonpatch
import pytest
from certified import CONFIGURATIONS, DAY, KINDS, OPTIONS, TARGETS, Installation, a_cluster, plugin, webhooks
from faults import only, refuse
from tables import cases

from berthmaster.manifests.document import Document
from berthmaster.model.errors import ApiError, InputError, ServiceError
from berthmaster.runtime.clock import SystemClock
from certs.authority import new_authority
from certs.bundle import Bundle
from certs.bundle_fields import (
    MUTATING,
    VALIDATING,
    bundle_fields,
    bundles,
    encoded,
    injected,
    kind_of,
    patch,
)
from certs.kubeadmiral import SCHEDULER_PLUGIN
from certs.ownership import REGISTERED_BY, installation
from certs.registration import Registrar, endpoints
from certs.rotator import CertificateMetrics

HOOKS = CONFIGURATIONS[TARGETS[0]]
CONFIG = "/api/v1/namespaces/default/configmaps/settings"
NAMESPACE = "/api/v1/namespaces/made"


@pytest.fixture
def bundle():
    installation = Installation()
    installation.reconcile()
    return installation.bundle()


def document(kind, name, api_version="v1", **more):
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **more}


def manifests():
    """Return the documents of a rendered chart, webhooks first."""
    objects = [
        {**webhooks("MutatingWebhookConfiguration", "a", "b"), "kind": "MutatingWebhookConfiguration"},
        document("SchedulingProfile", "profile", "core.kubeadmiral.io/v1alpha1"),
        webhooks("ValidatingWebhookConfiguration", "c"),
        plugin(),
        document("ConfigMap", "settings", data={"a": "b"}),
        document("Namespace", "made"),
    ]
    return [Document("file.yaml", number, "", raw) for number, raw in enumerate(objects, 1)]


def registrar(cluster, owner):
    return Registrar(cluster, SystemClock(), owner, KINDS)


def applied(cluster, bundle, owner="berthmaster"):
    return [(each.kind, each.outcome) for each in registrar(cluster, owner).apply(manifests(), lambda: bundle)]


def removed(cluster, owner="berthmaster"):
    return [(each.kind, each.outcome) for each in registrar(cluster, owner).remove(manifests())]


def test_webhooks_are_applied_last_and_with_their_bundle(bundle):
    cluster = a_cluster()
    assert [kind for kind, _ in applied(cluster, bundle)] == [
        "Namespace", "ConfigMap", "SchedulerPluginWebhookConfiguration", "SchedulingProfile",
        "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
    ]  # fmt: skip
    hooks = [json.loads(each.body) for each in cluster.writes() if "webhookconfigurations" in each.path]
    assert all("caBundle" in entry["clientConfig"] for each in hooks for entry in each.get("webhooks", []))


def test_webhooks_are_removed_first_and_namespaces_are_kept(bundle):
    cluster = a_cluster()
    applied(cluster, bundle)
    outcomes = removed(cluster)
    assert [kind for kind, _ in outcomes[:2]] == ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"]
    assert dict(outcomes)["Namespace"] == "kept"
    assert list(cluster.objects) == [NAMESPACE]
    assert set(dict(removed(cluster)).values()) == {"gone already", "kept"}


def test_a_second_apply_keeps_the_bundle(bundle):
    cluster = a_cluster()
    applied(cluster, bundle)
    before = cluster.objects[HOOKS]["webhooks"]
    applied(cluster, bundle)
    assert cluster.objects[HOOKS]["webhooks"] == before
    assert len(Bundle.parse(bundle.pem)) == 1


def test_the_bundle_is_read_again_after_a_conflict(bundle):
    """Another client changes the object between the read and the write."""
    cluster = a_cluster()
    applied(cluster, bundle)
    asked = []

    def changing():
        if not asked:
            cluster.change(HOOKS, lambda content: content["metadata"].update(annotations={"by": "other"}))
        asked.append(1)
        return bundle

    only = [each for each in manifests() if each.kind == "MutatingWebhookConfiguration"]
    list(registrar(cluster, "berthmaster").apply(only, changing))
    assert len(asked) == 2


def test_without_a_bundle_no_webhook_is_stored():
    cluster = a_cluster()
    with pytest.raises(ServiceError, match="there is no bundle"):
        applied(cluster, Bundle())
    assert HOOKS not in cluster.objects


def test_objects_that_existed_before_stay_after_removal(bundle):
    cluster = a_cluster()
    cluster.put(CONFIG, document("ConfigMap", "settings"))
    cluster.put(HOOKS, webhooks("MutatingWebhookConfiguration", "a"))
    outcomes = dict(applied(cluster, bundle))
    assert outcomes["ConfigMap"] == "applied, and not ours to remove"
    assert outcomes["MutatingWebhookConfiguration"] == "applied"
    assert dict(removed(cluster))["ConfigMap"] == "not ours"
    assert CONFIG in cluster.objects
    assert HOOKS not in cluster.objects


def test_objects_of_another_installation_are_not_changed(bundle):
    cluster = a_cluster()
    applied(cluster, bundle, owner="other")
    with pytest.raises(InputError, match="was registered by other"):
        applied(cluster, bundle)
    assert set(dict(removed(cluster)).values()) == {"not ours"}
    assert cluster.objects[HOOKS]["metadata"]["labels"][REGISTERED_BY] == "other"


def test_objects_of_another_installation_are_refused_before_anything_is_written(bundle):
    cluster = a_cluster()
    applied(cluster, bundle, owner="other")
    registrar(cluster, "other").check(manifests())
    with pytest.raises(InputError, match="was registered by other"):
        registrar(cluster, "berthmaster").check(manifests())


@cases(
    ("namespace", "name", "expected"),
    {
        "both parts": ("system", "berthmaster", "system.berthmaster"),
        "cut at the length of a label value": ("n" * 60, "berthmaster", "n" * 60 + ".be"),
        "no dot at the end": ("n" * 62, "berthmaster", "n" * 62),
        "no dash at the end": ("n" * 60, "a-b", "n" * 60 + ".a"),
    },
)
def test_an_installation_is_named_by_namespace_and_name(namespace, name, expected):
    assert installation(namespace, name) == expected


def test_an_unserved_kind_is_an_error(bundle):
    unserved = Document("file.yaml", 1, "", document("Strange", "x", "strange.io/v1"))
    with pytest.raises(ServiceError, match=r"document 1.*no strange.io/v1 Strange"):
        list(registrar(a_cluster(), "b").apply([unserved], lambda: bundle))
    assert [each.outcome for each in registrar(a_cluster(), "b").remove([unserved])] == ["gone already"]


def test_endless_conflicts_are_an_error(bundle):
    cluster = a_cluster()
    applied(cluster, bundle)
    cluster.before = only(refuse(409, "Conflict", message="again"), "PATCH")
    with pytest.raises(ApiError, match="again"):
        applied(cluster, bundle)


def test_the_endpoints_of_all_configurations():
    assert sorted({str(each) for each in endpoints(manifests(), KINDS)}) == [
        "https://extender.svc:9443/", "https://webhook.system.svc:443/a", "https://webhook.system.svc:443/b",
        "https://webhook.system.svc:443/c",
    ]  # fmt: skip


@pytest.mark.parametrize("url", ["http://plain/a", "nonsense", "https://host:port/", ""])
def test_an_invalid_url_is_rejected_before_any_write(url):
    content = webhooks("MutatingWebhookConfiguration", "a")
    content["webhooks"][0]["clientConfig"]["url"] = url
    with pytest.raises(InputError, match="document 3"):
        list(endpoints([Document("file.yaml", 3, "", content)], KINDS))


NOW = datetime(2026, 1, 1, tzinfo=UTC)
FIRST, SECOND = (Bundle([new_authority(name, timedelta(days=9), NOW).certificate]) for name in "ab")


def stored(content, version="7"):
    return {**content, "metadata": {**content["metadata"], "resourceVersion": version}}


def service(**more):
    entry = {"name": "s", "clientConfig": {"service": {"name": "web", "namespace": "system", **more}}}
    return {**webhooks("MutatingWebhookConfiguration"), "webhooks": [entry]}


def with_tls(tls):
    content = plugin()
    return {**content, "spec": {**content["spec"], "tlsConfig": tls}}


CASES = [
    pytest.param(MUTATING, webhooks("MutatingWebhookConfiguration", "a", "b"), 2, id="two webhooks"),
    pytest.param(VALIDATING, webhooks("ValidatingWebhookConfiguration"), 0, id="no webhook"),
    pytest.param(MUTATING, service(), 1, id="a Service"),
    pytest.param(SCHEDULER_PLUGIN, plugin(), 1, id="a plugin without TLS settings"),
    pytest.param(SCHEDULER_PLUGIN, with_tls(None), 1, id="a plugin whose TLS settings are null"),
    pytest.param(
        SCHEDULER_PLUGIN, with_tls({"serverName": "x", "certData": "eA=="}), 1, id="a plugin with other TLS settings"
    ),
    pytest.param(SCHEDULER_PLUGIN, plugin("http://extender"), 0, id="a plugin that is called without TLS"),
]


@pytest.mark.parametrize(("kind", "content", "count"), CASES)
def test_the_patch_equals_the_injection_and_changes_nothing_else(kind, content, count):
    content, before = stored(content), copy.deepcopy(stored(content))
    operations = patch(kind, content, FIRST)
    patched = jsonpatch.apply_patch(content, operations)
    assert patched == injected(kind, content, FIRST)
    assert bundles(kind, patched) == [FIRST] * count
    assert content == before
    assert len(operations) == (count + 1 if count else 0)


@pytest.mark.parametrize(("kind", "content", "count"), CASES)
def test_another_bundle_is_replaced_and_nothing_else_changes(kind, content, count):
    other, wanted = stored(injected(kind, content, SECOND)), stored(injected(kind, content, FIRST))
    assert (other != wanted) is bool(count)
    assert jsonpatch.apply_patch(other, patch(kind, other, FIRST)) == wanted
    assert patch(kind, wanted, FIRST) == []


def test_a_patch_carries_the_version_that_was_read():
    guard = patch(MUTATING, stored(service(), "41"), FIRST)[0]
    assert guard == {"op": "replace", "path": "/metadata/resourceVersion", "value": "41"}


@cases(
    "text",
    {
        "with trailing text": base64.b64encode(FIRST.pem + b"\n# more").decode(),
        "in another base64 form": encoded(FIRST) + "\n",
        "garbage": "no base64 !",
    },
)
def test_an_edited_bundle_is_restored(text):
    content = stored(injected(MUTATING, service(), FIRST))
    content["webhooks"][0]["clientConfig"]["caBundle"] = text
    assert jsonpatch.apply_patch(content, patch(MUTATING, content, FIRST)) == stored(
        injected(MUTATING, service(), FIRST)
    )


@cases(
    ("content", "url"),
    {
        "a Service": (service(), "https://web.system.svc:443/"),
        "a Service with port and path": (service(port=8443, path="/mutate"), "https://web.system.svc:8443/mutate"),
        "a URL": (webhooks("MutatingWebhookConfiguration", "a"), "https://webhook.system.svc:443/a"),
    },
)
def test_a_bundle_field_has_the_url_of_its_server(content, url):
    assert [each.url for each in bundle_fields(MUTATING, content)] == [url]


@cases(
    "content",
    {
        "no clientConfig": {"webhooks": [{"name": "a"}]},
        "webhooks are a string": {"webhooks": "many"},
        "an entry is null": {"webhooks": [None]},
    },
)
def test_a_malformed_configuration_is_rejected(content):
    with pytest.raises(InputError, match="MutatingWebhookConfiguration x"):
        bundle_fields(MUTATING, {"metadata": {"name": "x"}, **content})


def test_kinds_are_distinguished_by_api_version():
    assert kind_of(plugin(), KINDS) == SCHEDULER_PLUGIN
    assert kind_of({**plugin(), "apiVersion": "other/v1"}, KINDS) is None


@pytest.fixture
def settled():
    installation = Installation()
    installation.reconcile()
    return installation


def items(installation):
    report = installation.replica().observe()
    return report.certificates.items()


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


@cases(
    ("time", "verdict", "reason"),
    {
        "before it is due": (59 * DAY, "ok", ""),
        "due, not yet renewed": (61 * DAY, "due", "LeafDueForRenewal"),
        "overdue": (76 * DAY, "bad", "LeafDueForRenewal"),
        "expired": (91 * DAY, "bad", "LeafExpired"),
    },
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


@cases(
    ("spoil", "expected"),
    {
        "it does not exist": (lambda each: each.cluster.remove(HOOKS), ("ok", "")),
        "it has no bundle": (lambda each: each.cluster.change(
                HOOKS, lambda content: content["webhooks"][0]["clientConfig"].pop("caBundle")
            ),
            ("bad", "BundleMissing")),
        "it is unreadable": (lambda each: setattr(
                each.cluster,
                "before",
                only(refuse(403, "Forbidden"), part=HOOKS),
            ),
            ("bad", "Unreadable")),
    },
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
