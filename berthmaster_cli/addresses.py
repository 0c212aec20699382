"""Addresses as options write them."""

from typing import Any

import click


class Address(click.ParamType[tuple[str, int]]):
    """``HOST:PORT``, an IPv6 host in brackets."""

    name = "HOST:PORT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:  # noqa: ANN401
        """Take it apart."""
        if isinstance(value, tuple):
            return value
        host, colon, port = str(value).rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        if not colon or not port.isdecimal() or len(port) > 5 or int(port) > 65535 or (":" in host and not bracketed):
            self.fail(f"{value!r} is not HOST:PORT, as in 0.0.0.0:8443 or [::]:8443", param, ctx)
        return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - what an empty host means everywhere
