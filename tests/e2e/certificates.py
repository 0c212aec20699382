"""Certificates of a test run: one authority, and leaves signed by it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from certs.authority import issue, new_authority

LIFETIME: Final = timedelta(days=1)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, both PEM, and the certificate's serial number."""

    certificate: bytes
    key: bytes
    serial: int

    def write(self, certificate_file: Path, key_file: Path) -> None:
        """Put both into files, each replaced as a whole; the two moments differ, as in a real rotation."""
        for path, content in ((key_file, self.key), (certificate_file, self.certificate)):
            part = path.with_suffix(".part")
            part.write_bytes(content)
            part.replace(path)


class Authority:
    """A throw-away certificate authority.

    Attributes:
        certificate: its own certificate, PEM: what a ``caBundle`` holds.
    """

    def __init__(self, name: str) -> None:
        self._pair = new_authority(name, LIFETIME, datetime.now(UTC))
        self.certificate = self._pair.certificate_pem

    def issue(
        self, name: str, *, organization: str = "", hosts: Sequence[str] = (), lifetime: timedelta = LIFETIME
    ) -> Pair:
        """A leaf for servers and clients alike, valid from now on; see ``certs.authority.issue``."""
        leaf = issue(self._pair, name, hosts, lifetime, datetime.now(UTC), organization=organization)
        return Pair(leaf.certificate_pem, leaf.key_pem, leaf.certificate.serial_number)
