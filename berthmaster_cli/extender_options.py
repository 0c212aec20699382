"""The options of servers that ask the extender: its certificate, and how to authenticate."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from berthmaster_cli.options import FILE, Decorator, certificate_pair, option_group

if TYPE_CHECKING:
    from berthmaster.native_api.access import ExtenderAccess


def extender_options(prefix: str) -> Decorator:
    """Return a decorator that adds the options, whose names begin with a prefix."""
    return option_group(
        click.option(
            f"--{prefix}-ca-file", type=FILE,
            help="The CAs of the extender's certificate. Default: those of the system.",
        ),
        click.option(
            f"--{prefix}-token-file", type=FILE,
            help="A file whose first line is the bearer token for the extender.",
        ),
        click.option(
            f"--{prefix}-client-cert-file", type=FILE, help="The client certificate for the extender, in PEM.",
        ),
        click.option(
            f"--{prefix}-client-key-file", type=FILE, help="The private key of that certificate, in PEM.",
        ),
    )  # fmt: skip


def extender_access_from(given: Mapping[str, Any], prefix: str, connections: int) -> "ExtenderAccess":
    """Make the access to the extender from the values of ``extender_options`` and of ``--PREFIX-url``.

    Raises:
        click.UsageError: a certificate has no key, or the reverse.
        InputError: the URL is not that of a service.
    """
    from berthmaster.native_api.access import ExtenderAccess  # noqa: PLC0415 - `--help` must not import the client

    certificate, key = certificate_pair(given, f"{prefix}-client-cert-file", f"{prefix}-client-key-file") or (
        None,
        None,
    )
    url, ca_file, token_file = (given[f"{prefix}_{name}"] for name in ("url", "ca_file", "token_file"))
    return ExtenderAccess(url, ca_file, token_file, certificate, key, connections)
