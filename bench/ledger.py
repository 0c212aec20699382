"""Measure the ledger: ``make bench-ledger``, or with ``ARGS="--decisions 1000000"``.

Three measurements, on SQLite in a temporary folder or at ``--ledger``:

- size: what a decision takes if 10 % of the clusters change their numbers between two decisions,
- time: what recording costs the deciding thread and the writing thread,
- queries: how long it takes to find and explain any of many decisions.
"""

import gc
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import click
import msgspec
from workloads import generated

from berthmaster.controllers.binding_scheduler.cluster_cache import ClusterCache
from berthmaster.deciding.decide import outcome_of
from berthmaster.deciding.decision_recorder import DecisionRecord
from berthmaster.deciding.failover import FailoverOptions
from berthmaster.ledger.entries import Configuration
from berthmaster.ledger.explanations import past_explanation, recall
from berthmaster.ledger.history import page
from berthmaster.ledger.recorder import LedgerRecorder
from berthmaster.ledger.records import Query
from berthmaster.ledger.store import Store, open_store
from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.quantity import Quantity
from berthmaster.runtime.clock import SystemClock
from berthmaster.scheduling.karmada.profile import built_in, karmada_profile

_START: Final = datetime(2026, 1, 1, tzinfo=UTC)
_NAMES: Final = 20_000
_QUERIES: Final = 200
_CHANGED_EVERY: Final = 100
"""In the ledger of many decisions the clusters change this seldom: only the size needs frequent changes."""


class Fleet:
    """Clusters whose numbers change, and bindings to decide on."""

    def __init__(self, clusters: int, seed: int = 1) -> None:
        workload = next(each for each in generated(1) if len(each.clusters) == clusters)
        self._random = random.Random(seed)
        self._clusters = list(workload.clusters)
        self._bindings = [each for each in workload.bindings if each.spec.placement is not None]
        self.cache = ClusterCache(
            karmada_profile(), SystemClock(), FailoverOptions(), keeps_inputs=True, overcommit_protection=False
        )
        for each in self._clusters:
            self.cache.update_cluster(each)

    def change(self, count: int) -> None:
        """Change the allocated CPU, memory and pods of some clusters."""
        for index in self._random.sample(range(len(self._clusters)), count):
            changed = self._clusters[index] = self._busier(self._clusters[index])
            self.cache.update_cluster(changed)

    def decision(self, number: int) -> DecisionRecord:
        """Decide on a binding that was never scheduled; its workload is one of 20,000."""
        binding = self._named(self._bindings[number % len(self._bindings)], number % _NAMES)
        decided = self.cache.decide_and_assume(binding.metadata.key, binding)
        if decided.inputs is None:
            raise click.ClickException("a decision is not recorded")
        at = _START + timedelta(seconds=number)
        return DecisionRecord(at, f"{number:08x}", binding, decided.inputs, outcome_of(decided), 0.002)

    def _busier(self, cluster: Cluster) -> Cluster:
        summary = cluster.status.resource_summary
        if summary is None:
            return cluster
        allocated = dict(summary.allocated)
        for name, step in (("cpu", 50 * 10**6), ("memory", 2**20 * 10**9), ("pods", 10**9)):
            before = allocated[name].nanos if name in allocated else 0
            nanos = max(0, before + step * self._random.randint(-40, 40))
            allocated[name] = Quantity(nanos, Quantity(nanos, "").canonical())
        status = msgspec.structs.replace(
            cluster.status, resource_summary=msgspec.structs.replace(summary, allocated=allocated)
        )
        return msgspec.structs.replace(cluster, status=status)

    @staticmethod
    def _named(binding: Binding, number: int) -> Binding:
        name = f"w{number}"
        metadata = msgspec.structs.replace(
            binding.metadata, name=f"{name}-deployment", namespace="bench", uid=f"{number:032x}", annotations={}
        )
        resource = msgspec.structs.replace(binding.spec.resource, name=name, namespace="bench", uid=f"{number:032x}")
        spec = msgspec.structs.replace(binding.spec, resource=resource, clusters=())
        return msgspec.structs.replace(binding, metadata=metadata, spec=spec)


class DecisionClock(SystemClock):
    """The time of the decisions, one each second. A segment lasts a day of it.

    Attributes:
        decisions: how many decisions were taken.
    """

    def __init__(self) -> None:
        self.decisions = 0

    def now(self) -> datetime:
        return _START + timedelta(seconds=self.decisions)


def recorder_of(url: str, clock: DecisionClock) -> LedgerRecorder:
    """Return a recorder without a thread: the benchmark calls ``step``."""
    plugins = tuple(built_in().names)
    return LedgerRecorder(url, "controllers", "bench", Configuration("bench", plugins), clock)


def fill(url: str, fleet: Fleet, decisions: int, changing: int, every: int) -> tuple[float, float, float]:
    """Record decisions; return the processor seconds of deciding, of handing over, and of encoding and writing."""
    clock = DecisionClock()
    recorder = recorder_of(url, clock)
    deciding_s = handing_s = writing_s = 0.0
    for number in range(decisions):
        if number % every == 0:
            fleet.change(changing)
        clock.decisions = number
        started_s = time.process_time()
        record = fleet.decision(number)
        decided_s = time.process_time()
        recorder.decided(record)
        handed_s = time.process_time()
        deciding_s, handing_s = deciding_s + decided_s - started_s, handing_s + handed_s - decided_s
        if number % 64 == 63:
            recorder.step()
            writing_s += time.process_time() - handed_s
    recorder.flush(last=True)
    return deciding_s, handing_s, writing_s


class Times:
    """Measured times of one question.

    Attributes:
        wall_s: by the clock. Other processes of the machine prolong them.
        processor_s: of the processor.
    """

    def __init__(self) -> None:
        self.wall_s: list[float] = []
        self.processor_s: list[float] = []

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure what the block does."""
        wall_s, processor_s = time.perf_counter(), time.process_time()
        yield
        self.wall_s.append(time.perf_counter() - wall_s)
        self.processor_s.append(time.process_time() - processor_s)

    def show(self, what: str) -> None:
        """Print the median and the maximum."""
        for seconds, kind in ((self.wall_s, "by the clock"), (self.processor_s, "of processor time")):
            print(
                f"{statistics.median(seconds) * 1e3:8.1f} ms median, {max(seconds) * 1e3:.1f} ms at most {kind}: {what}"
            )


def show_costs(times_s: Sequence[float], decisions: int, when: str) -> None:
    """Print the processor time of each part of a decision."""
    for what, seconds in zip(("decide", "hand over", "encode and write"), times_s, strict=True):
        print(f"{seconds / decisions * 1e6:8.1f} us of processor time a decision to {what}, {when}")


def query(store: Store, decisions: int) -> None:
    """Time questions about random decisions, in a process that keeps its modules out of garbage collections.

    The extender does the same.
    """
    gc.collect()
    gc.freeze()
    chosen = random.Random(2)
    finding, explaining, listing = Times(), Times(), Times()
    for _ in range(_QUERIES):
        number = chosen.randrange(decisions)
        at_us = round((_START + timedelta(seconds=number)).timestamp() * 1e6)
        query = Query("bench", "Deployment", f"w{number % _NAMES}", until_us=at_us)
        with explaining.measured():
            with finding.measured():
                recalled = recall(store, query)
            explained = past_explanation(recalled)
        if not explained.reproduced:
            raise click.ClickException(f"decision {recalled.past.id} is not reproduced")
        cluster = next(iter(explained.record.after or {"": 0}))
        with listing.measured():
            rows = page(store, Query(cluster=cluster, until_us=at_us), 50)
        if not rows.rows:
            raise click.ClickException("the history of a cluster is empty")
    finding.show("one decision found, with its fleet")
    explaining.show("one decision found and explained")
    listing.show("50 records of one cluster")


@click.command()
@click.option("--decisions", default=100_000, show_default=True, help="How many decisions the queries choose from.")
@click.option("--clusters", default=1000, show_default=True, help="The number of clusters: 3, 10, 100, 1000 or 5000.")
@click.option("--changing", default=0.1, show_default=True, help="The share of clusters that change.")
@click.option("--size-decisions", default=3000, show_default=True, help="How many decisions the size is measured with.")
@click.option("--ledger", "url", default="", help="The database; default: SQLite in a temporary folder.")
def main(*, decisions: int, clusters: int, changing: float, size_decisions: int, url: str) -> None:
    """Measure the size of the ledger, the cost of recording, and the time of queries."""
    folder = Path(tempfile.mkdtemp(prefix="berthmaster-bench-ledger-"))
    try:
        sized = url or f"sqlite:///{folder / 'size.db'}"
        times_s = fill(sized, Fleet(clusters), size_decisions, round(clusters * changing), 1)
        store = open_store(sized, create=True)
        print(f"{store.size_bytes() / size_decisions:8.0f} bytes a decision, {clusters * changing:.0f} clusters change")
        show_costs(times_s, size_decisions, f"{clusters * changing:.0f} clusters change")
        store.close()
        many = url or f"sqlite:///{folder / 'many.db'}"
        started_s = time.perf_counter()
        times_s = fill(many, Fleet(clusters), decisions, round(clusters * changing), _CHANGED_EVERY)
        print(f"{decisions} decisions recorded in {time.perf_counter() - started_s:.0f} s")
        show_costs(times_s, decisions, "few clusters change")
        store = open_store(many)
        print(f"{store.size_bytes() / 2**20:8.0f} MiB of {decisions} decisions")
        query(store, decisions)
        store.close()
    finally:
        for path in folder.iterdir():
            path.unlink()
        with suppress(OSError):
            folder.rmdir()


if __name__ == "__main__":
    main()
