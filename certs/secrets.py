"""Secrets as they are stored, and what of them is ours: reading, and requests that create or change them.

Changes are merge patches guarded by the version that was read; what others keep in the same Secret stays.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from berthmaster.kube import requests
from berthmaster.kube.client import APIClient, ask
from berthmaster.kube.events import Reference
from berthmaster.kube.requests import APIRequest, Collection, Key
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import ApiError, FieldError, InputError
from certs.authority import KeyPair
from certs.bundle import Bundle
from certs.leaf import StoredLeaf
from certs.reading import is_authority, pair_of
from certs.reasons import Finding, Reason
from certs.rotation import AuthorityState, Mark

SECRETS: Final = Collection.of("v1", "secrets")
ROLE: Final = "certs.berthmaster.io/role"
"""The label of what is ours; its value says for what it is used."""
AUTHORITY: Final = "authority"
SERVING: Final = "serving"
INTRODUCED: Final = "certs.berthmaster.io/introduced"
SUPERSEDED: Final = "certs.berthmaster.io/superseded"

CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
BUNDLE: Final = "ca.crt"
NEXT_CERTIFICATE: Final = "next.crt"
NEXT_KEY: Final = "next.key"
_TLS: Final = "kubernetes.io/tls"
_TYPES: Final = {AUTHORITY: "Opaque", SERVING: _TLS}
_LABELS: Final = {"app.kubernetes.io/managed-by": "berthmaster", "app.kubernetes.io/component": "certificates"}


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str
    resource_version: str
    uid: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class Secret(msgspec.Struct, frozen=True):
    """A Secret; ``repr`` does not show what is in it."""

    metadata: _Metadata
    data: dict[str, bytes] = {}

    def __repr__(self) -> str:
        return f"Secret({self.metadata.namespace}/{self.metadata.name})"

    def ours(self, role: str) -> bool:
        """Whether it was made, or taken over, for a role."""
        return self.metadata.labels.get(ROLE) == role

    def get(self, name: str) -> bytes:
        """What stands under a name; nothing where there is nothing."""
        return self.data.get(name, b"")

    @property
    def leaf(self) -> StoredLeaf:
        """The pair of a serving Secret."""
        return StoredLeaf(self.get(CERTIFICATE), self.get(KEY))

    @property
    def bundle(self) -> Bundle:
        """Whom to trust, in both kinds of Secret."""
        return Bundle.parse(self.get(BUNDLE))


def read_secret(client: APIClient, key: Key) -> Secret | None:
    """A Secret; None if there is none.

    Raises:
        ApiError: it cannot be read.
    """
    try:
        return decode_json(Secret, ask(client, requests.get(SECRETS, key)))
    except ApiError as error:
        if error.not_found:
            return None
        raise
    except FieldError as error:
        # The value itself may be a key: only where it stands is told.
        raise ApiError(0, "", f"the Secret {key[0]}/{key[1]} is not readable at {error.path or 'its root'}") from None


def delete_secret(client: APIClient, key: Key, role: str) -> bool:
    """Delete a Secret if it has a role for us; whether it did.

    Raises:
        ApiError: it cannot be read or deleted.
    """
    secret = read_secret(client, key)
    if secret is None or not secret.ours(role):
        return False
    try:
        ask(client, requests.delete(SECRETS, key, uid=secret.metadata.uid))
    except ApiError as error:
        if not error.not_found:
            raise
        return False
    return True


def authority_of(secret: Secret | None) -> AuthorityState:
    """The authority that a Secret holds; without an issuer, its problem says why.

    Raises:
        InputError: the Secret is somebody else's and holds something else.
    """
    if secret is None:
        return AuthorityState(problem=Finding(Reason.AUTHORITY_MISSING, "there is no Secret with an authority"))
    issuer = _authority_pair(secret, CERTIFICATE, KEY)
    if issuer is None and not secret.ours(AUTHORITY) and any(secret.data.values()):
        raise _foreign(secret, "holds something that is no authority")
    annotations = secret.metadata.annotations
    problem = Finding(Reason.AUTHORITY_UNREADABLE, "what is stored is no authority with its key")
    return AuthorityState(
        issuer=issuer,
        successor=_authority_pair(secret, NEXT_CERTIFICATE, NEXT_KEY),
        bundle=secret.bundle,
        introduced=_mark(annotations.get(INTRODUCED, "")),
        superseded=_mark(annotations.get(SUPERSEDED, "")),
        problem=None if issuer is not None else problem,
    )


def check_adoptable(secret: Secret, authority: AuthorityState) -> None:
    """Refuse to overwrite a certificate that somebody else keeps.

    Raises:
        InputError: it is not ours, and not of our authority.
    """
    leaf = secret.leaf
    if secret.ours(SERVING) or not (leaf.certificate_pem or leaf.key_pem):
        return
    certificate = leaf.certificate
    if certificate is None or authority.bundle.issuer_of(certificate) is None:
        raise _foreign(secret, "holds somebody else's certificate; --authority provided leaves it to them")


def authority_request(key: Key, stored: Secret | None, state: AuthorityState) -> APIRequest:
    """What stores an authority."""
    data: dict[str, bytes | None] = {
        CERTIFICATE: state.issuer.certificate_pem if state.issuer else b"",  # some types of Secret need the field
        KEY: state.issuer.key_pem if state.issuer else b"",
        NEXT_CERTIFICATE: state.successor.certificate_pem if state.successor else None,
        NEXT_KEY: state.successor.key_pem if state.successor else None,
        BUNDLE: state.bundle.pem,
    }
    annotations = {INTRODUCED: _noted(state.introduced), SUPERSEDED: _noted(state.superseded)}
    return _request(key, stored, AUTHORITY, data, annotations)


def serving_request(key: Key, stored: Secret | None, pair: StoredLeaf | None, bundle: Bundle) -> APIRequest:
    """What stores a leaf and the bundle beside it; without a leaf, the bundle alone changes."""
    data: dict[str, bytes | None] = {BUNDLE: bundle.pem}
    if pair is not None:
        data |= {CERTIFICATE: pair.certificate_pem, KEY: pair.key_pem}
    return _request(key, stored, SERVING, data, {})


def reference(key: Key, stored: Secret | None) -> Reference:
    """What events about a Secret are about."""
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


def _mark(text: str) -> Mark | None:
    """A mark out of an annotation; anybody may have written it."""
    fingerprint, _, moment = text.partition(" ")
    try:
        at = datetime.fromisoformat(moment)
    except ValueError:
        return None
    return Mark(fingerprint, at) if at.tzinfo is not None else None


def _noted(mark: Mark | None) -> str | None:
    return None if mark is None else f"{mark.fingerprint} {mark.at.astimezone(UTC).isoformat(timespec='milliseconds')}"


def _foreign(secret: Secret, what: str) -> InputError:
    place = f"{secret.metadata.namespace}/{secret.metadata.name}"
    return InputError(f"the Secret {place} {what}; name another one, or delete it if nobody needs it")
