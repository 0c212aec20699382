"""Bundle fields of configurations: finding, injecting and patching."""

import base64
import copy
from datetime import UTC, datetime, timedelta

import jsonpatch
import pytest
from certified import plugin, webhooks

from berthmaster.model.errors import InputError
from certs.authority import new_authority
from certs.bundle import Bundle
from certs.injection import (
    MUTATING,
    SCHEDULER_PLUGIN,
    VALIDATING,
    bundle_fields,
    bundles,
    encoded,
    injected,
    kind_of,
    patch,
)

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


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(base64.b64encode(FIRST.pem + b"\n# more").decode(), id="with trailing text"),
        pytest.param(encoded(FIRST) + "\n", id="in another base64 form"),
        pytest.param("no base64 !", id="garbage"),
    ],
)
def test_an_edited_bundle_is_restored(text):
    content = stored(injected(MUTATING, service(), FIRST))
    content["webhooks"][0]["clientConfig"]["caBundle"] = text
    assert jsonpatch.apply_patch(content, patch(MUTATING, content, FIRST)) == stored(
        injected(MUTATING, service(), FIRST)
    )


@pytest.mark.parametrize(
    ("content", "url"),
    [
        pytest.param(service(), "https://web.system.svc:443/", id="a Service"),
        pytest.param(
            service(port=8443, path="/mutate"), "https://web.system.svc:8443/mutate", id="a Service with port and path"
        ),
        pytest.param(webhooks("MutatingWebhookConfiguration", "a"), "https://webhook.system.svc:443/a", id="a URL"),
    ],
)
def test_a_bundle_field_has_the_url_of_its_server(content, url):
    assert [each.url for each in bundle_fields(MUTATING, content)] == [url]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param({"webhooks": [{"name": "a"}]}, id="no clientConfig"),
        pytest.param({"webhooks": "many"}, id="webhooks are a string"),
        pytest.param({"webhooks": [None]}, id="an entry is null"),
    ],
)
def test_a_malformed_configuration_is_rejected(content):
    with pytest.raises(InputError, match="MutatingWebhookConfiguration x"):
        bundle_fields(MUTATING, {"metadata": {"name": "x"}, **content})


def test_kinds_are_distinguished_by_api_version():
    assert kind_of(plugin()) == SCHEDULER_PLUGIN
    assert kind_of({**plugin(), "apiVersion": "other/v1"}) is None
