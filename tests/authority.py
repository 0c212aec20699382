"""A temporary certificate authority for tests."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from certs.authority import issue, new_authority

_LIFETIME = timedelta(days=1)


class Authority:
    """Issues leaves for loopback and writes them to a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pair = new_authority("test authority", _LIFETIME, datetime.now(UTC))
        self.ca = folder / "ca.pem"
        self.ca.write_bytes(self._pair.certificate_pem)

    def issue(self, name: str) -> tuple[Path, Path]:
        """Return the paths of the certificate and the key of a name. Repeated calls return the same files."""
        certificate, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        if not certificate.exists():
            leaf = issue(self._pair, name, ["localhost", "127.0.0.1"], _LIFETIME, datetime.now(UTC))
            key.write_bytes(leaf.key_pem)
            certificate.write_bytes(leaf.certificate_pem)
        return certificate, key
