"""The version, read by the build and printed by `berthmaster --version`."""

__version__ = "0.2.0"
