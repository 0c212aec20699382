"""The error of an interpreter script."""

from berthmaster.model.errors import InputError


class ScriptError(InputError):
    """A script failed, or it exceeded a limit."""
