"""Why a leaf has to be issued anew, reason by reason."""

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
PLAN = LeafRequirements(("a.svc", "10.0.0.1", "::1"), 90 * DAY)


def leaf(authority: KeyPair = AUTHORITY, names=PLAN.names, life=90 * DAY, now=NOW, usages=SERVERS_ONLY) -> StoredLeaf:
    pair = issue(authority, "server", names, life, now, usages=usages)
    return StoredLeaf(pair.certificate_pem, pair.key_pem)


GOOD, SECOND = leaf(), leaf()


@pytest.mark.parametrize(
    ("stored", "later", "reason"),
    [
        pytest.param(GOOD, 0 * DAY, None, id="a fresh one may stay"),
        pytest.param(GOOD, 59.9 * DAY, None, id="up to two thirds of its life"),
        pytest.param(GOOD, 60 * DAY, Reason.LEAF_DUE_FOR_RENEWAL, id="at two thirds it is due"),
        pytest.param(GOOD, 90 * DAY, Reason.LEAF_EXPIRED, id="at its end it is expired"),
        pytest.param(GOOD, -DAY, Reason.LEAF_NOT_YET_VALID, id="before its beginning nobody accepts it"),
        pytest.param(StoredLeaf(), 0 * DAY, Reason.LEAF_MISSING, id="there is none"),
        pytest.param(StoredLeaf(b"no PEM", b"x"), 0 * DAY, Reason.LEAF_UNREADABLE, id="garbage"),
        pytest.param(StoredLeaf(b"", GOOD.key_pem), 0 * DAY, Reason.LEAF_UNREADABLE, id="a key alone"),
        pytest.param(
            StoredLeaf(GOOD.certificate_pem, SECOND.key_pem), 0 * DAY, Reason.KEY_DOES_NOT_MATCH, id="a torn pair"
        ),
        pytest.param(
            StoredLeaf(GOOD.certificate_pem, b"garbage"), 0 * DAY, Reason.KEY_DOES_NOT_MATCH, id="a key of garbage"
        ),
        pytest.param(StoredLeaf(GOOD.certificate_pem), 0 * DAY, Reason.KEY_DOES_NOT_MATCH, id="no key"),
        pytest.param(leaf(OTHER), 0 * DAY, Reason.WRONG_ISSUER, id="an authority of the same name issued it"),
        pytest.param(
            StoredLeaf(AUTHORITY.certificate_pem, AUTHORITY.key_pem), 0 * DAY, Reason.WRONG_USAGE,
            id="it is the authority itself",
        ),
        pytest.param(leaf(names=["a.svc"]), 0 * DAY, Reason.NAMES_MISSING, id="names are missing"),
        pytest.param(leaf(names=[*PLAN.names, "b"]), 0 * DAY, Reason.NAMES_UNWANTED, id="it has a name too many"),
        pytest.param(leaf(names=["a.svc", "10.0.0.1", "0:0::1"]), 0 * DAY, None, id="addresses are written otherwise"),
    ],
)  # fmt: skip
def test_a_leaf_is_judged(stored, later, reason):
    finding = leaf_finding(stored, AUTHORITY.certificate, PLAN, NOW + later)
    assert (finding and finding.reason) == reason


def test_a_leaf_that_outlives_its_issuer_is_replaced():
    careless = KeyPair(AUTHORITY.certificate, SHORT.key)
    finding = leaf_finding(leaf(careless), SHORT.certificate, PLAN, NOW)
    assert finding is not None
    assert finding.reason == Reason.OUTLIVES_ISSUER


def test_a_leaf_for_clients_only_is_none_for_servers():
    finding = leaf_finding(leaf(usages=[ExtendedKeyUsageOID.CLIENT_AUTH]), AUTHORITY.certificate, PLAN, NOW)
    assert finding is not None
    assert finding.reason == Reason.WRONG_USAGE


def test_a_leaf_that_somebody_wants_replaced_is():
    unwanted = frozenset([fingerprint(GOOD.certificate)])
    plan = LeafRequirements(PLAN.names, PLAN.lifetime, unwanted)
    assert leaf_finding(SECOND, AUTHORITY.certificate, plan, NOW) is None
    finding = leaf_finding(GOOD, AUTHORITY.certificate, plan, NOW)
    assert finding is not None
    assert finding.reason == Reason.RENEWAL_REQUESTED


def test_at_the_end_of_an_authority_leaves_are_not_renewed_for_nothing():
    last = leaf(SHORT, life=90 * DAY, now=NOW + 8 * DAY)
    assert last.certificate.not_valid_after_utc == SHORT.certificate.not_valid_after_utc
    assert leaf_finding(last, SHORT.certificate, PLAN, NOW + 9.9 * DAY) is None


@pytest.mark.parametrize("life", [timedelta(minutes=1), DAY, 90 * DAY])
def test_issued_at_is_when_it_was_issued_however_short_it_lives(life):
    assert issued_at(leaf(life=life).certificate) == NOW


@pytest.mark.parametrize(
    ("stored", "later", "expected"),
    [
        pytest.param(GOOD, 89 * DAY, True, id="due long ago"),
        pytest.param(GOOD, 90 * DAY, False, id="expired"),
        pytest.param(leaf(OTHER), 0 * DAY, False, id="of somebody else"),
        pytest.param(StoredLeaf(GOOD.certificate_pem, SECOND.key_pem), 0 * DAY, False, id="torn"),
        pytest.param(StoredLeaf(), 0 * DAY, False, id="not there"),
    ],
)
def test_what_clients_accept_serves(stored, later, expected):
    assert serves(stored, AUTHORITY.certificate, NOW + later) is expected


def test_no_key_shows_in_a_log():
    assert "PRIVATE" not in repr(GOOD)
