"""The `berthmaster` command: the only package that may import all others."""

import click

from berthmaster_cli.help_formatter import WholeWordFormatter

# Here, because each module of commands is imported after its package: `--help` looks the same from all of them.
click.Context.formatter_class = WholeWordFormatter
