"""A binding scheduler without an API server that records to a ledger, for tests of the ledger."""

import tempfile
from collections.abc import Iterable
from datetime import timedelta
from functools import cache
from pathlib import Path

import msgspec
from builders import cluster
from decisions import AGGREGATED, asked
from fake_clock import FakeClock
from fixed_control import FixedControl

from berthmaster.controllers.binding_scheduler.cluster_cache import ClusterCache
from berthmaster.controllers.moves.supervisor import MoveSupervisor
from berthmaster.deciding.admissions import Admissions, Budgets
from berthmaster.deciding.config import MovesConfig
from berthmaster.deciding.decide import outcome_of
from berthmaster.deciding.decision_recorder import DecisionRecord
from berthmaster.deciding.failover import FailoverOptions
from berthmaster.deciding.move_settings import MoveSettings, SourceSettings
from berthmaster.deciding.writes import Version, status_write
from berthmaster.ledger.entries import Configuration
from berthmaster.ledger.recorder import LedgerRecorder
from berthmaster.ledger.store import Store, open_store
from berthmaster.model.binding import AggregatedStatusItem, Binding
from berthmaster.model.claims import MANAGED_BY
from berthmaster.model.meta import with_metadata, with_spec, with_status
from berthmaster.model.note import Note
from berthmaster.model.work import Copies, CopyOfWorkload
from berthmaster.scheduling.karmada.profile import built_in, karmada_profile

FAILOVER_AFTER_S = 60.0
MOVES = MovesConfig(
    defaults=MoveSettings(failback=SourceSettings("On", after_s=5, headroom_percent=0), soak_s=1, deadline_s=30)
)
PLUGINS = built_in(workload_affinity=True)
CONFIGURATION = Configuration("test", tuple(PLUGINS.names), failover_after_s=FAILOVER_AFTER_S)


class Scheduling:
    """Decides on bindings, writes the decisions to them, and records them.

    Attributes:
        clusters: the clusters, with assumed replicas.
        recorder: the ledger; None records nothing.
        bindings: by key, as written.
        recorded: the decisions in order.
    """

    def __init__(
        self,
        recorder: LedgerRecorder | None,
        clock: FakeClock,
        ask=None,
        config=MOVES,
        failover_after_s=FAILOVER_AFTER_S,
    ) -> None:
        self.clock = clock
        control = FixedControl(Admissions(Budgets(config), clock.monotonic_s() - 120), config)
        self.moves = MoveSupervisor(control, clock, "berthmaster")
        self.clusters = ClusterCache(
            karmada_profile(PLUGINS),
            clock,
            FailoverOptions(failover_after_s),
            ask,
            keeps_inputs=True,
            moves=self.moves,
            read_copies=lambda binding: copies_reported(self.bindings[binding.metadata.key]),
        )
        self.recorder = recorder
        self.bindings: dict[tuple[str, str], Binding] = {}
        self.recorded: list[DecisionRecord] = []
        self._version = 1

    def put(self, binding: Binding) -> None:
        self.bindings[binding.metadata.key] = binding
        self.reconcile(*binding.metadata.key)

    def report(self, namespace: str, name: str) -> None:
        """Report healthy copies on the assigned clusters, and on no other one, as members do."""
        binding = self.bindings[namespace, name]
        items = tuple(
            AggregatedStatusItem(
                each.name, {"replicas": each.replicas, "readyReplicas": each.replicas}, applied=True, health="Healthy"
            )
            for each in binding.spec.clusters
        )
        self.bindings[namespace, name] = with_status(binding, aggregated_status=items)

    def reconcile(self, namespace: str, name: str) -> None:
        binding = self.bindings[namespace, name]
        decision = self.clusters.decide_and_assume((namespace, name), binding)
        after, now = binding, self.clock.now()
        self._version += 1
        if decision.write is not None:
            after = decision.write.applied(binding, Version(str(self._version), self._version))
        status = status_write(after, decision.result, now, refresh=decision.refresh)
        if status:
            after = status.applied(after, Version(f"{self._version}s", self._version))
        self.bindings[namespace, name] = after
        self.moves.observe((namespace, name), after)
        if decision.inputs is not None:
            record = DecisionRecord(now, "r", binding, decision.inputs, outcome_of(decision), 0.001)
            self.recorded.append(record)
            if self.recorder is not None:
                self.recorder.decided(record)


def recorder_at(url: str, clock: FakeClock, **options) -> LedgerRecorder:
    """A recorder whose thread does not run: tests call ``step``."""
    options = {"role": "controllers", "writer": "test", "configuration": CONFIGURATION, **options}
    return LedgerRecorder(url, clock=clock, **options)


@cache
def _empty_ledger() -> bytes:
    """A file with the schema. Migrations take longer than most tests."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        open_store(f"sqlite:///{path}", create=True).close()
        return path.read_bytes()


def sqlite_url(folder: Path) -> str:
    path = folder / "ledger.db"
    path.write_bytes(_empty_ledger())
    return f"sqlite:///{path}"


def opened(url: str) -> Store:
    return open_store(url)


def copies_reported(binding: Binding) -> Copies:
    """Return the Works of a binding that its reported status describes. Their pods end after 30 seconds."""
    replicas = binding.assignment
    return Copies(
        {
            each.cluster_name: CopyOfWorkload(
                deleting=False, replicas=replicas.get(each.cluster_name), generation=0, grace_s=30, item=each
            )
            for each in binding.status.aggregated_status
        }
    )


def of_shop(name: str, binding: Binding) -> Binding:
    """A binding with another name, in the namespace ``shop``."""
    labels = {**binding.metadata.labels, MANAGED_BY[0]: "policy"}
    own = {"name": f"{name}-deployment", "namespace": "shop", "uid": f"uid-{name}", "labels": labels}
    resource = msgspec.structs.replace(binding.spec.resource, name=name, namespace="shop")
    return with_spec(with_metadata(binding, **own), resource=resource)


def all_times() -> tuple[int, int]:
    return 0, round(timedelta(days=365 * 1000).total_seconds() * 1e6)


def filled(url: str, segments: int = 3, decisions: int = 20) -> None:
    """Write some segments with decisions and notes, in batches of a few records."""
    clock = FakeClock()
    for segment in range(segments):
        recorder = recorder_at(url, clock, writer=f"writer-{segment}")
        scheduling = Scheduling(recorder, clock)
        for index in range(4):
            scheduling.clusters.update_cluster(cluster(f"m{index}", cpu=100, region=f"r{index % 2}"))
        for number in range(decisions):
            scheduling.put(wanted(f"w{segment}-{number % 7}", replicas=1 + number))
            scheduling.clusters.update_cluster(cluster(f"m{number % 4}", cpu=100 - number))
            if number % 3 == 0:
                recorder.noted(Note("refusal", f"refused {number}", "shop", f"p{number}", "PropagationPolicy"))
                recorder.step()
            clock.pass_by(1)
        recorder.finish()


def wanted(name: str, replicas: int = 1) -> Binding:
    """A binding of ``shop`` that divides its replicas over all clusters."""
    return of_shop(name, asked(requests={"cpu": 1}, replicas=replicas, scheduling=AGGREGATED))


def names(values: Iterable[object]) -> list[str]:
    return sorted(map(str, values))
