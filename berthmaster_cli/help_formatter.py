"""The layout of ``--help``. Lines break at spaces only, so that the name of an option stays whole."""

from collections.abc import Iterable
from typing import Final

import click

_UNBREAKABLE: Final = "\u2011"
"""The hyphen at which no line breaks. It stands for a hyphen while click wraps a text."""


class WholeWordFormatter(click.HelpFormatter):
    """Wraps a text at spaces only. Click breaks lines at hyphens too, as in ``--client-`` and ``ca-file``."""

    def write_text(self, text: str) -> None:
        super().write_text(text.replace("-", _UNBREAKABLE))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        super().write_dl([(name, text.replace("-", _UNBREAKABLE)) for name, text in rows], col_max, col_spacing)

    def write(self, string: str) -> None:
        super().write(string.replace(_UNBREAKABLE, "-"))
