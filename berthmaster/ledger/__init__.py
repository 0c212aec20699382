"""The ledger: every decision on record, found, explained and replayed later.

Modules that write: ``recorder`` (queue and thread), ``entries`` and ``batch_writer`` (records to batches),
``fleet_versions`` (clusters to changes), ``store`` (bytes to a database), ``retention`` (what is kept). Modules that
read: ``history`` (find records), ``past`` (the state that a decision read), ``replay`` (how to decide again),
``explanations`` and ``differences`` (why). ``hash_chain`` is how ``audit`` finds changed records.

What reads raises ``LedgerError`` if the database cannot be read, ``NotRecordedError`` if it has no such record, and
``InputError`` if a record is damaged.

Only ``store``, ``retention``, ``schema`` and what reads the database import SQLAlchemy. A process without a ledger
never imports it.
"""
