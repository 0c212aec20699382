"""The `berthmaster` command: the only package that may import all others.

Errors end a command in ``main``: ``click.UsageError`` for options that have another form or contradict each other,
``InputError`` for files, objects and names, ``ServiceError`` (``ApiError``) if a control plane or a service refuses or
does not respond, ``LedgerError`` for the database of the ledger. A docstring names only those that its reader would not
expect.
"""
