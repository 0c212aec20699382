"""A bundle: the authorities that clients trust, as a set in an order of its own. Pure: time comes in as an argument."""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from certs.reading import certificate_of, is_authority, issued_by

MAX_CERTIFICATES: Final = 32
"""More than this is no bundle of ours: three rotations at once need four."""
_BLOCK: Final = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


class Bundle:
    """Certificates of authorities, each once, in the order in which they were given. A value."""

    __slots__ = ("_certificates",)

    def __init__(self, certificates: Iterable[x509.Certificate] = ()) -> None:
        self._certificates = tuple(dict.fromkeys(certificates))

    @classmethod
    def parse(cls, pem: bytes) -> "Bundle":
        """What can be read of PEM text, at most ``MAX_CERTIFICATES``; what is no authority is passed over.

        A bundle is repaired from what is still good in it, so that half a bundle is better than none.
        """
        blocks = _BLOCK.findall(pem)[:MAX_CERTIFICATES]
        return cls(certificate for block in blocks if (certificate := _readable(block)) is not None)

    @property
    def pem(self) -> bytes:
        """All of it in PEM."""
        return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in self._certificates)

    def __iter__(self) -> Iterator[x509.Certificate]:
        return iter(self._certificates)

    def __len__(self) -> int:
        return len(self._certificates)

    def __contains__(self, certificate: x509.Certificate) -> bool:
        return certificate in self._certificates

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bundle) and self._certificates == other._certificates

    def __hash__(self) -> int:
        return hash(self._certificates)

    def __repr__(self) -> str:
        return f"Bundle({', '.join(each.subject.rfc4514_string() for each in self)})"

    def with_more(self, certificates: Iterable[x509.Certificate]) -> "Bundle":
        """This bundle, and behind it what it does not hold yet."""
        return Bundle([*self, *certificates])

    def unexpired(self, now: datetime) -> "Bundle":
        """Without what nobody accepts any more."""
        return Bundle(each for each in self if each.not_valid_after_utc > now)

    def issuer_of(self, leaf: x509.Certificate) -> x509.Certificate | None:
        """The member that signed a leaf."""
        return next((each for each in self if issued_by(leaf, each)), None)

    def verifies(self, leaf: x509.Certificate, now: datetime) -> bool:
        """Whether a client that trusts this bundle accepts who signed a leaf, and when it is valid."""
        issuer = self.issuer_of(leaf)
        return issuer is not None and all(
            each.not_valid_before_utc <= now < each.not_valid_after_utc for each in (leaf, issuer)
        )


EMPTY: Final = Bundle()
"""Trusts nobody."""


def _readable(block: bytes) -> x509.Certificate | None:
    certificate = certificate_of(block)
    return certificate if certificate is not None and is_authority(certificate) else None
