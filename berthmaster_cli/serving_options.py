"""The options that services have in common, with one meaning and one default."""

from collections.abc import Callable, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

import click

from berthmaster.runtime import logs
from berthmaster.serving.tls import TLSFiles

if TYPE_CHECKING:
    from berthmaster.serving.server import ServerOptions


def server_options(name: str, given: Mapping[str, Any], tls: TLSFiles | None) -> "ServerOptions":
    """How to serve, from the options that all services have; ``name`` is what its processes are called."""
    from berthmaster.serving.server import ServerOptions  # noqa: PLC0415 - `--help` must not wait for the server

    return ServerOptions(
        name=name,
        host=given["bind"][0],
        port=given["bind"][1],
        probe_host=given["probe_bind"][0],
        probe_port=given["probe_bind"][1],
        tls=tls,
        workers=given["workers"],
        threads=given["threads"],
        request_timeout_s=given["request_timeout_s"],
        keepalive_s=given["keepalive_s"],
        drain_s=given["drain_s"],
        grace_s=given["grace_s"],
    )


def log_level_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--log-level``."""
    option = click.option(
        "--log-level", type=click.Choice(logs.LEVELS), default="info", show_default=True, help="What is logged."
    )
    return option(command)


def lifetime_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """How many processes serve, how long connections stay, and how an end comes about."""
    options = (
        click.option("--workers", type=click.IntRange(1, 64), default=2, show_default=True, help="Processes."),
        click.option(
            "--keepalive-s", type=click.IntRange(1, 3600), default=120, show_default=True,
            help="How long idle connections stay.",
        ),
        click.option(
            "--drain-s", type=click.FloatRange(0, 300), default=3.0, show_default=True,
            help="How long /readyz fails before connections are refused.",
        ),
        click.option(
            "--grace-s", type=click.IntRange(1, 300), default=20, show_default=True,
            help="How long requests under way may take after that.",
        ),
        log_level_option,
    )  # fmt: skip
    return reduce(lambda decorated, option: option(decorated), reversed(options), command)
