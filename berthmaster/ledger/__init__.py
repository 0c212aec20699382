"""The ledger: every decision on record, found, explained and replayed later.

Modules that write: ``recorder`` (queue and thread), ``batches`` (entries to bytes), ``fleet_versions`` (clusters to
changes), ``store`` (bytes to a database). Modules that read: ``history`` (find records), ``past`` (the state that a
decision read, and how to decide again). ``batches`` has the hash chain by which ``audit`` finds changed records.

What reads raises ``LedgerError`` if the database cannot be read, ``NotRecordedError`` if it has no such record, and
``InputError`` if a record is damaged.

Only ``store``, ``schema`` and ``migrations`` import SQLAlchemy. A process without a ledger never imports it.
"""
