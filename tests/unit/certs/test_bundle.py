"""Bundles: parsing, pruning and verification."""

from datetime import UTC, datetime, timedelta

import pytest

from certs.authority import issue, new_authority
from certs.bundle import MAX_CERTIFICATES, Bundle

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
FIRST, SECOND = (new_authority("same name", days * DAY, NOW) for days in (10, 20))
LEAF = issue(SECOND, "leaf", ["a"], DAY, NOW)
BOTH = Bundle([FIRST.certificate, SECOND.certificate])


@pytest.mark.parametrize(
    ("pem", "expected"),
    [
        pytest.param(b"", Bundle(), id="empty input"),
        pytest.param(b"\xff\x00 garbage", Bundle(), id="garbage"),
        pytest.param(BOTH.pem, BOTH, id="two authorities"),
        pytest.param(b"# a comment\n" + BOTH.pem.replace(b"\n", b"\r\n"), BOTH, id="comments and CRLF"),
        pytest.param(BOTH.pem + FIRST.certificate_pem, BOTH, id="a duplicate"),
        pytest.param(BOTH.pem[:-100], Bundle([FIRST.certificate]), id="a truncated second block"),
        pytest.param(LEAF.certificate_pem + BOTH.pem, BOTH, id="a leaf is skipped"),
        pytest.param(FIRST.key_pem + BOTH.pem, BOTH, id="a key is skipped"),
        pytest.param(
            b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n" + BOTH.pem,
            BOTH,
            id="an invalid block is skipped",
        ),
    ],
)
def test_parsing_keeps_the_readable_authorities(pem, expected):
    assert Bundle.parse(pem) == expected


def test_parsing_stops_at_the_maximum_number():
    many = b"".join(new_authority(str(each), DAY, NOW).certificate_pem for each in range(MAX_CERTIFICATES + 3))
    assert len(Bundle.parse(many)) == MAX_CERTIFICATES


def test_unexpired_drops_expired_authorities():
    assert BOTH.unexpired(NOW + 10 * DAY) == Bundle([SECOND.certificate])


@pytest.mark.parametrize(
    ("bundle", "later", "expected"),
    [
        pytest.param(BOTH, 0 * DAY, True, id="one of two authorities with the same name signed it"),
        pytest.param(Bundle([FIRST.certificate]), 0 * DAY, False, id="the other authority did not sign it"),
        pytest.param(BOTH, DAY, False, id="the leaf is expired"),
        pytest.param(BOTH, -DAY, False, id="the leaf is not yet valid"),
        pytest.param(Bundle(), 0 * DAY, False, id="an empty bundle"),
    ],
)
def test_a_bundle_verifies_leaves_of_its_members(bundle, later, expected):
    assert bundle.verifies(LEAF.certificate, NOW + later) is expected
