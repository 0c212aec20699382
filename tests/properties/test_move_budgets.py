"""Budgets over several leaders: no interleaving of writes, lost responses, restarts and clock steps exceeds one."""

import os
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from berthmaster.deciding.admissions import QUIET_S, Admissions, Budgets, MoveCandidate
from berthmaster.deciding.budgets import Budget
from berthmaster.deciding.config import MovesConfig
from berthmaster.deciding.move_selector import MoveSelector, MoveSubject
from berthmaster.deciding.windows import Window
from berthmaster.model.move import MoveReason

KEYS = [("shop", f"b{number}") for number in range(7)]
CLUSTERS = ("m1", "m2", "m3")
MOST, MOST_EACH, TOTAL = 3, 2, 40
BUDGETS = Budgets(
    MovesConfig(
        budgets=(
            Budget("all", max_moves=MOST, replicas_percent=50),
            Budget(
                "shop", MoveSelector({"shop"}), max_moves_per_policy=MOST_EACH, max_moves_from_cluster=MOST_EACH,
                max_moves_to_cluster=MOST_EACH,
            ),
            Budget("windows", windows=(Window("0 * * * *", 3000),)),
        )
    )
)  # fmt: skip
REQUEST_S = 50.0
"""The longest time between the start of a write and its effect. The watch needs at most the rest of ``QUIET_S``."""
WATCH_S = QUIET_S - REQUEST_S
LEASE_S, RENEW_S = 15.0, 10.0


class Fate(NamedTuple):
    """What happens to a write.

    Attributes:
        after_s: when the API server performs it.
        answered_after_s: when the process that sent it learns the result; before the write is performed, and without a
            response, it gives up.
        response: whether it gets a response.
    """

    after_s: float
    answered_after_s: float
    response: bool


FATES = st.builds(
    Fate, st.sampled_from([0.0, 0.0, 1.0, 12.0, 45.0]), st.sampled_from([0.0, 0.0, 1.0, 30.0]), st.booleans()
)
MOVES = st.tuples(
    st.sampled_from(KEYS), st.sampled_from(["shop/a", "shop/b"]), st.sampled_from([1, 1, 8]),
    st.permutations(CLUSTERS), FATES,
)  # fmt: skip


@dataclass
class StoredBinding:
    version: int = 1
    move: MoveCandidate | None = None


@dataclass
class SentWrite:
    """A write on its way. It applies if the version of the binding is still the one that it is valid for."""

    leader: "Leader"
    key: tuple
    guard: int
    move: MoveCandidate | None
    sent_s: float
    fate: Fate
    result: str = ""
    answered: bool = False


@dataclass
class Leader:
    admissions: Admissions
    renewed_s: float
    watched: int
    seen: dict = field(default_factory=dict)
    """The latest version of each binding that this process knows, and the move in it."""
    waiting: set = field(default_factory=set)
    """The keys whose write has no answer yet: one worker for each key."""


class TwoLeaders(RuleBasedStateMachine):
    """An API server, the leader, and the next leader that takes over while writes of the first are on their way."""

    @initialize()
    def begin(self):
        self.now_s, self.skew_s, self.version = 1000.0, 0.0, 1
        self.stored = {key: StoredBinding() for key in KEYS}
        self.history = []  # (time, key, version, move), as the watch delivers it
        self.writes = []
        self.admitted_outside = 0
        self.leader = self.new_leader()
        self.pass_by(QUIET_S)

    def new_leader(self):
        leader = Leader(Admissions(BUDGETS, self.now_s), self.now_s, len(self.history))
        for key, binding in self.stored.items():
            self.observe(leader, key, binding.version, binding.move)
        return leader

    def observe(self, leader, key, version, move):
        leader.seen[key] = max(leader.seen.get(key, (0, None)), (version, move), key=lambda each: each[0])
        leader.admissions.observe(key, move, str(version))

    def wall(self):
        return datetime(2026, 3, 29, tzinfo=UTC) + timedelta(seconds=self.now_s + self.skew_s)

    @rule(seconds=st.sampled_from([0.1, 2.0, 20.0, 60.0]))
    def some_time_passes(self, seconds):
        self.pass_by(seconds)

    def pass_by(self, seconds, *, renews=True):
        """Let time pass in small steps, so that writes and their answers happen in their order."""
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            self.now_s = min(until_s, self.now_s + 5.0)
            self.process()
            self.watch(self.now_s - WATCH_S)
        if renews:
            self.leader.renewed_s = self.now_s

    @rule(seconds=st.sampled_from([-86400.0, -600.0, 600.0, 86400.0]))
    def the_clock_steps(self, seconds):
        self.skew_s += seconds

    @rule()
    def the_watch_catches_up(self):
        self.watch(self.now_s)

    def watch(self, until_s):
        while self.leader.watched < len(self.history) and self.history[self.leader.watched][0] <= until_s:
            self.observe(self.leader, *self.history[self.leader.watched][1:])
            self.leader.watched += 1

    @rule(wanted=st.lists(MOVES, min_size=2, max_size=6))
    def moves_want_to_begin(self, wanted):
        for key, policy, replicas, (source, target, _), fate in wanted:
            version, known = self.leader.seen[key]
            if known is not None or not self.may_write(key):
                continue
            move = MoveCandidate(
                key, MoveSubject("shop", {}, policy), MoveReason.DRAIN, {source: replicas}, {target: replicas}
            )
            now = self.wall()
            if self.leader.admissions.admit(move, str(version), now, self.now_s, {"all": TOTAL}) is None:
                self.admitted_outside += now.minute >= 50
                self.send(key, version, move, fate)
        self.process()

    @rule(keys=st.sets(st.sampled_from(KEYS), min_size=2), fate=FATES)
    def moves_end(self, keys, fate):
        for key in sorted(keys):
            version, known = self.leader.seen[key]
            if known is not None and self.may_write(key):
                self.send(key, version, None, fate)
        self.process()

    def may_write(self, key):
        """Whether the fence lets the leader write, and no worker waits for an answer about the key."""
        return key not in self.leader.waiting and self.now_s - self.leader.renewed_s <= RENEW_S

    def send(self, key, guard, move, fate):
        self.leader.waiting.add(key)
        self.writes.append(SentWrite(self.leader, key, guard, move, self.now_s, fate))

    def process(self):
        """Perform the writes that arrive now, and deliver the answers that arrive now."""
        for write in self.writes:
            if not write.result and self.now_s >= write.sent_s + write.fate.after_s:
                self.perform(write)
        for write in self.writes:
            if not write.answered and self.now_s >= write.sent_s + write.fate.answered_after_s:
                write.answered = True
                if write.leader is self.leader:  # else the process has ended
                    self.answer(write)
        self.writes = [each for each in self.writes if not (each.result and each.answered)]

    def perform(self, write):
        stored = self.stored[write.key]
        if stored.version != write.guard:
            write.result = "refused"
            return
        self.version += 1
        stored.version, stored.move = self.version, write.move
        self.history.append((self.now_s, write.key, self.version, write.move))
        write.result = f"{self.version}"

    def answer(self, write):
        admissions = self.leader.admissions
        self.leader.waiting.discard(write.key)
        if not write.result or not write.fate.response:
            if write.move is not None:
                admissions.lost(write.key, self.now_s)
        elif write.result != "refused":
            self.observe(self.leader, write.key, int(write.result), write.move)
        elif write.move is not None:
            admissions.refused(write.key)

    @rule(keys=st.sets(st.sampled_from(KEYS), min_size=1, max_size=3))
    def another_client_writes_bindings(self, keys):
        for key in sorted(keys):
            self.version += 1
            self.stored[key].version = self.version
            self.history.append((self.now_s, key, self.version, self.stored[key].move))

    @rule(killed=st.booleans())
    def another_process_becomes_the_leader(self, killed):
        """The lease of a process that stops is free at once; that of a killed one must expire."""
        if killed:
            self.pass_by(max(0.1, self.leader.renewed_s + LEASE_S - self.now_s), renews=False)
        self.leader = self.new_leader()

    @invariant()
    def no_budget_is_exceeded(self):
        active = [each.move for each in getattr(self, "stored", {}).values() if each.move is not None]
        assert len(active) <= MOST
        assert sum(each.moving for each in active) <= TOTAL // 2
        for count in (
            Counter(each.subject.policy for each in active),
            Counter(name for each in active for name in each.sources),
            Counter(name for each in active for name in each.targets),
        ):
            assert max(count.values(), default=0) <= MOST_EACH

    @invariant()
    def no_move_begins_outside_of_the_windows(self):
        assert getattr(self, "admitted_outside", 0) == 0


EXAMPLES = os.environ.get("BERTHMASTER_EXAMPLES", "")
"""The number of histories: a fixed few by default, and thousands of random ones by `make bench-move-budgets`."""
TestTwoLeaders = TwoLeaders.TestCase
TestTwoLeaders.settings = settings(
    max_examples=int(EXAMPLES or 40), stateful_step_count=40, deadline=None, derandomize=not EXAMPLES,
    phases=[Phase.generate],
)  # fmt: skip
