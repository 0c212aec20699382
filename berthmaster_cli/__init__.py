"""The `berthmaster` command: the one place that may know everybody."""
