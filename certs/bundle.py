"""The authorities that clients trust, as a bundle.

The input is untrusted: anyone may have written it. Unreadable certificates are left out.
"""

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Final, Self

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from certs.certificate import certificate_of, is_authority, issued_by

MAX_CERTIFICATES: Final = 32
"""The largest bundle that is read. Three rotations at the same time need four certificates."""
_BLOCK: Final = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


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
