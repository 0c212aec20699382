"""A ledger that a service reads. The database is opened with the first question, in the process that asks it."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from berthmaster.ledger.decided import DecidedPart, decided, first_us
from berthmaster.ledger.explanations import explain_decision, why_not_then
from berthmaster.ledger.history import page
from berthmaster.ledger.records import Page, PastExplanation, Query, RecordId
from berthmaster.ledger.store import Store, open_store
from berthmaster.model.errors import InputError, LedgerError
from berthmaster.simulation.why_not import WhyNot


class LedgerReader:
    """A ledger that can be asked. Any thread may call it."""

    def __init__(self, url: str | Path) -> None:
        """Prepare to read the ledger at a URL, or at the one that a file holds. Each opening reads the file again."""
        self._url = url
        self._opening = threading.Lock()
        self._store: Store | None = None

    def page(self, query: Query, limit: int, after: RecordId | None = None) -> Page:
        """Return records, the latest first. Raises ``InputError`` if ``after`` is not in the ledger, or for damage."""
        with self._reading() as store:
            return page(store, query, limit, after)

    def explain(self, wanted: Query | RecordId, *, difference: bool = False) -> PastExplanation:
        with self._reading() as store:
            return explain_decision(store, wanted, difference=difference)

    def why_not(self, wanted: Query | RecordId, cluster: str) -> WhyNot:
        with self._reading() as store:
            return why_not_then(store, wanted, cluster)

    def first_us(self) -> int | None:
        """Return the time from which on there are decisions, in microseconds since 1970; None without any."""
        with self._reading() as store:
            return first_us(store)

    def decided(self, since_us: int, known: Mapping[int, int]) -> Iterator[DecidedPart]:
        """Yield decisions in parts; see ``berthmaster.ledger.decided``."""
        with self._reading() as store:
            yield from decided(store, since_us, known)

    @contextmanager
    def _reading(self) -> Iterator[Store]:
        with self._opening:
            if self._store is None:
                try:
                    self._store = open_store(self._url)
                except InputError as error:  # the options were checked at the start, and clients cannot correct them
                    raise LedgerError(str(error)) from None
            store = self._store
        try:
            yield store
        except LedgerError:
            with self._opening:
                if self._store is store:
                    self._store = None  # the next question opens it again
            store.close()
            raise
