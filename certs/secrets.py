"""Read our Secrets, and prepare requests that create or change them.

A change is a merge patch guarded by the version that was read. Data that others keep in the same Secret is preserved.
"""

from collections.abc import Mapping
from datetime import UTC
from typing import Any, Final

import msgspec

from berthmaster.kube import requests
from berthmaster.kube.client import APIClient, ask_if_found
from berthmaster.kube.events import Reference
from berthmaster.kube.requests import APIRequest, Collection
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import ApiError, FieldError, InputError
from berthmaster.model.meta import Key, ObjectMeta, moment_of
from certs.authority import KeyPair
from certs.bundle import Bundle
from certs.certificate import is_authority, pair_of
from certs.leaf import CertificateFinding, Reason, StoredLeaf
from certs.rotation import AuthorityState, Observation

SECRETS: Final = Collection.of("v1", "secrets")
ROLE: Final = "certs.berthmaster.io/role"
"""The label that marks our Secrets. Its value says what the Secret is used for."""
AUTHORITY: Final = "authority"
SERVING: Final = "serving"
INTRODUCED: Final = "certs.berthmaster.io/introduced"
SUPERSEDED: Final = "certs.berthmaster.io/superseded"
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
BUNDLE: Final = "ca.crt"
NEXT_CERTIFICATE: Final = "next.crt"
NEXT_KEY: Final = "next.key"
_TYPES: Final = {AUTHORITY: "Opaque", SERVING: "kubernetes.io/tls"}
_LABELS: Final = {"app.kubernetes.io/managed-by": "berthmaster", "app.kubernetes.io/component": "certificates"}


class Secret(msgspec.Struct, frozen=True):
    """A Secret. ``repr`` does not show its data."""

    metadata: ObjectMeta
    data: dict[str, bytes] = {}

    def __repr__(self) -> str:
        return f"Secret({self.metadata.namespace}/{self.metadata.name})"

    def has_role(self, role: str) -> bool:
        return self.metadata.labels.get(ROLE) == role

    def get(self, name: str) -> bytes:
        return self.data.get(name, b"")

    @property
    def leaf(self) -> StoredLeaf:
        return StoredLeaf(self.get(CERTIFICATE), self.get(KEY))

    @property
    def bundle(self) -> Bundle:
        return Bundle.parse(self.get(BUNDLE))


def read_secret(client: APIClient, key: Key) -> Secret | None:
    content = ask_if_found(client, requests.get(SECRETS, key))
    try:
        return decode_json(Secret, content) if content is not None else None
    except FieldError as error:
        # The value itself may be a key: report only its path.
        raise ApiError(0, "", f"the Secret {key[0]}/{key[1]} is unreadable at {error.path or 'its root'}") from None


def delete_secret(client: APIClient, key: Key, role: str) -> bool:
    secret = read_secret(client, key)
    if secret is None or not secret.has_role(role):
        return False
    return ask_if_found(client, requests.delete(SECRETS, key, uid=secret.metadata.uid)) is not None


def authority_of(secret: Secret | None) -> AuthorityState:
    """Return the authority of a Secret, or why it has no issuer. Raises ``InputError`` if it is foreign."""
    if secret is None:
        finding = CertificateFinding(Reason.AUTHORITY_MISSING, "there is no Secret with an authority")
        return AuthorityState(problem=finding)
    issuer = _authority_pair(secret, CERTIFICATE, KEY)
    if issuer is None and not secret.has_role(AUTHORITY) and any(secret.data.values()):
        raise _foreign(secret, "holds data that is not an authority")
    annotations = secret.metadata.annotations
    problem = CertificateFinding(Reason.AUTHORITY_UNREADABLE, "the stored data is not an authority with its key")
    if not secret.data:
        problem = CertificateFinding(Reason.AUTHORITY_MISSING, "the Secret has no authority yet")
    return AuthorityState(
        issuer=issuer,
        successor=_authority_pair(secret, NEXT_CERTIFICATE, NEXT_KEY),
        bundle=secret.bundle,
        introduced=_observation(annotations.get(INTRODUCED, "")),
        superseded=_observation(annotations.get(SUPERSEDED, "")),
        problem=None if issuer is not None else problem,
    )


def check_adoptable(secret: Secret, authority: AuthorityState) -> None:
    """Raise ``InputError`` if a Secret holds a foreign certificate, which must not be overwritten."""
    leaf = secret.leaf
    if secret.has_role(SERVING) or not (leaf.certificate_pem or leaf.key_pem):
        return
    certificate = leaf.certificate
    if certificate is None or authority.bundle.issuer_of(certificate) is None:
        raise _foreign(secret, "holds a foreign certificate; use --authority provided to keep it")


def authority_request(key: Key, stored: Secret | None, state: AuthorityState) -> APIRequest:
    data: dict[str, bytes | None] = {
        CERTIFICATE: state.issuer.certificate_pem if state.issuer else b"",  # some types of Secret need the field
        KEY: state.issuer.key_pem if state.issuer else b"",
        NEXT_CERTIFICATE: state.successor.certificate_pem if state.successor else None,
        NEXT_KEY: state.successor.key_pem if state.successor else None,
        BUNDLE: state.bundle.pem,
    }
    annotations = {INTRODUCED: _annotation(state.introduced), SUPERSEDED: _annotation(state.superseded)}
    return _request(key, stored, AUTHORITY, data, annotations)


def serving_request(key: Key, stored: Secret | None, leaf: StoredLeaf | None, bundle: Bundle) -> APIRequest:
    """Return the request that stores a leaf and its bundle. Without a leaf it stores the bundle only."""
    data: dict[str, bytes | None] = {BUNDLE: bundle.pem}
    if leaf is not None:
        data |= {CERTIFICATE: leaf.certificate_pem, KEY: leaf.key_pem}
    return _request(key, stored, SERVING, data, {})


def secret_reference(key: Key, stored: Secret | None) -> Reference:
    return Reference("v1", "Secret", key[0], key[1], stored.metadata.uid if stored else "")


def _request(
    key: Key,
    stored: Secret | None,
    role: str,
    data: Mapping[str, bytes | None],
    annotations: Mapping[str, str | None],
) -> APIRequest:
    if stored is not None:
        version = stored.metadata.resource_version
        metadata: dict[str, Any] = {"resourceVersion": version, "labels": {ROLE: role}, "annotations": annotations}
        return requests.merge_patch(SECRETS, key, {"metadata": metadata, "data": data})
    labels = {**_LABELS, ROLE: role}
    metadata = {"name": key[1], "namespace": key[0], "labels": labels, "annotations": _present(annotations)}
    content = {"apiVersion": "v1", "kind": "Secret", "type": _TYPES[role], "metadata": metadata, "data": _present(data)}
    return requests.create(SECRETS, key[0], content)


def _present(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _authority_pair(secret: Secret, certificate: str, key: str) -> KeyPair | None:
    pair = pair_of(secret.get(certificate), secret.get(key))
    return pair if pair is not None and is_authority(pair.certificate) else None


def _observation(text: str) -> Observation | None:
    """Read an annotation. Any client may have written it, so a malformed one is ignored."""
    fingerprint, _, moment = text.partition(" ")
    at = moment_of(moment)
    return None if at is None else Observation(fingerprint, at)


def _annotation(observed: Observation | None) -> str | None:
    if observed is None:
        return None
    return f"{observed.fingerprint} {observed.at.astimezone(UTC).isoformat(timespec='milliseconds')}"


def _foreign(secret: Secret, what: str) -> InputError:
    name = f"{secret.metadata.namespace}/{secret.metadata.name}"
    return InputError(f"the Secret {name} {what}. Use another name, or delete the Secret if it is unused")
