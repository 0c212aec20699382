"""Every reason for which a leaf is replaced."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from certs.authority import SERVERS_ONLY, KeyPair, issue, new_authority
from certs.bundle import fingerprint
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


@pytest.mark.parametrize(
    ("stored", "later", "reason"),
    [
        pytest.param(GOOD, 0 * DAY, None, id="a new leaf can stay"),
        pytest.param(GOOD, 59.9 * DAY, None, id="before two thirds of its life"),
        pytest.param(GOOD, 60 * DAY, Reason.LEAF_DUE_FOR_RENEWAL, id="at two thirds of its life"),
        pytest.param(GOOD, 90 * DAY, Reason.LEAF_EXPIRED, id="at its end"),
        pytest.param(GOOD, -DAY, Reason.LEAF_NOT_YET_VALID, id="before its validity"),
        pytest.param(StoredLeaf(), 0 * DAY, Reason.LEAF_MISSING, id="no leaf"),
        pytest.param(StoredLeaf(b"no PEM", b"x"), 0 * DAY, Reason.LEAF_UNREADABLE, id="an unreadable certificate"),
        pytest.param(StoredLeaf(b"", GOOD.key_pem), 0 * DAY, Reason.LEAF_UNREADABLE, id="a key without a certificate"),
        pytest.param(
            StoredLeaf(GOOD.certificate_pem, SECOND.key_pem), 0 * DAY, Reason.KEY_DOES_NOT_MATCH,
            id="the key of another leaf",
        ),
        pytest.param(
            StoredLeaf(GOOD.certificate_pem, b"garbage"), 0 * DAY, Reason.KEY_DOES_NOT_MATCH, id="an unreadable key"
        ),
        pytest.param(StoredLeaf(GOOD.certificate_pem), 0 * DAY, Reason.KEY_DOES_NOT_MATCH, id="no key"),
        pytest.param(leaf(OTHER), 0 * DAY, Reason.WRONG_ISSUER, id="another authority with the same name issued it"),
        pytest.param(
            StoredLeaf(AUTHORITY.certificate_pem, AUTHORITY.key_pem), 0 * DAY, Reason.WRONG_USAGE,
            id="the authority itself",
        ),
        pytest.param(leaf(names=["a.svc"]), 0 * DAY, Reason.NAMES_MISSING, id="names are missing"),
        pytest.param(leaf(names=[*REQUIRED.names, "b"]), 0 * DAY, Reason.NAMES_UNWANTED, id="an unwanted name"),
        pytest.param(leaf(names=["a.svc", "10.0.0.1", "0:0::1"]), 0 * DAY, None, id="an address in another notation"),
    ],
)  # fmt: skip
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


@pytest.mark.parametrize(
    ("stored", "later", "expected"),
    [
        pytest.param(GOOD, 89 * DAY, True, id="overdue"),
        pytest.param(GOOD, 90 * DAY, False, id="expired"),
        pytest.param(leaf(OTHER), 0 * DAY, False, id="from another authority"),
        pytest.param(StoredLeaf(GOOD.certificate_pem, SECOND.key_pem), 0 * DAY, False, id="with another key"),
        pytest.param(StoredLeaf(), 0 * DAY, False, id="missing"),
    ],
)
def test_a_leaf_serves_if_clients_accept_it(stored, later, expected):
    assert serves(stored, AUTHORITY.certificate, NOW + later) is expected


def test_repr_does_not_show_the_key():
    assert "PRIVATE" not in repr(GOOD)
