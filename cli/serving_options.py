"""The options that services have in common, with one meaning and one default."""

from collections.abc import Callable
from functools import reduce
from typing import Any

import click

from fleet.ops import logs


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
