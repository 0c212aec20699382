"""Certificates: authority, bundle and leaf."""

import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from tables import cases

from berthmaster.model.errors import InputError
from certs.authority import SERVERS_ONLY, KeyPair, issue, new_authority
from certs.bundle import MAX_CERTIFICATES, Bundle
from certs.certificate import fingerprint
from certs.leaf import LeafRequirements, Reason, StoredLeaf, issued_at, leaf_finding, serves

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
AUTHORITY = new_authority("authority", 1000 * DAY, NOW)
OTHER = new_authority("authority", 1000 * DAY, NOW)
SHORT = new_authority("authority", 10 * DAY, NOW)
REQUIRED = LeafRequirements(("a.svc", "10.0.0.1", "::1"), 90 * DAY)


def leaf(
    authority: KeyPair = AUTHORITY, names=REQUIRED.names, life=90 * DAY, now=NOW, usages=SERVERS_ONLY
) -> StoredLeaf:
    pair = issue(authority, "server", names, life, now, usages=usages)
    return StoredLeaf(pair.certificate_pem, pair.key_pem)


GOOD, SECOND = leaf(), leaf()


@cases(
    ("stored", "later", "reason"),
    {
        "a new leaf can stay": (GOOD, 0 * DAY, None),
        "before two thirds of its life": (GOOD, 59.9 * DAY, None),
        "at two thirds of its life": (GOOD, 60 * DAY, Reason.LEAF_DUE_FOR_RENEWAL),
        "at its end": (GOOD, 90 * DAY, Reason.LEAF_EXPIRED),
        "before its validity": (GOOD, -DAY, Reason.LEAF_NOT_YET_VALID),
        "no leaf": (StoredLeaf(), 0 * DAY, Reason.LEAF_MISSING),
        "an unreadable certificate": (StoredLeaf(b"no PEM", b"x"), 0 * DAY, Reason.LEAF_UNREADABLE),
        "a key without a certificate": (StoredLeaf(b"", GOOD.key_pem), 0 * DAY, Reason.LEAF_UNREADABLE),
        "the key of another leaf": (
            StoredLeaf(GOOD.certificate_pem, SECOND.key_pem),
            0 * DAY,
            Reason.KEY_DOES_NOT_MATCH,
        ),
        "an unreadable key": (StoredLeaf(GOOD.certificate_pem, b"garbage"), 0 * DAY, Reason.KEY_DOES_NOT_MATCH),
        "no key": (StoredLeaf(GOOD.certificate_pem), 0 * DAY, Reason.KEY_DOES_NOT_MATCH),
        "another authority with the same name issued it": (leaf(OTHER), 0 * DAY, Reason.WRONG_ISSUER),
        "the authority itself": (StoredLeaf(AUTHORITY.certificate_pem, AUTHORITY.key_pem), 0 * DAY, Reason.WRONG_USAGE),
        "names are missing": (leaf(names=["a.svc"]), 0 * DAY, Reason.NAMES_MISSING),
        "an unwanted name": (leaf(names=[*REQUIRED.names, "b"]), 0 * DAY, Reason.NAMES_UNWANTED),
        "an address in another notation": (leaf(names=["a.svc", "10.0.0.1", "0:0::1"]), 0 * DAY, None),
    },
)
def test_the_reason_to_replace_a_leaf(stored, later, reason):
    finding = leaf_finding(stored, AUTHORITY.certificate, REQUIRED, NOW + later)
    assert (finding and finding.reason) == reason


def test_a_leaf_that_outlives_its_issuer_is_replaced():
    careless = KeyPair(AUTHORITY.certificate, SHORT.key)
    finding = leaf_finding(leaf(careless), SHORT.certificate, REQUIRED, NOW)
    assert finding is not None
    assert finding.reason == Reason.OUTLIVES_ISSUER


def test_a_client_certificate_is_replaced():
    finding = leaf_finding(leaf(usages=[ExtendedKeyUsageOID.CLIENT_AUTH]), AUTHORITY.certificate, REQUIRED, NOW)
    assert finding is not None
    assert finding.reason == Reason.WRONG_USAGE


def test_a_requested_renewal_replaces_that_leaf_only():
    replaced = frozenset([fingerprint(GOOD.certificate)])
    required = LeafRequirements(REQUIRED.names, REQUIRED.lifetime, replaced)
    assert leaf_finding(SECOND, AUTHORITY.certificate, required, NOW) is None
    finding = leaf_finding(GOOD, AUTHORITY.certificate, required, NOW)
    assert finding is not None
    assert finding.reason == Reason.RENEWAL_REQUESTED


def test_a_leaf_is_not_renewed_if_the_new_one_would_not_live_longer():
    last = leaf(SHORT, life=90 * DAY, now=NOW + 8 * DAY)
    assert last.certificate.not_valid_after_utc == SHORT.certificate.not_valid_after_utc
    assert leaf_finding(last, SHORT.certificate, REQUIRED, NOW + 9.9 * DAY) is None


@pytest.mark.parametrize("life", [timedelta(minutes=1), DAY, 90 * DAY])
def test_issued_at_does_not_depend_on_the_lifetime(life):
    assert issued_at(leaf(life=life).certificate) == NOW


@cases(
    ("stored", "later", "expected"),
    {
        "overdue": (GOOD, 89 * DAY, True),
        "expired": (GOOD, 90 * DAY, False),
        "from another authority": (leaf(OTHER), 0 * DAY, False),
        "with another key": (StoredLeaf(GOOD.certificate_pem, SECOND.key_pem), 0 * DAY, False),
        "missing": (StoredLeaf(), 0 * DAY, False),
    },
)
def test_a_leaf_serves_if_clients_accept_it(stored, later, expected):
    assert serves(stored, AUTHORITY.certificate, NOW + later) is expected


AUTHORITY_NOW = datetime.now(UTC).replace(microsecond=0)
AUTHORITY_CERTIFICATE = new_authority("test authority", 10 * DAY, AUTHORITY_NOW)


def test_a_leaf_carries_its_dns_names_and_addresses():
    leaf = issue(AUTHORITY_CERTIFICATE, "server", ["a.svc", "127.0.0.1", "::1"], DAY, AUTHORITY_NOW).certificate
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["a.svc"]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]


@pytest.mark.parametrize(
    ("pair", "signs"),
    [(AUTHORITY_CERTIFICATE, True), (issue(AUTHORITY_CERTIFICATE, "x", [], DAY, AUTHORITY_NOW), False)],
)
def test_only_the_authority_may_sign_certificates(pair, signs):
    constraints = pair.certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (constraints.value.ca, constraints.critical) == (signs, True)


def test_a_client_certificate_carries_user_and_group():
    leaf = issue(
        AUTHORITY_CERTIFICATE, "kubernetes-admin", [], DAY, AUTHORITY_NOW, organization="system:masters"
    ).certificate
    assert leaf.subject.rfc4514_string() == "CN=kubernetes-admin,O=system:masters"


@cases("name", {"empty": "", "too long": "x" * 65})
def test_an_invalid_common_name_is_rejected(name):
    with pytest.raises(InputError, match="1 to 64"):
        new_authority(name, DAY, AUTHORITY_NOW)


def test_a_mutual_tls_handshake_succeeds(tmp_path):
    def context(side: ssl.Purpose, name: str) -> ssl.SSLContext:
        pair = issue(AUTHORITY_CERTIFICATE, name, ["localhost"], DAY, AUTHORITY_NOW)
        path = tmp_path / f"{name}.pem"
        path.write_bytes(pair.certificate_pem + pair.key_pem)
        made = ssl.create_default_context(side, cadata=AUTHORITY_CERTIFICATE.certificate_pem.decode())
        made.load_cert_chain(path)
        made.verify_mode = ssl.CERT_REQUIRED
        return made

    ours, theirs = socket.socketpair()
    server = context(ssl.Purpose.CLIENT_AUTH, "server")
    received: list[bytes] = []

    def serve() -> None:
        with server.wrap_socket(theirs, server_side=True) as connection:
            received.append(connection.recv(16))

    thread = threading.Thread(target=serve)
    thread.start()
    with context(ssl.Purpose.SERVER_AUTH, "client").wrap_socket(ours, server_hostname="localhost") as connection:
        connection.sendall(b"hello")
    thread.join(timeout=60)
    assert received == [b"hello"]


FIRST, BUNDLE_SECOND = (new_authority("same name", days * DAY, NOW) for days in (10, 20))
LEAF = issue(BUNDLE_SECOND, "leaf", ["a"], DAY, NOW)
BOTH = Bundle([FIRST.certificate, BUNDLE_SECOND.certificate])


@cases(
    ("pem", "expected"),
    {
        "empty input": (b"", Bundle()),
        "garbage": (b"\xff\x00 garbage", Bundle()),
        "two authorities": (BOTH.pem, BOTH),
        "comments and CRLF": (b"# a comment\n" + BOTH.pem.replace(b"\n", b"\r\n"), BOTH),
        "a duplicate": (BOTH.pem + FIRST.certificate_pem, BOTH),
        "a truncated second block": (BOTH.pem[:-100], Bundle([FIRST.certificate])),
        "a leaf is skipped": (LEAF.certificate_pem + BOTH.pem, BOTH),
        "a key is skipped": (FIRST.key_pem + BOTH.pem, BOTH),
        "an invalid block is skipped": (
            b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n" + BOTH.pem,
            BOTH,
        ),
    },
)
def test_parsing_keeps_the_readable_authorities(pem, expected):
    assert Bundle.parse(pem) == expected


def test_parsing_stops_at_the_maximum_number():
    many = b"".join(new_authority(str(each), DAY, NOW).certificate_pem for each in range(MAX_CERTIFICATES + 3))
    assert len(Bundle.parse(many)) == MAX_CERTIFICATES


def test_unexpired_drops_expired_authorities():
    assert BOTH.unexpired(NOW + 10 * DAY) == Bundle([BUNDLE_SECOND.certificate])


@cases(
    ("bundle", "later", "expected"),
    {
        "one of two authorities with the same name signed it": (BOTH, 0 * DAY, True),
        "the other authority did not sign it": (Bundle([FIRST.certificate]), 0 * DAY, False),
        "the leaf is expired": (BOTH, DAY, False),
        "the leaf is not yet valid": (BOTH, -DAY, False),
        "an empty bundle": (Bundle(), 0 * DAY, False),
    },
)
def test_a_bundle_verifies_leaves_of_its_members(bundle, later, expected):
    assert bundle.verifies(LEAF.certificate, NOW + later) is expected
