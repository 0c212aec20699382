"""The `berthmaster` command: the only package that may import all others."""
