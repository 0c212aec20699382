"""What the lease of the controllers records: their switches, the state of the storm brake, and which moves are on.

The annotations of the Lease are the right place: only the leader decides on moves, each process reads its lease every
few seconds anyway, the next leader finds them, and the controllers need no further access right. A user ends the brake
by an annotation, which needs the right to patch this one Lease.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Final, NamedTuple, Self, TypeVar

import msgspec

from berthmaster.deciding.budgets import Budget
from berthmaster.deciding.config import DEFAULT_MOVES, MoveRule, MovesConfig
from berthmaster.deciding.config_values import DURATION, Seconds
from berthmaster.deciding.move_settings import MOVE_SOURCES, MoveSettings
from berthmaster.deciding.storm_brake import DEFAULT_BRAKE, BrakeLimits
from berthmaster.model.decode import convert, decode_json, encode_json, mapping_of, read_json
from berthmaster.model.errors import FieldError, InputError
from berthmaster.model.meta import Count, Timestamp, Value, moment_of
from berthmaster.model.move import MoveStrategy, VolumeLoss

T = TypeVar("T")

MAX_BYTES: Final = 32 * 2**10
"""The most bytes of all budgets in the record, and of all rules: the leader sends it with each renewal of the lease."""
BRAKE: Final = "policy.berthmaster.io/storm-brake"
"""The annotation with a ``BrakeRecord``. It is absent while nothing happened."""
RESUME: Final = "policy.berthmaster.io/storm-brake-resume"
"""The annotation by which a user ends the brake. The value is a ``ResumeRequest``. The leader removes it."""
SOURCES: Final = "policy.berthmaster.io/moves"
"""The annotation with a ``SourcesRecord``. It is absent without a configuration of moves."""
CONTROLLERS: Final = "policy.berthmaster.io/controllers"
"""The annotation with a ``ControllersRecord``. Each leader writes its own."""
_SILENT_S: Final = 60
"""A leader renews its lease every few seconds; another one takes it after ``lease_s``, by default 15 s."""


def records_of(values: Sequence[Budget | MoveRule]) -> tuple[dict[str, Any], ...] | None:
    """Return budgets or rules as the record has them; None if they are too large for the lease."""
    text = encode_json(values)
    return tuple(read_json(text)) if len(text) <= MAX_BYTES else None


def budgets_of(records: Sequence[Mapping[str, Any]]) -> tuple[Budget, ...]:
    """Return the budgets of records. Raises ``InputError`` if one is invalid."""
    return convert(tuple[Budget, ...], list(records))


class ControllersRecord(Value, frozen=True):
    """The switches of the controllers that hold the lease.

    Attributes:
        scheduler: the ``spec.schedulerName`` of the bindings that they schedule; empty if they schedule none.
        failover_after_s: how long a cluster may be not ready before it is replaced, in seconds; None without failover.
        version: the version of Berthmaster; empty if it is not recorded.
    """

    scheduler: str = ""
    failover_after_s: float | None = None
    preempts: bool = False
    gates: tuple[str, ...] = ()
    version: str = ""


class BrakeRecord(Value, frozen=True):
    """The state of the storm brake.

    Attributes:
        resumed_at: when a user last ended it. The loss of clusters that turned unready before is accepted.
    """

    reason: str = ""
    since: Timestamp | None = None
    unready: Count = 0
    resumed_at: Timestamp | None = None


class ResumeRequest(Value, frozen=True):
    """A request to end the storm brake."""

    at: Timestamp
    message: str = ""


class SourcesRecord(Value, frozen=True):
    """The configuration that the leader uses.

    Attributes:
        problem: why the file cannot be used, if an earlier content is in use; empty if it can.
        budgets: the budgets as the file has them; None if they are too large for the lease.
        scheduler: the ``spec.schedulerName`` of the bindings that the leader moves; empty if it is not recorded.
        strategy, volumes, soak_s, deadline_s: the settings of a binding without a rule; empty if not recorded.
        rules: how many rules the file has.
        move_rules: the rules as the file has them; None if they are too large for the lease, or not recorded.
    """

    failback: str = "Off"
    drain: str = "Off"
    pause: str = "None"
    problem: str = ""
    budgets: tuple[dict[str, Any], ...] | None = msgspec.field(default=None, name="moveBudgets")
    scheduler: str = ""
    brake: BrakeLimits = DEFAULT_BRAKE
    rebalance: str = "Off"
    strategy: str = ""
    volumes: str = ""
    rules: int = 0
    soak_s: Annotated[Seconds, DURATION] | None = msgspec.field(default=None, name="soak")
    deadline_s: Annotated[Seconds, DURATION] | None = msgspec.field(default=None, name="deadline")
    move_rules: tuple[dict[str, Any], ...] | None = None

    @classmethod
    def of(cls, config: MovesConfig, problem: str = "", scheduler: str = "") -> Self:
        """Return the record of a configuration."""
        defaults, brake = config.defaults, config.brake
        return cls(
            **{name: getattr(defaults, name).mode for name in MOVE_SOURCES},
            pause=config.pause,
            problem=problem,
            budgets=records_of(config.budgets),
            scheduler=scheduler,
            brake=BrakeLimits(brake.enabled, brake.unhealthy_percent, brake.min_clusters),
            strategy=defaults.strategy.value,
            volumes=defaults.volumes.value,
            rules=len(config.rules),
            soak_s=Seconds(defaults.soak_s),
            deadline_s=Seconds(defaults.deadline_s),
            move_rules=records_of(config.rules),
        )

    @property
    def modes(self) -> Mapping[str, str]:
        """The mode of each source of moves."""
        return {name: getattr(self, name) for name in MOVE_SOURCES}

    @property
    def config(self) -> MovesConfig:
        """How bindings move, as far as that is recorded and known."""
        try:
            rules = convert(tuple[MoveRule, ...], list(self.move_rules or ()))
        except InputError:
            rules = ()
        return MovesConfig(defaults=self._defaults, rules=rules)

    @property
    def rules_known(self) -> bool:
        """Whether ``config`` has all rules."""
        return len(self.config.rules) == self.rules

    @property
    def _defaults(self) -> MoveSettings:
        """The settings of a binding without a rule, as far as they are recorded and known."""
        strategies = {each.value: each for each in MoveStrategy}
        losses = {each.value: each for each in VolumeLoss}
        known = MoveSettings()
        strategy, volumes = strategies.get(self.strategy, known.strategy), losses.get(self.volumes, known.volumes)
        soak_s, deadline_s = known.soak_s if self.soak_s is None else self.soak_s, self.deadline_s or known.deadline_s
        return replace(known, strategy=strategy, volumes=volumes, soak_s=soak_s, deadline_s=deadline_s)


class LeaseRecord(NamedTuple):
    """What a lease records.

    Attributes:
        sources: the configuration that the leader uses; None if it has no file.
        controllers: the switches of the last holder; None if they are not recorded.
    """

    brake: BrakeRecord
    sources: SourcesRecord | None
    renewed_at: datetime | None = None
    controllers: ControllersRecord | None = None
    held: bool = False

    @property
    def brake_limits(self) -> BrakeLimits:
        """The limits of the storm brake: without a configuration of moves, the default ones."""
        return self.sources.brake if self.sources is not None else DEFAULT_BRAKE

    @property
    def moves(self) -> MovesConfig:
        """How bindings move: without a configuration, as by default."""
        return self.sources.config if self.sources is not None else DEFAULT_MOVES

    @property
    def scheduler(self) -> str:
        """The ``spec.schedulerName`` that the last holder serves; empty if it is not recorded."""
        return self.controllers.scheduler if self.controllers is not None else ""

    def silent(self, now: datetime) -> bool:
        """Return whether no leader has renewed the lease for so long that no controller seems to run."""
        return self.renewed_at is not None and (now - self.renewed_at).total_seconds() > _SILENT_S

    def running(self, now: datetime) -> ControllersRecord | None:
        """Return the switches of the controllers that run now; None if none run or they record none."""
        runs = self.held and self.renewed_at is not None and not self.silent(now)
        return self.controllers if runs else None


def text_of(record: Value) -> str:
    """Return the value of an annotation."""
    return encode_json(record).decode()


def brake_record(text: str | None) -> BrakeRecord:
    """Read the state of the brake. An invalid annotation counts as absent: the brake then judges the clusters again."""
    return _read(BrakeRecord, text) or BrakeRecord()


def resume_request(text: str, now: datetime) -> ResumeRequest:
    """Read a request. Any other text is a request without a message: a user may write it by hand."""
    try:
        return decode_json(ResumeRequest, text)
    except FieldError:
        return ResumeRequest(now, text)


def sources_record(text: str | None) -> SourcesRecord | None:
    """Read the configuration that the leader uses; None if it has none, or if the annotation is invalid."""
    return _read(SourcesRecord, text)


def lease_record(lease: Mapping[str, Any]) -> LeaseRecord:
    """Read what a Lease records."""
    found = mapping_of(mapping_of(lease.get("metadata")).get("annotations"))
    brake, sources, controllers = (
        text if isinstance(text := found.get(key), str) else None for key in (BRAKE, SOURCES, CONTROLLERS)
    )
    spec = mapping_of(lease.get("spec"))
    return LeaseRecord(
        brake_record(brake),
        sources_record(sources),
        moment_of(str(spec.get("renewTime"))),
        _read(ControllersRecord, controllers),
        held=bool(spec.get("holderIdentity")),
    )


def _read(kind: type[T], text: str | None) -> T | None:
    """Read an annotation; None if it is absent or invalid."""
    try:
        return None if text is None else decode_json(kind, text)
    except FieldError:
        return None
