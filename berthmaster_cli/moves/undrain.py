"""``berthmaster undrain``; see ``drain``."""

from berthmaster_cli.moves.drain import undrain as command

__all__ = ["command"]
