"""Lists the webhooks that an API server calls for policies."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from berthmaster.kube import requests
from berthmaster.model.errors import InputError
from berthmaster_cli.doctor.facts import WebhookFacts
from berthmaster_cli.doctor.gather.client import DoctorClient
from certs.bundle_fields import MUTATING, VALIDATING, ConfigurationKind, bundle_fields, bundles
from certs.ownership import owner_of

REVIEWED_GROUPS: Final = frozenset({"policy.karmada.io", "apps.karmada.io"})
"""The API groups that Berthmaster reviews. Webhooks for others are ignored."""
_DEFAULT_TIMEOUT_S: Final = 10.0  # the API server's


def read_webhooks(client: DoctorClient) -> list[WebhookFacts]:
    """List the webhooks of Berthmaster, and those of others for the same API groups."""
    found: list[WebhookFacts] = []
    for kind in (MUTATING, VALIDATING):
        for item in client.read(requests.APIRequest(kind.collection.path)).get("items") or []:
            for each in _webhooks(kind, item):
                groups = {name.partition(".")[2] for name in each.resources}
                found += [each] if each.ours or REVIEWED_GROUPS & groups else []
    return found


def _webhooks(kind: ConfigurationKind, item: Mapping[str, Any]) -> Iterator[WebhookFacts]:
    configuration = str((item.get("metadata") or {}).get("name"))
    try:
        called = list(zip(item.get("webhooks") or [], bundle_fields(kind, item), bundles(kind, item), strict=True))
    except InputError:
        return
    for webhook, field, bundle in called:
        timeout_s, rules = webhook.get("timeoutSeconds"), webhook.get("rules") or []
        yield WebhookFacts(
            kind=kind.kind,
            configuration=configuration,
            name=str(webhook.get("name")),
            url=field.url,
            is_service="service" in webhook["clientConfig"],
            bundle=bundle,
            resources=frozenset(
                f"{resource}.{group}"
                for rule in rules
                for group in rule.get("apiGroups") or []
                for resource in rule.get("resources") or []
            ),
            fails_closed=webhook.get("failurePolicy") != "Ignore",
            timeout_s=float(timeout_s) if isinstance(timeout_s, int) else _DEFAULT_TIMEOUT_S,
            narrowed=any(webhook.get(each) for each in ("namespaceSelector", "objectSelector", "matchConditions")),
            has_bundle=bool(webhook["clientConfig"].get("caBundle")),
            registered_by=owner_of(item),
        )
