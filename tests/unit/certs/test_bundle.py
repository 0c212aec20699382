"""A bundle is what can be read of it, each authority once."""

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
        pytest.param(b"", Bundle(), id="nothing"),
        pytest.param(b"\xff\x00 garbage", Bundle(), id="garbage"),
        pytest.param(BOTH.pem, BOTH, id="what was written"),
        pytest.param(b"# a comment\n" + BOTH.pem.replace(b"\n", b"\r\n"), BOTH, id="comments and other line ends"),
        pytest.param(BOTH.pem + FIRST.certificate_pem, BOTH, id="one of them twice"),
        pytest.param(BOTH.pem[:-100], Bundle([FIRST.certificate]), id="the second one cut off"),
        pytest.param(LEAF.certificate_pem + BOTH.pem, BOTH, id="a leaf among them, which signs nobody"),
        pytest.param(FIRST.key_pem + BOTH.pem, BOTH, id="a key among them"),
        pytest.param(
            b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n" + BOTH.pem, BOTH, id="an empty shell"
        ),
    ],
)
def test_what_can_be_read_is_kept(pem, expected):
    assert Bundle.parse(pem) == expected


def test_a_bundle_is_bounded():
    many = b"".join(new_authority(str(each), DAY, NOW).certificate_pem for each in range(MAX_CERTIFICATES + 3))
    assert len(Bundle.parse(many)) == MAX_CERTIFICATES


def test_what_has_expired_is_pruned():
    assert BOTH.unexpired(NOW + 10 * DAY) == Bundle([SECOND.certificate])


@pytest.mark.parametrize(
    ("bundle", "later", "expected"),
    [
        pytest.param(BOTH, 0 * DAY, True, id="one of two of the same name signed it"),
        pytest.param(Bundle([FIRST.certificate]), 0 * DAY, False, id="the other one did not"),
        pytest.param(BOTH, DAY, False, id="the leaf has expired"),
        pytest.param(BOTH, -DAY, False, id="the leaf has not begun"),
        pytest.param(Bundle(), 0 * DAY, False, id="nobody is trusted"),
    ],
)
def test_a_bundle_verifies_what_its_members_signed(bundle, later, expected):
    assert bundle.verifies(LEAF.certificate, NOW + later) is expected
