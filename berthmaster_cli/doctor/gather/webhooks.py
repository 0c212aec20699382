"""The webhooks that an API server calls about policies, and what a caller gets to see of them."""

import base64
import binascii
import re
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any, Final

from berthmaster.kube.client import ask, read_body
from berthmaster.kube.requests import APIRequest, Collection, create
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import ApiError, InputError
from berthmaster_cli.doctor.facts import Hook, Served, Trial
from berthmaster_cli.doctor.gather.asker import Asker, on_trial, read_as
from certs.bundle import EMPTY, Bundle, certificate_of
from certs.injection import MUTATING, VALIDATING, ConfigurationKind, bundle_fields
from certs.registration import Endpoint

REVIEWED_GROUPS: Final = frozenset({"policy.karmada.io", "apps.karmada.io"})
"""Webhooks about anything else are nobody's business here."""
_DEFAULT_TIMEOUT_S: Final = 10.0  # the API server's, where a webhook does not say
TRIES: Final = 5
_API: Final = "policy.karmada.io/v1alpha1"
_POLICIES: Final = Collection.of(_API, "propagationpolicies")
_CLUSTER_POLICIES: Final = Collection.of(_API, "clusterpropagationpolicies")
_METADATA: Final = {"generateName": "berthmaster-doctor-"}
_SELECTOR: Final = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "berthmaster-doctor"}
# What the schema has no default for, and every webhook for policies has: spreadByField and minGroups.
GOOD: Final[dict[str, Any]] = {
    "apiVersion": _API,
    "kind": "PropagationPolicy",
    "metadata": _METADATA,
    "spec": {"resourceSelectors": [_SELECTOR], "placement": {"spreadConstraints": [{"maxGroups": 2}]}},
}
# Acceptable to karmada-webhook; against our rule preemption-without-namespace.
BAD: Final[dict[str, Any]] = {
    "apiVersion": _API,
    "kind": "ClusterPropagationPolicy",
    "metadata": _METADATA,
    "spec": {"resourceSelectors": [_SELECTOR], "preemption": "Always", "priority": 1},
}
_WARNING: Final = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')  # RFC 7234, section 5.5


def hooks(asker: Asker) -> list[Hook]:
    """All webhooks about what Berthmaster reviews, whoever's they are, and all of ours.

    Raises:
        ApiError: they are not told.
    """
    found: list[Hook] = []
    for kind in (MUTATING, VALIDATING):
        for item in asker.read(APIRequest(kind.collection.path)).get("items") or []:
            found += [each for each in _hooks(kind, item) if each.ours or _reviews(each)]
    return found


def served(endpoint: Endpoint, bundle: Bundle, limit_s: float) -> Served:
    """What a client of an endpoint sees: first whatever there is, then as somebody who trusts the bundle only."""
    seen = _unchecked(endpoint, limit_s)
    if seen.contact != "served" or not len(bundle):
        return seen
    context = ssl.create_default_context(cadata=bundle.pem.decode())
    # Python is stricter than the API server here: it wants extensions in an authority that Go does not ask for.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    try:
        with closing(_session(endpoint, context, limit_s)):
            return seen
    except ssl.SSLCertVerificationError as error:
        return Served(
            seen.host, seen.port, "served", "", seen.leaf, error.verify_message or str(error), error.verify_code
        )
    except OSError as error:
        return Served(seen.host, seen.port, "refused", str(error), seen.leaf)


def _unchecked(endpoint: Endpoint, limit_s: float) -> Served:
    host, port = endpoint.host, endpoint.port
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # what is shown is looked at; nothing is sent
    try:
        with closing(_session(endpoint, context, limit_s)) as session:
            leaf = certificate_of(ssl.DER_cert_to_PEM_cert(session.getpeercert(binary_form=True) or b"").encode())
            return Served(host, port, "served", "", leaf)
    except socket.gaierror as error:
        return Served(host, port, "unresolved", error.strerror or str(error))
    except ssl.SSLError as error:
        return Served(host, port, "refused", error.reason or str(error))
    except OSError as error:
        return Served(host, port, "unreachable", error.strerror or str(error) or type(error).__name__)


def _session(endpoint: Endpoint, context: ssl.SSLContext, limit_s: float) -> ssl.SSLSocket:
    plain = socket.create_connection((endpoint.host, endpoint.port), timeout=limit_s)
    try:
        return context.wrap_socket(plain, server_hostname=endpoint.host)
    except OSError:
        plain.close()
        raise


def _reviews(hook: Hook) -> bool:
    return any(each.partition(".")[2] in REVIEWED_GROUPS for each in hook.resources)


def _hooks(kind: ConfigurationKind, item: Mapping[str, Any]) -> Iterator[Hook]:
    webhooks = item.get("webhooks") or []
    configuration = str((item.get("metadata") or {}).get("name"))
    try:
        urls = [place.url for place in bundle_fields(kind, item)]
    except InputError:
        return
    for webhook, url in zip(webhooks, urls, strict=True):
        text = str(webhook["clientConfig"].get("caBundle") or "")
        timeout_s = webhook.get("timeoutSeconds")
        yield Hook(
            kind=kind.kind,
            configuration=configuration,
            name=str(webhook.get("name")),
            url=url,
            is_service="service" in webhook["clientConfig"],
            bundle=_bundle(text),
            resources=_resources(webhook),
            fails_closed=webhook.get("failurePolicy") != "Ignore",
            timeout_s=float(timeout_s) if isinstance(timeout_s, int) else _DEFAULT_TIMEOUT_S,
            narrowed=any(webhook.get(each) for each in ("namespaceSelector", "objectSelector", "matchConditions")),
            has_bundle=bool(text),
        )


def _resources(webhook: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(
        f"{resource}.{group}"
        for rule in webhook.get("rules") or []
        for group in rule.get("apiGroups") or []
        for resource in rule.get("resources") or []
    )


def _bundle(text: str) -> Bundle:
    try:
        return Bundle.parse(base64.b64decode(text))
    except (binascii.Error, ValueError):
        return EMPTY


def trial(asker: Asker, namespace: str, monotonic_s: Callable[[], float]) -> Trial:
    """Try a good policy several times, and a bad one once."""
    request = on_trial(create(_POLICIES, namespace, GOOD))._replace(silence_s=asker.silence_s)
    took_s = []
    for _ in range(TRIES):
        started_s = monotonic_s()
        try:
            body = ask(asker.client, request)
        except ApiError as error:
            return Trial(None, str(error), error.status, (monotonic_s() - started_s,), bad_tried=False)
        took_s.append(monotonic_s() - started_s)
    problem, warnings = _bad(asker)
    return Trial(
        stored=decode_json(dict[str, Any], body),
        took_s=tuple(took_s),
        bad_problem=problem,
        bad_warnings=warnings,
    )


def _bad(asker: Asker) -> tuple[str, tuple[str, ...]]:
    request: APIRequest = on_trial(create(_CLUSTER_POLICIES, "", BAD))
    try:
        with asker.send(request) as answer:
            lines = answer.header("Warning")
            read_as(dict[str, Any], read_body(answer))
    except ApiError as error:
        return str(error), ()
    return "", tuple(found for line in lines for found in _WARNING.findall(line))
