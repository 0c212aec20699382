"""The options of servers that ask the extender: its certificate, and how to authenticate."""

from pathlib import Path
from typing import TYPE_CHECKING

from berthmaster_cli.flags import Flags, option
from berthmaster_cli.options import certificate_pair

if TYPE_CHECKING:
    from berthmaster.native_api.access import ExtenderAccess


class ExtenderAccessFlags(Flags):
    """How to ask the extender. A prefix precedes the names."""

    ca_file: Path | None = option("The CAs of the extender's certificate. Default: those of the system.")
    token_file: Path | None = option("A file whose first line is the bearer token for the extender.")
    client_cert_file: Path | None = option("The client certificate for the extender, in PEM.")
    client_key_file: Path | None = option("The private key of that certificate, in PEM.")


def extender_access_from(url: str, flags: ExtenderAccessFlags, prefix: str, connections: int) -> "ExtenderAccess":
    """Return the access to an extender."""
    from berthmaster.native_api.access import ExtenderAccess  # noqa: PLC0415 - `--help` must not import the client

    certificate, key = certificate_pair(flags.client_cert_file, flags.client_key_file, f"{prefix}-client-") or (
        None,
        None,
    )
    return ExtenderAccess(url, flags.ca_file, flags.token_file, certificate, key, connections)
