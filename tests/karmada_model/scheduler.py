"""The binding scheduler of Berthmaster on an API server in memory, driven step by step on the thread of the test."""

import msgspec
from fake_clock import FakeClock
from fixed_control import FixedControl
from kube_in_memory import KubeInMemory
from kube_store import Place

from berthmaster.controllers.binding_scheduler.cluster_cache import Ask
from berthmaster.controllers.binding_scheduler.controller import BindingScheduler
from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.controllers.moves.drift_looks import ROUND_S
from berthmaster.controllers.settings import ControllerSettings
from berthmaster.deciding.admissions import Admissions, Budgets, MoveCandidate
from berthmaster.deciding.config import MovesConfig
from berthmaster.deciding.decision_recorder import DecisionRecord, context_of
from berthmaster.kube.events import EventContent
from berthmaster.model.note import Note

HOUSEKEEPING_S = 1.0
LEADING_SINCE_S = 3600.0


class RecordedEvents:
    """A recorder of events.

    Attributes:
        events: in order.
    """

    def __init__(self) -> None:
        self.events: list[EventContent] = []

    def record(self, event: EventContent) -> None:
        self.events.append(event)


class ReadDecisions:
    """A ledger that keeps nothing. It reads what it would keep, as a replay does."""

    def decided(self, record: DecisionRecord) -> None:
        if (moves := record.inputs.moves) is not None:
            context_of(moves)

    def noted(self, _note: Note) -> None:
        pass


class SteppedScheduler:
    """A binding scheduler without threads. A new one on the same API server is a restart.

    Attributes:
        controller: the binding scheduler.
        recorder: its events.
    """

    def __init__(
        self,
        api: KubeInMemory,
        clock: FakeClock,
        settings: ControllerSettings | None = None,
        moves: MovesConfig | None = None,
        file: MovesConfig | None = None,
    ) -> None:
        """Start a scheduler, which lists everything, and then leads.

        Args:
            api: the API server.
            clock: the time.
            settings: its settings.
            moves: the configuration of moves; None for the default one.
            file: the configuration when it leads, if that is another one.
        """
        self._api = api
        self._clock = clock
        self.recorder = RecordedEvents()
        context = ControllerContext(api, clock, self.recorder, ReadDecisions())
        # Leads since long ago, so that no test waits for the end of the quiet time.
        control = self._control = (
            None
            if moves is None
            else FixedControl(Admissions(Budgets(moves), clock.monotonic_s() - LEADING_SINCE_S), moves, file=file)
        )
        self.controller = BindingScheduler(context, settings or ControllerSettings(), control)
        self._informers = {
            each.collection.path: each for each in (*context.informers.values(), *context.optional.values())
        }
        self._queue = self.controller.queue
        self._seen = 0
        self._housekept_s = clock.monotonic_s()
        self._list()
        self.controller._moves.begin()  # noqa: SLF001 - the model leads without threads

    def brake(self, reason: str) -> None:
        """Engage the storm brake; an empty reason ends it."""
        self._control.brake = reason

    def configure(self, moves: MovesConfig) -> None:
        """Replace the configuration of moves."""
        self._control.use(moves)

    def active_moves(self) -> list[MoveCandidate]:
        """Return the moves that hold a slot of a budget."""
        return self._control.admissions.active(self._clock.monotonic_s())

    def estimate(self, ask: Ask) -> None:
        self.controller._clusters._ask = ask  # noqa: SLF001 - as above

    def observe(self) -> int:
        """Let the informers see what changed. Return the number of changes."""
        with self._api.changed:
            news = self._api.changes[self._seen :]
            self._seen += len(news)
        for change in news:
            place = Place.of(change.path)
            informer = self._informers.get(f"{place.root}/{place.plural}")
            if informer is None:
                continue
            key = (place.namespace, place.name)
            if change.kind == "DELETED":
                informer.delete(key)
            else:
                informer.put(key, msgspec.Raw(msgspec.json.encode(change.content)))
        return len(news)

    def step(self) -> bool:
        self.observe()
        if self._clock.monotonic_s() >= self._housekept_s + HOUSEKEEPING_S:
            self._housekept_s = self._clock.monotonic_s()
            self.controller.housekeep()
        result = self.controller.workers.step()
        assert result != "crash", "the log says why"
        return result is not None

    def next_s(self) -> float | None:
        """Return the seconds until a binding is due; None if only a change can bring that about."""
        self.observe()
        lengths = self._queue.lengths()
        if lengths["active"]:
            return 0.0
        looks_s = ROUND_S if self.controller._moves.rebalances else None  # noqa: SLF001 - as above
        waits = lengths["unschedulable"] or len(self.controller._times)  # noqa: SLF001 - as above
        due = [self._queue.next_due_s(), HOUSEKEEPING_S if waits else looks_s]
        return min((max(0.0, each) for each in due if each is not None), default=None)

    def _list(self) -> None:
        """Let each informer see its first list, clusters first, as at a start."""
        with self._api.changed:
            self._seen = self._api.version
            for path, informer in self._informers.items():
                informer.replace(
                    (
                        (each["metadata"].get("namespace", ""), each["metadata"]["name"]),
                        msgspec.Raw(msgspec.json.encode(each)),
                    )
                    for each in self._api.all(path)
                )
