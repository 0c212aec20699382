"""Create certificates, read them from PEM, and hold the authorities that clients trust as a bundle.

The input is untrusted: anyone may have written it. Functions return None for unreadable input and do not raise. The
module is pure: the caller passes the current time. All keys are P-256: every TLS client in Kubernetes supports them,
and a handshake costs a fraction of one with RSA.

Bundle fields of webhook configurations are found and changed here: objects in, objects and patches out. A patch
addresses an entry of ``webhooks`` by its index and carries the ``resourceVersion`` that was read. The API server
refuses it with a conflict (409) if another client has written the object since.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from ipaddress import ip_address
from typing import Any, Final, NamedTuple, Self, TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from berthmaster.kube.requests import Collection
from berthmaster.model.errors import InputError

BACKDATING: Final = timedelta(minutes=10)
"""How far in the past a new certificate becomes valid. This tolerates clients whose clocks are slow."""
MAX_COMMON_NAME: Final = 64
"""Characters of a common name (RFC 5280)."""
SERVERS_ONLY: Final = (ExtendedKeyUsageOID.SERVER_AUTH,)
SERVERS_AND_CLIENTS: Final = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key. ``repr`` does not show the key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        """The private key in PEM (PKCS 8). It is not encrypted: store it only where its owner can read it."""
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    def __repr__(self) -> str:
        return f"KeyPair({self.certificate.subject.rfc4514_string()})"


def new_authority(common_name: str, lifetime: timedelta, now: datetime) -> KeyPair:
    """Create a self-signed authority, which may sign leaves only. Raises ``InputError`` for a bad name."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(common_name)
    builder = (
        _builder(name, name, key.public_key(), lifetime, now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
    )
    return KeyPair(builder.sign(key, hashes.SHA256()), key)


def issue(
    authority: KeyPair,
    common_name: str,
    hosts: Sequence[str],
    lifetime: timedelta,
    now: datetime,
    *,
    organization: str = "",
    usages: Sequence[x509.ObjectIdentifier] = SERVERS_AND_CLIENTS,
) -> KeyPair:
    """Issue a leaf that an authority signs.

    Args:
        common_name: the subject. A kube-apiserver reads it as the user of a client certificate.
        lifetime: how long the leaf is valid. It is cut so that the leaf does not outlive the authority.
        organization: a kube-apiserver reads it as the group of the user.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    signer = authority.certificate
    lifetime = min(lifetime, signer.not_valid_after_utc - now)
    builder = (
        _builder(_name(common_name, organization), signer.subject, key.public_key(), lifetime, now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False)
    )
    if hosts:
        names = x509.SubjectAlternativeName([_host(each) for each in hosts])
        builder = builder.add_extension(names, critical=False)
    return KeyPair(builder.sign(authority.key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, lifetime: timedelta, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATING)
        .not_valid_after(now + lifetime)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _name(common_name: str, organization: str = "") -> x509.Name:
    if not 0 < len(common_name) <= MAX_COMMON_NAME:
        raise InputError(f"invalid common name {common_name!r}: it must have 1 to {MAX_COMMON_NAME} characters")
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)] if organization else []
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


E = TypeVar("E", bound=x509.ExtensionType)
MAX_CERTIFICATES: Final = 32
"""The largest bundle that is read. Three rotations at the same time need four certificates."""
_BLOCK: Final = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
# All exceptions with which the library reports malformed input.
_UNREADABLE: Final = (
    ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion, x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)  # fmt: skip


@lru_cache(maxsize=128)
def certificate_of(pem: bytes) -> x509.Certificate | None:
    """Return the first certificate of a PEM text, or None if a field that this package uses is unreadable."""
    try:
        certificate = x509.load_pem_x509_certificate(pem)
        _ = certificate.extensions, certificate.subject, certificate.not_valid_before_utc, certificate.public_key()
    except _UNREADABLE:
        return None
    return certificate


def pair_of(certificate_pem: bytes, key_pem: bytes) -> KeyPair | None:
    """Return a certificate with its elliptic curve key, or None if either is unreadable or they do not match."""
    certificate = certificate_of(certificate_pem)
    try:
        key = serialization.load_pem_private_key(key_pem, password=None)
    except _UNREADABLE:
        return None
    if certificate is None or not isinstance(key, ec.EllipticCurvePrivateKey):
        return None
    return KeyPair(certificate, key) if key.public_key() == certificate.public_key() else None


def key_fits(certificate: x509.Certificate, key_pem: bytes) -> bool:
    """Return whether a private key of any type belongs to a certificate."""
    try:
        return serialization.load_pem_private_key(key_pem, password=None).public_key() == certificate.public_key()
    except _UNREADABLE:
        return False


def fingerprint(certificate: x509.Certificate) -> str:
    return certificate.fingerprint(hashes.SHA256()).hex()


@lru_cache(maxsize=128)
def issued_by(leaf: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        leaf.verify_directly_issued_by(authority)
    except (*_UNREADABLE, InvalidSignature):
        return False
    return True


def is_authority(certificate: x509.Certificate) -> bool:
    constraints = _extension(certificate, x509.BasicConstraints)
    return constraints is not None and constraints.ca


def is_for_servers(certificate: x509.Certificate) -> bool:
    """Return whether a server may present a certificate. Without the extension every usage is allowed."""
    usages = _extension(certificate, x509.ExtendedKeyUsage)
    return usages is None or ExtendedKeyUsageOID.SERVER_AUTH in usages


def names_of(certificate: x509.Certificate) -> frozenset[str]:
    names = _extension(certificate, x509.SubjectAlternativeName)
    if names is None:
        return frozenset()
    addresses = map(str, names.get_values_for_type(x509.IPAddress))
    return frozenset([*names.get_values_for_type(x509.DNSName), *addresses])


def _extension(certificate: x509.Certificate, kind: type[E]) -> E | None:
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None


class Bundle(tuple[x509.Certificate, ...]):
    """The certificates of trusted authorities, without duplicates and in the order of the input."""

    __slots__ = ()

    def __new__(cls, certificates: Iterable[x509.Certificate] = ()) -> Self:
        return super().__new__(cls, dict.fromkeys(certificates))

    @classmethod
    def parse(cls, pem: bytes) -> "Bundle":
        """Read the authorities of a PEM text, at most ``MAX_CERTIFICATES``.

        Unreadable blocks and certificates of other kinds are skipped, so that a damaged bundle can be repaired from
        its readable part.
        """
        certificates = map(certificate_of, _BLOCK.findall(pem)[:MAX_CERTIFICATES])
        return cls(each for each in certificates if each is not None and is_authority(each))

    @property
    def pem(self) -> bytes:
        return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in self)

    def __repr__(self) -> str:
        return f"Bundle({', '.join(each.subject.rfc4514_string() for each in self)})"

    def with_more(self, certificates: Iterable[x509.Certificate]) -> "Bundle":
        return Bundle([*self, *certificates])

    def unexpired(self, now: datetime) -> "Bundle":
        return Bundle(each for each in self if each.not_valid_after_utc > now)

    def issuer_of(self, leaf: x509.Certificate) -> x509.Certificate | None:
        return next((each for each in self if issued_by(leaf, each)), None)

    def verifies(self, leaf: x509.Certificate, now: datetime) -> bool:
        """Return whether a client that trusts this bundle accepts the signature and the validity of a leaf."""
        issuer = self.issuer_of(leaf)
        return issuer is not None and all(
            each.not_valid_before_utc <= now < each.not_valid_after_utc for each in (leaf, issuer)
        )


EMPTY: Final = Bundle()


Json = dict[str, Any]


class ConfigurationKind(NamedTuple):
    api_version: str
    kind: str
    collection: Collection


def _kind(api_version: str, kind: str) -> ConfigurationKind:
    return ConfigurationKind(api_version, kind, Collection.of(api_version, f"{kind.lower()}s"))


MUTATING: Final = _kind("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration")
VALIDATING: Final = _kind("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration")
SCHEDULER_PLUGIN: Final = _kind("core.kubeadmiral.io/v1alpha1", "SchedulerPluginWebhookConfiguration")
KINDS: Final = (MUTATING, VALIDATING, SCHEDULER_PLUGIN)


class BundleField(NamedTuple):
    """A field that holds a bundle, the path of its parents, and the URL of its server (empty without one)."""

    parents: tuple[str | int, ...]
    field: str
    url: str


def kind_of(content: Mapping[str, Any]) -> ConfigurationKind | None:
    identity = content.get("apiVersion"), content.get("kind")
    return next((each for each in KINDS if (each.api_version, each.kind) == identity), None)


def bundle_fields(kind: ConfigurationKind, content: Mapping[str, Any]) -> list[BundleField]:
    """Return every bundle field; none for a plugin without TLS. Raises ``InputError`` for another structure."""
    try:
        return list(_plugin_field(content) if kind == SCHEDULER_PLUGIN else _webhook_fields(content))
    except (AttributeError, TypeError, KeyError):
        name = (content.get("metadata") or {}).get("name")
        raise InputError(f"{kind.kind} {name}: its entries do not have the structure of this kind") from None


def bundles(kind: ConfigurationKind, content: Mapping[str, Any]) -> list[Bundle]:
    """Return the bundle of each field as clients read it: unreadable certificates are skipped."""
    return [_bundle(_at(content, each.parents).get(each.field)) for each in bundle_fields(kind, content)]


def injected(kind: ConfigurationKind, content: Mapping[str, Any], bundle: Bundle) -> Json:
    result = deepcopy(dict(content))
    for each in bundle_fields(kind, content):
        node: Any = result
        for step in each.parents:
            if isinstance(node, dict):
                node[step] = node.get(step) or {}
            node = node[step]
        node[each.field] = encoded(bundle)
    return result


def patch(kind: ConfigurationKind, content: Mapping[str, Any], bundle: Bundle) -> list[Json]:
    """Return the JSON patch of this ``resourceVersion`` that writes the bundle to fields with another value, if any."""
    operations: list[Json] = []
    wanted = encoded(bundle)
    for each in bundle_fields(kind, content):
        parent = _at(content, each.parents)
        if parent.get(each.field) == wanted:
            continue
        if not parent:
            operations.append({"op": "add", "path": _pointer(each.parents), "value": {each.field: wanted}})
        else:
            operations.append({"op": "add", "path": _pointer((*each.parents, each.field)), "value": wanted})
    if not operations:
        return []
    version = content["metadata"]["resourceVersion"]
    return [{"op": "replace", "path": "/metadata/resourceVersion", "value": version}, *operations]


def encoded(bundle: Bundle) -> str:
    return base64.b64encode(bundle.pem).decode()


def _webhook_fields(content: Mapping[str, Any]) -> Iterator[BundleField]:
    for index, webhook in enumerate(content.get("webhooks") or []):
        yield BundleField(("webhooks", index, "clientConfig"), "caBundle", _url(webhook["clientConfig"]))


def _plugin_field(content: Mapping[str, Any]) -> Iterator[BundleField]:
    url = str(content["spec"].get("urlPrefix") or "")
    if url.startswith("https:"):
        yield BundleField(("spec", "tlsConfig"), "caData", url)


def _url(client: Mapping[str, Any]) -> str:
    """Return the URL of a webhook. A Service gets the host name that its certificate must carry."""
    if url := client.get("url"):
        return str(url)
    service = client.get("service") or {}
    if not service:
        return ""
    host = f"{service['name']}.{service['namespace']}.svc"
    return f"https://{host}:{service.get('port') or 443}/{str(service.get('path') or '').lstrip('/')}"


def _at(content: Mapping[str, Any], parents: tuple[str | int, ...]) -> Mapping[str, Any]:
    node: Any = content
    for step in parents:
        node = node.get(step) if isinstance(node, dict) else node[step]
    return node or {}


def _bundle(text: object) -> Bundle:
    try:
        return Bundle.parse(base64.b64decode(str(text or "")))
    except (binascii.Error, ValueError):
        return EMPTY


def _pointer(path: tuple[str | int, ...]) -> str:
    """Return a JSON pointer. No step of these paths needs escaping."""
    return "".join(f"/{step}" for step in path)
