"""The error of an interpreter script."""

from berthmaster.model.errors import InputError


class ScriptError(InputError):
    """A script failed."""


class ExhaustedError(ScriptError):
    """A script exceeded a limit of time, steps or memory. It is not run again."""
