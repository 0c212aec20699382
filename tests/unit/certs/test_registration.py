"""Registration and removal: order, bundles and ownership."""

import json

import pytest
from certified import CONFIGURATIONS, TARGETS, Installation, a_cluster, plugin, webhooks
from faults import only, refuse

from berthmaster.manifests.document import Document
from berthmaster.model.errors import ApiError, InputError, ServiceError
from berthmaster.runtime.clock import SystemClock
from certs.bundle import Bundle
from certs.registration import REGISTERED_BY, Registrar, endpoints

HOOKS = CONFIGURATIONS[TARGETS[0]]
CONFIG = "/api/v1/namespaces/default/configmaps/settings"
NAMESPACE = "/api/v1/namespaces/made"
PROFILE = "/apis/core.kubeadmiral.io/v1alpha1/schedulingprofiles/profile"


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


def applied(cluster, bundle, owner="berthmaster"):
    return [
        (each.kind, each.outcome)
        for each in Registrar(cluster, SystemClock(), owner).apply(manifests(), lambda: bundle)
    ]


def removed(cluster, owner="berthmaster"):
    return [(each.kind, each.outcome) for each in Registrar(cluster, SystemClock(), owner).remove(manifests())]


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
    list(Registrar(cluster, SystemClock(), "berthmaster").apply(only, changing))
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


def test_an_unserved_kind_is_an_error(bundle):
    unserved = Document("file.yaml", 1, "", document("Strange", "x", "strange.io/v1"))
    with pytest.raises(ServiceError, match=r"document 1.*no strange.io/v1 Strange"):
        list(Registrar(a_cluster(), SystemClock(), "b").apply([unserved], lambda: bundle))
    assert [each.outcome for each in Registrar(a_cluster(), SystemClock(), "b").remove([unserved])] == ["gone already"]


def test_endless_conflicts_are_an_error(bundle):
    cluster = a_cluster()
    applied(cluster, bundle)
    cluster.before = only(refuse(409, "Conflict", message="again"), "PATCH")
    with pytest.raises(ApiError, match="again"):
        applied(cluster, bundle)


def test_the_endpoints_of_all_configurations():
    assert sorted({str(each) for each in endpoints(manifests())}) == [
        "https://extender.svc:9443/", "https://webhook.system.svc:443/a", "https://webhook.system.svc:443/b",
        "https://webhook.system.svc:443/c",
    ]  # fmt: skip


@pytest.mark.parametrize("url", ["http://plain/a", "nonsense", "https://host:port/", ""])
def test_an_invalid_url_is_rejected_before_any_write(url):
    content = webhooks("MutatingWebhookConfiguration", "a")
    content["webhooks"][0]["clientConfig"]["url"] = url
    with pytest.raises(InputError, match="document 3"):
        list(endpoints([Document("file.yaml", 3, "", content)]))
