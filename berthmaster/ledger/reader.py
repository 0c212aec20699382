"""A ledger that a service reads. The database is opened with the first question, in the process that asks it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from berthmaster.ledger.records import Page, PastExplanation, Query, RecordId
from berthmaster.model.errors import InputError, LedgerError
from berthmaster.simulation.why_not import WhyNot

if TYPE_CHECKING:
    from berthmaster.ledger.store import Store


class LedgerReader:
    """A ledger that can be asked. Any thread may call it."""

    def __init__(self, url: str | Path) -> None:
        """Prepare to read the ledger at a URL, or at the one that a file holds. Each opening reads the file again."""
        self._url = url
        self._opening = threading.Lock()
        self._store: Store | None = None

    def page(self, query: Query, limit: int, after: RecordId | None = None) -> Page:
        """Return records, the latest first. Raises ``InputError`` if ``after`` is not in the ledger, or for damage."""
        from berthmaster.ledger.history import page  # noqa: PLC0415 - SQLAlchemy is imported only for a ledger

        with self._reading() as store:
            return page(store, query, limit, after)

    def explain(self, wanted: Query | RecordId, *, difference: bool = False) -> PastExplanation:
        """Explain a recorded decision; see ``explain_decision``."""
        from berthmaster.ledger.differences import explain_decision  # noqa: PLC0415 - the same

        with self._reading() as store:
            return explain_decision(store, wanted, difference=difference)

    def why_not(self, wanted: Query | RecordId, cluster: str) -> WhyNot:
        """Return the smallest change under which a recorded decision would have taken a cluster.

        Raises ``InputError`` if the fleet of the decision has no such cluster; or as ``explain``.
        """
        from berthmaster.ledger.differences import why_not_then  # noqa: PLC0415 - the same

        with self._reading() as store:
            return why_not_then(store, wanted, cluster)

    @contextmanager
    def _reading(self) -> "Iterator[Store]":
        try:
            yield self._opened()
        except LedgerError:
            self._close()  # the next question opens it again
            raise

    def _opened(self) -> "Store":
        from berthmaster.ledger.store import open_store  # noqa: PLC0415 - the same

        with self._opening:
            if self._store is None:
                try:
                    self._store = open_store(self._url)
                except InputError as error:  # the options were checked at the start, and clients cannot correct them
                    raise LedgerError(str(error)) from None
            return self._store

    def _close(self) -> None:
        with self._opening:
            store, self._store = self._store, None
        if store is not None:
            store.close()
