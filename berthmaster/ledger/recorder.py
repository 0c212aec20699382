"""Record decisions without holding them up: a bounded queue, and one thread that encodes and writes batches.

The database may be slow, full, locked or gone. Then encoded batches wait in memory up to a limit, further records wait
in the queue up to its limit, and what does not fit is counted. A note says how many records are missing once the
database can be written again. Nothing here blocks or fails a decision.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from prometheus_client import Counter, Gauge

from berthmaster.deciding.decision_recorder import DecisionRecord
from berthmaster.ledger.batch_writer import BatchWriter
from berthmaster.ledger.batches import SealedBatch
from berthmaster.ledger.entries import Configuration
from berthmaster.ledger.records import END_US
from berthmaster.ledger.retention import Retention
from berthmaster.ledger.store import OpenSegment, SegmentLostError, Store, open_store
from berthmaster.ledger.times import microseconds
from berthmaster.model.errors import InputError, LedgerError
from berthmaster.model.note import Note
from berthmaster.runtime.clock import Clock
from berthmaster.runtime.logs import fields, log_exceptions

RECORDS: Final = Counter("berthmaster_ledger_records", "Records, by what became of them: written or lost.", ("result",))
BYTES: Final = Counter("berthmaster_ledger_written_bytes", "Bytes of compressed records that were written.")
FAILING: Final = Gauge(
    "berthmaster_ledger_failing",
    "1 while the database of the ledger cannot be written, else 0.",
    multiprocess_mode="livemax",
)
WAITING: Final = Gauge(
    "berthmaster_ledger_waiting_records", "Records that are not written yet.", multiprocess_mode="livesum"
)
SIZE: Final = Gauge(
    "berthmaster_ledger_size_bytes", "What the database of the ledger stores.", multiprocess_mode="livemax"
)


for _result in ("written", "lost"):
    RECORDS.labels(_result)

QUEUE_RECORDS: Final = 4096
_PENDING_BYTES: Final = 16 * 2**20
_FLUSH_S: Final = 1.0
_FEW_RECORDS: Final = 16
_MOST_WAITS: Final = 5
_WAKE_RECORDS: Final = 512
_RETRY_S: Final = (0.5, 1.0, 2.0, 5.0, 10.0)
_SEGMENT_RECORDS: Final = 50_000
_SEGMENT_BYTES: Final = 64 * 2**20
_SEGMENT_DOCUMENTS: Final = 100_000
_SEGMENT_S: Final = 24 * 3600.0
_RETENTION_S: Final = 60.0
_LOG: Final = logging.getLogger("berthmaster.ledger")


class Dated(NamedTuple):
    """A note in the queue, with its time."""

    at: datetime
    note: Note


class LedgerRecorder:
    """Writes records to a ledger. It implements ``DecisionRecorder``. Safe for several threads.

    At most ``most_waiting`` records wait, encoded or not. A process that ends by a crash loses no more. The next
    process of the same role finds the segment without an end, and writes a note about it.
    """

    def __init__(
        self,
        url: str | Path,
        role: str,
        writer: str,
        configuration: Configuration,
        clock: Clock,
        *,
        retention: Retention | None = None,
        most_waiting: int = QUEUE_RECORDS,
        flush_s: float = _FLUSH_S,
        segment_s: float = _SEGMENT_S,
        alone: bool = True,
        opened: Callable[[str | Path], Store] = lambda url: open_store(url, create=True),
    ) -> None:
        """Prepare to write. The first record opens the database.

        Args:
            url: the database, or the file that holds its URL.
            retention: what to remove, and when; None removes nothing.
            flush_s: how long a few records wait for others of their batch. More wait up to five times as long.
            segment_s: the longest time of a segment. Then it ends, even if nothing is written.
            alone: whether no other process of this role writes at the same time. Otherwise a segment without an end is
                that of a process that ended only after twice the longest time of a segment.
        """
        self._url, self._role, self._writer = url, role, writer
        self._configuration = configuration
        self._clock = clock
        self._retention = retention
        self._most_waiting = most_waiting
        self._flush_s = flush_s
        self._segment_us = round(segment_s * 1e6)
        self._alone = alone
        self._open = opened
        self._queue: deque[DecisionRecord | Dated] = deque()
        self._dropping = threading.Lock()
        self._dropped = 0
        self._wake, self._stopping = threading.Event(), threading.Event()
        self._store: Store | None = None
        self._segment: OpenSegment | None = None
        self._batch: BatchWriter | None = None
        self._sealed: deque[SealedBatch] = deque()
        self._sealed_records = self._sealed_bytes = 0
        self._ending = False
        self._opened_us = 0
        self._segment_bytes = 0
        self._failures = 0
        self._retry_at_s = 0.0
        self._retained_at_s = -_RETENTION_S
        self._thread = threading.Thread(target=self._run, name="ledger", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def decided(self, record: DecisionRecord) -> None:
        """Record a decision. Never blocks, never raises."""
        self._put(record)

    def noted(self, note: Note) -> None:
        """Record another fact. Never blocks, never raises."""
        self._put(Dated(self._clock.now(), note))

    def flush(self, *, last: bool = False) -> None:
        """Write what waits at once. Only for processes that do not start the thread. Raises as ``Store``."""
        if self._queue or self._segment is not None:
            self._open_segment()
            self._encode()
            self._seal()
            self._write()
        if last:
            self._end(f"{self._role} {self._writer} stops")
            if self._store is not None:
                self._store.close()
                self._store = None

    def close(self, timeout_s: float) -> None:
        """Write what waits, end the segment, and stop the thread; give up after a time."""
        self._stopping.set()
        self._wake.set()
        self._thread.join(timeout_s)

    def _put(self, record: DecisionRecord | Dated) -> None:
        if self._waiting() >= self._most_waiting:
            with self._dropping:
                self._dropped += 1
            RECORDS.labels("lost").inc(1)
            return
        self._queue.append(record)
        if len(self._queue) >= _WAKE_RECORDS:
            self._wake.set()

    def _waiting(self) -> int:
        """Return how many records are not written yet. Other threads may add some meanwhile."""
        batch = self._batch
        return len(self._queue) + self._sealed_records + (0 if batch is None else len(batch))

    def _run(self) -> None:
        waits = 0
        while not self._stopping.is_set():
            woken = self._wake.wait(self._flush_s)
            self._wake.clear()
            waits += 1
            # A write costs about as much as ten records. A few are written soon, and in a burst records wait for more.
            if not woken and len(self._queue) > _FEW_RECORDS and waits < _MOST_WAITS:
                continue
            waits = 0
            log_exceptions(self.step, _LOG, "the ledger crashed")
        log_exceptions(self.finish, _LOG, "the ledger crashed")

    def step(self) -> None:
        """Encode what waits, and write it, unless the next attempt is not due yet. The thread calls this."""
        if self._segment is None and not self._queue and not self._dropped:
            return
        if self._clock.monotonic_s() < self._retry_at_s:
            self._encode()
            return
        try:
            if self._is_old and not self._queue:
                self._end("the next segment continues")  # the next record opens another one
            if self._segment is not None or self._queue or self._dropped:
                self._open_segment()
                self._encode()
                self._seal()
                self._write()
                self._note_dropped(self._batch)
                self._retain()
        except SegmentLostError as error:
            self._abandon(error)
        except (LedgerError, InputError) as error:
            self._failed(error)
        else:
            self._recovered()
        WAITING.set(self._waiting())

    def _open_segment(self) -> None:
        if self._store is None:
            self._store = self._open(self._url)
        if self._segment is not None and self._batch is not None:
            if not self._is_long(self._batch):
                return
            self._end("the next segment continues")
        now = min([self._clock.now(), *(each.at for each in list(self._queue)[:1])])
        before_us = END_US if self._alone else microseconds(now) - 2 * self._segment_us
        self._segment, unended = self._store.open_segment(self._role, self._writer, microseconds(now), before_us)
        self._batch = BatchWriter(self._configuration)
        self._opened_us, self._segment_bytes, self._ending = microseconds(now), 0, False
        self._batch.note(now, Note("start", f"{self._role} {self._writer} writes", details={"writer": self._writer}))
        for segment, writer, last_us in unended:
            details = {"segment": segment, "writer": writer, "lastUs": last_us, "atMost": self._most_waiting}
            message = (
                f"{writer} ended without a stop: at most {self._most_waiting} records that waited are missing, "
                "and those that no longer fitted"
            )
            self._batch.note(now, Note("gap", message, name=str(segment), details=details))

    @property
    def _is_old(self) -> bool:
        return microseconds(self._clock.now()) - self._opened_us >= self._segment_us

    def _is_long(self, batch: BatchWriter) -> bool:
        return (
            batch.records >= _SEGMENT_RECORDS
            or batch.documents >= _SEGMENT_DOCUMENTS
            or self._segment_bytes >= _SEGMENT_BYTES
            or self._is_old
        )

    def _encode(self) -> None:
        """Move records from the queue to the open batch, while encoded batches may wait."""
        batch = self._batch
        if batch is None:
            return
        self._sort()
        while self._queue and self._sealed_bytes < _PENDING_BYTES:
            record = self._queue.popleft()
            if isinstance(record, Dated):
                batch.note(record.at, record.note)
            else:
                batch.add(record)
            if batch.full:
                self._seal()

    def _sort(self) -> None:
        """Bring the decisions of the queue into the order in which they were taken. Other threads may add some.

        A decision is recorded after its write, so several workers change the order. A fleet version is a delta on the
        one before, which is smallest in the order of the decisions.
        """
        records = list(self._queue)
        taken = [each for each in records if isinstance(each, DecisionRecord)]
        decisions = iter(sorted(taken, key=lambda each: each.inputs.now_s))
        for at, record in enumerate(records):
            if isinstance(record, DecisionRecord):
                self._queue[at] = next(decisions)

    def _note_dropped(self, batch: BatchWriter | None) -> None:
        """Add a note about the records that are missing. Only called while the database can be written."""
        if batch is None:
            return
        with self._dropping:
            dropped, self._dropped = self._dropped, 0
        if dropped:
            message = f"{dropped} records are missing: the ledger could not be written fast enough"
            batch.note(self._clock.now(), Note("gap", message, details={"missing": dropped}))

    def _seal(self) -> None:
        if self._batch is not None and len(self._batch):
            batch = self._batch.seal()
            self._sealed.append(batch)
            self._sealed_records += len(batch.rows)
            self._sealed_bytes += batch.size

    def _write(self) -> None:
        while self._sealed and self._store is not None and self._segment is not None:
            batch = self._sealed[0]
            self._store.append(self._segment, batch)
            self._sealed.popleft()
            self._sealed_records -= len(batch.rows)
            self._sealed_bytes -= batch.size
            self._segment_bytes += batch.size
            RECORDS.labels("written").inc(len(batch.rows))
            BYTES.inc(batch.size)

    def _retain(self) -> None:
        """Remove a few old batches; look for more in a minute if there are none."""
        now_s = self._clock.monotonic_s()
        if self._retention is None or self._store is None or self._batch is None or self._segment is None:
            return
        if now_s - self._retained_at_s < _RETENTION_S:
            return
        if not self._store.may_remove():
            _LOG.warning(
                "the user of the ledger does not own its tables: old records stay until `berthmaster ledger retention` "
                "runs as their owner"
            )
            self._retention = None
            return
        note = self._retention.step(self._store, self._segment.segment, self._clock.now())
        if note is not None:
            self._batch.note(self._clock.now(), note)
        if not self._retention.busy:
            self._retained_at_s = now_s
            SIZE.set(self._store.size_bytes())

    def _end(self, message: str) -> None:
        """End the segment: its last record is a stop."""
        if self._batch is not None and self._segment is not None:
            if not self._ending:
                self._batch.note(self._clock.now(), Note("stop", message))
                self._ending = True  # a write that fails is tried again
            self._seal()
            self._write()
            self._segment, self._batch = None, None

    def finish(self) -> None:
        """Write what waits, end the segment, and close the database. The thread calls this last."""
        self._retry_at_s = 0.0
        try:
            if self._queue or self._dropped or self._segment is not None:
                self._open_segment()
            self._encode()
            self._note_dropped(self._batch)
            self._end(f"{self._role} {self._writer} stops")
        except (LedgerError, InputError) as error:
            missing = self._waiting()
            RECORDS.labels("lost").inc(missing)
            _LOG.warning("the ledger lacks the last records", extra=fields(missing=missing, problem=str(error)))
        finally:
            if self._store is not None:
                self._store.close()

    def _abandon(self, error: SegmentLostError) -> None:
        """Start a new segment: what was encoded for the lost one cannot be read without it."""
        waiting = self._waiting() - len(self._queue)
        with self._dropping:
            self._dropped += waiting
        RECORDS.labels("lost").inc(waiting)
        self._sealed.clear()
        self._sealed_records = self._sealed_bytes = 0
        self._segment, self._batch = None, None
        self._failed(error)

    def _failed(self, error: LedgerError | InputError) -> None:
        """Report the first of several failures, and wait before the next attempt."""
        if not self._failures:
            _LOG.error("the ledger cannot be written; decisions go on", extra=fields(problem=str(error)))
        if self._store is not None:
            self._store.close()
            self._store = None
        self._retry_at_s = self._clock.monotonic_s() + _RETRY_S[min(self._failures, len(_RETRY_S) - 1)]
        self._failures += 1
        FAILING.set(1)

    def _recovered(self) -> None:
        if self._failures:
            _LOG.info("the ledger is written again", extra=fields(failures=self._failures))
        self._failures = 0
        FAILING.set(0)
