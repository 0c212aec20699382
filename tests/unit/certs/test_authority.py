"""Certificates of an authority, and a TLS handshake with them."""

import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from berthmaster.model.errors import InputError
from certs.authority import BACKDATING, issue, new_authority

NOW = datetime.now(UTC).replace(microsecond=0)
DAY = timedelta(days=1)
AUTHORITY = new_authority("test authority", 10 * DAY, NOW)


def test_the_authority_signs_a_leaf_and_is_its_issuer():
    leaf = issue(AUTHORITY, "server", ["a.svc"], DAY, NOW).certificate
    leaf.verify_directly_issued_by(AUTHORITY.certificate)
    assert leaf.issuer == AUTHORITY.certificate.subject


def test_a_leaf_carries_its_dns_names_and_addresses():
    leaf = issue(AUTHORITY, "server", ["a.svc", "127.0.0.1", "::1"], DAY, NOW).certificate
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["a.svc"]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]


def test_a_leaf_is_backdated_and_does_not_outlive_its_authority():
    leaf = issue(AUTHORITY, "server", [], 100 * DAY, NOW).certificate
    assert leaf.not_valid_before_utc == NOW - BACKDATING
    assert leaf.not_valid_after_utc == AUTHORITY.certificate.not_valid_after_utc


@pytest.mark.parametrize(("pair", "signs"), [(AUTHORITY, True), (issue(AUTHORITY, "x", [], DAY, NOW), False)])
def test_only_the_authority_may_sign_certificates(pair, signs):
    constraints = pair.certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (constraints.value.ca, constraints.critical) == (signs, True)


def test_a_client_certificate_carries_user_and_group():
    leaf = issue(AUTHORITY, "kubernetes-admin", [], DAY, NOW, organization="system:masters").certificate
    assert leaf.subject.rfc4514_string() == "CN=kubernetes-admin,O=system:masters"


def test_repr_does_not_show_the_key():
    assert "PRIVATE" not in repr(AUTHORITY)


@pytest.mark.parametrize("name", ["", "x" * 65], ids=["empty", "too long"])
def test_an_invalid_common_name_is_rejected(name):
    with pytest.raises(InputError, match="1 to 64"):
        new_authority(name, DAY, NOW)


def test_a_mutual_tls_handshake_succeeds(tmp_path):
    def context(side: ssl.Purpose, name: str) -> ssl.SSLContext:
        pair = issue(AUTHORITY, name, ["localhost"], DAY, NOW)
        path = tmp_path / f"{name}.pem"
        path.write_bytes(pair.certificate_pem + pair.key_pem)
        made = ssl.create_default_context(side, cadata=AUTHORITY.certificate_pem.decode())
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
