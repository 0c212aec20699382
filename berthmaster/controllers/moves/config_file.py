"""The file with the configuration of moves (``--moves-config``): its fields, and their validation.

``moves-config.schema.json`` in this folder is the JSON schema of the file. ``docs/moves-config.md`` describes it.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args, get_origin

import msgspec

from berthmaster.deciding.config import (
    DEFAULT_BUDGET,
    MAX_DURATION_S,
    BrakeSettings,
    Budget,
    Mode,
    MoveRule,
    MovesConfig,
    MoveSelector,
    MoveSettings,
    Pause,
    RebalanceOverride,
    SourceOverride,
    SourceSettings,
    Window,
    Windows,
    check_schedule,
    parse_percent,
    zone_of,
)
from berthmaster.manifests.files import ManifestLimits, read_yaml
from berthmaster.model.decode import builtins, convert, unknown_fields
from berthmaster.model.errors import FieldError, InputError, shown
from berthmaster.model.meta import Value, duration_text, parse_duration_s
from berthmaster.model.move import MoveStrategy
from berthmaster.model.selector import LabelSelector
from berthmaster.model.validation import label_selector_errors

API_VERSION: Final = "berthmaster.io/v1alpha1"
KIND: Final = "MovesConfiguration"
MAX_ENTRIES: Final = 256
_LIMITS: Final = ManifestLimits(file_bytes=2**20, depth=16, documents=1)
_ERRORS_SHOWN: Final = 20

_DURATION_SCHEMA: Final = {"pattern": "^(0|([0-9]+h)?([0-9]+m)?([0-9]+s)?)$", "minLength": 1}
_Duration = Annotated[
    str, msgspec.Meta(description="A duration, such as 90s, 10m or 1h30m.", extra_json_schema=_DURATION_SCHEMA)
]
_Percent = Annotated[
    str, msgspec.Meta(description="A percentage, such as 10%.", extra_json_schema={"pattern": "^[0-9]{1,4}%$"})
]
_Share = Annotated[int, msgspec.Meta(ge=1, le=100)]
_Limit = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
# YAML reads On and Off without quotes as booleans.
_Mode = Annotated[Mode | bool, msgspec.Meta(description="Off, DryRun (only reports) or On.")]


class SelectorFields(Value, frozen=True):
    """Selects bindings. All parts must match; an absent part matches everything."""

    namespaces: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    labels: LabelSelector | None = None


class SourceFields(Value, frozen=True):
    """How failback or drain asks for moves."""

    mode: _Mode | None = None
    after: _Duration | None = None
    headroom: _Percent | None = None


class RebalanceFields(Value, frozen=True):
    """How drift asks for moves."""

    mode: _Mode | None = None
    after: _Duration | None = None
    tolerance: _Percent | None = None
    min_gain: _Percent | None = None


class RuleFields(Value, frozen=True):
    """Settings for the bindings that the selector matches. The first rule that states a setting applies."""

    selector: SelectorFields
    failback: SourceFields | None = None
    drain: SourceFields | None = None
    rebalance: RebalanceFields | None = None
    strategy: MoveStrategy | None = None
    soak: _Duration | None = None
    deadline: _Duration | None = None


class HoldDownFields(Value, frozen=True):
    """How long a binding stays after a failed move: ``initial``, then twice as long each time, at most ``max``."""

    initial: _Duration = "10m"
    max: _Duration = "24h"


class WindowFields(Value, frozen=True):
    """A time in which a budget is open."""

    schedule: Annotated[str, msgspec.Meta(description="The starts: five fields of cron.")]
    duration: _Duration
    time_zone: Annotated[str, msgspec.Meta(description="An IANA name, such as Europe/Berlin.")] = "UTC"


class BudgetFields(Value, frozen=True):
    """Limits on moves that are under way at the same time. An absent limit is no limit."""

    name: str
    selector: SelectorFields | None = None
    max_moves: _Limit | None = None
    max_moves_per_policy: _Limit | None = None
    max_moves_from_cluster: _Limit | None = None
    max_moves_to_cluster: _Limit | None = None
    replicas_percent: _Share | None = None
    limits_failover: bool = False
    windows: tuple[WindowFields, ...] = ()


class BrakeFields(Value, frozen=True):
    """When the storm brake stops all moves."""

    enabled: bool = True
    unhealthy_percent: _Share = 30
    min_clusters: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 3
    window: _Duration = "5m"
    settle: _Duration = "2m"


class MovesConfigFile(Value, frozen=True):
    """The configuration of moves."""

    api_version: Literal["berthmaster.io/v1alpha1"]
    kind: Literal["MovesConfiguration"]
    pause: Pause = "None"
    failback: SourceFields | None = None
    drain: SourceFields | None = None
    rebalance: RebalanceFields | None = None
    strategy: MoveStrategy | None = None
    soak: _Duration | None = None
    deadline: _Duration | None = None
    hold_down: HoldDownFields = HoldDownFields()
    rules: tuple[RuleFields, ...] = ()
    budgets: tuple[BudgetFields, ...] | None = None
    brake: BrakeFields = BrakeFields()


SCHEMA_FILE: Final = Path(__file__).with_name("moves-config.schema.json")
"""The JSON schema of the file, for editors and for checks before an installation."""


def json_schema() -> dict[str, Any]:
    """Return the content of ``SCHEMA_FILE``. The fields above are its source."""
    schema = msgspec.json.schema(MovesConfigFile)
    for definition in schema["$defs"].values():
        definition["additionalProperties"] = False
    content: dict[str, Any] = builtins({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
    return content


def read_moves_config(path: Path) -> MovesConfig:
    """Read a file.

    Raises:
        OSError: the file cannot be read.
        InputError: it is not a valid configuration. The message has all errors with their paths.
    """
    with path.open("rb") as file:
        data = file.read(_LIMITS.file_bytes + 1)
    if len(data) > _LIMITS.file_bytes:
        raise InputError(f"{path}: larger than {_LIMITS.file_bytes} bytes")
    return parse_moves_config(data, str(path))


def parse_moves_config(data: bytes, source: str) -> MovesConfig:
    """Parse and validate a configuration in YAML or JSON.

    Raises:
        InputError: it is not a valid configuration. The message has all errors with their paths.
    """
    documents = [raw for _, raw in read_yaml(data, source, _LIMITS) if raw is not None]
    raw = documents[0] if documents else None
    if not isinstance(raw, dict):
        raise InputError(f"{source}: is not a mapping; accepted is a document with kind: {KIND}")
    found, errors = validated(raw)
    if found is None:
        shown_errors = [str(each) for each in errors[:_ERRORS_SHOWN]]
        more = [f"and {len(errors) - _ERRORS_SHOWN} more errors"] if len(errors) > _ERRORS_SHOWN else []
        raise InputError(f"{source}: {'; '.join([*shown_errors, *more])}")
    return found


def validated(raw: dict[str, Any]) -> tuple[MovesConfig | None, list[FieldError]]:
    """Return the configuration in a document, or None and all errors."""
    errors = [*unknown_fields(MovesConfigFile, raw), *_type_errors(MovesConfigFile, raw, "")]
    if errors:
        return None, errors
    fields = convert(MovesConfigFile, raw)
    errors = list(_errors(fields))
    return (None, errors) if errors else (_config(fields), [])


def _type_errors(kind: Any, raw: Any, path: str) -> Iterator[FieldError]:  # noqa: ANN401 - a type, and any JSON value
    """Yield an error for each missing value and each value of a wrong type. The decoder stops at the first one."""
    options = (kind,) if get_origin(kind) is tuple else (kind, *get_args(kind))
    struct = next((each for each in options if _is_struct(each)), None)
    element = next((get_args(each)[0] for each in options if _is_list_of_structs(each)), None)
    if isinstance(raw, dict) and struct is not None:
        for field in msgspec.structs.fields(struct):
            where = f"{path}.{field.encode_name}" if path else field.encode_name
            value = raw.get(field.encode_name)
            if value is not None:
                yield from _type_errors(field.type, value, where)
            elif field.required:
                yield FieldError(where, "is missing or null")
    elif isinstance(raw, list) and element is not None:
        for index, value in enumerate(raw):
            yield from _type_errors(element, value, f"{path}[{index}]")
    else:
        try:
            convert(kind, raw)
        except FieldError as error:
            yield error.below(path)


def _is_struct(kind: Any) -> bool:  # noqa: ANN401 - a type
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _is_list_of_structs(kind: Any) -> bool:  # noqa: ANN401 - a type
    return get_origin(kind) is tuple and _is_struct(get_args(kind)[0])


def _errors(fields: MovesConfigFile) -> Iterator[FieldError]:
    """Yield an error for each value that has the right type and is not accepted."""
    yield from _source_errors(fields, "")
    yield from _duration_errors(fields, "", "soak", "deadline")
    yield from _duration_errors(fields.hold_down, "holdDown", "initial", "max", minimum_s=1)
    for name in ("rules", "budgets"):
        if len(getattr(fields, name) or ()) > MAX_ENTRIES:
            yield FieldError(name, f"has {len(getattr(fields, name))} entries; accepted are at most {MAX_ENTRIES}")
    for index, rule in enumerate(fields.rules):
        path = f"rules[{index}]"
        yield from _selector_errors(rule.selector, f"{path}.selector")
        yield from _source_errors(rule, f"{path}.")
        yield from _duration_errors(rule, path, "soak", "deadline")
    names: set[str] = set()
    for index, budget in enumerate(fields.budgets or ()):
        path = f"budgets[{index}]"
        if not budget.name:
            yield FieldError(f"{path}.name", "is empty; name the budget, because messages and metrics show the name")
        if budget.name in names:
            yield FieldError(f"{path}.name", f"{shown(budget.name)} is the name of an earlier budget; use another one")
        names.add(budget.name)
        yield from _selector_errors(budget.selector, f"{path}.selector")
        for number, window in enumerate(budget.windows):
            yield from _window_errors(window, f"{path}.windows[{number}]")
    yield from _duration_errors(fields.brake, "brake", "window", minimum_s=1)
    yield from _duration_errors(fields.brake, "brake", "settle")


_PERCENTAGES: Final = (
    ("failback", "headroom", "headroom"),
    ("drain", "headroom", "headroom"),
    ("rebalance", "tolerance", "tolerance"),
    ("rebalance", "min_gain", "minGain"),
)


def _source_errors(fields: MovesConfigFile | RuleFields, prefix: str) -> Iterator[FieldError]:
    for name in ("failback", "drain", "rebalance"):
        if (source := getattr(fields, name)) is not None:
            yield from _duration_errors(source, f"{prefix}{name}", "after")
    for name, attribute, field in _PERCENTAGES:
        text = getattr(getattr(fields, name), attribute, None)
        try:
            _percentage(text)
        except InputError as error:
            yield FieldError(f"{prefix}{name}.{field}", str(error))


def _selector_errors(fields: SelectorFields | None, path: str) -> Iterator[FieldError]:
    if fields is not None and fields.labels is not None:
        yield from (each.below(f"{path}.labels") for each in label_selector_errors(fields.labels))


def _window_errors(fields: WindowFields, path: str) -> Iterator[FieldError]:
    yield from _duration_errors(fields, path, "duration", minimum_s=1, maximum_s=MAX_DURATION_S)
    for check, value, name in (
        (check_schedule, fields.schedule, "schedule"),
        (zone_of, fields.time_zone, "timeZone"),
    ):
        try:
            check(value)
        except InputError as error:
            yield FieldError(f"{path}.{name}", str(error))


def _duration_errors(
    fields: Value, path: str, *names: str, minimum_s: int = 0, maximum_s: int | None = None
) -> Iterator[FieldError]:
    for name in names:
        text = getattr(fields, name)
        if text is None:
            continue
        where = f"{path}.{name}" if path else name
        try:
            seconds = parse_duration_s(text)
        except InputError as error:
            yield FieldError(where, str(error))
            continue
        if seconds < minimum_s:
            yield FieldError(where, f"{shown(text)} is too short; accepted is at least {duration_text(minimum_s)}")
        if maximum_s is not None and seconds > maximum_s:
            yield FieldError(where, f"{shown(text)} is too long; accepted is at most {duration_text(maximum_s)}")


def _config(fields: MovesConfigFile) -> MovesConfig:
    defaults = MoveSettings(
        # The taint that drains a cluster is a request of its own, so a configuration turns drain on.
        drain=SourceSettings("On", 0, 0),
        hold_down_s=parse_duration_s(fields.hold_down.initial),
        max_hold_down_s=parse_duration_s(fields.hold_down.max),
    )
    budgets = (DEFAULT_BUDGET,) if fields.budgets is None else tuple(_budget(each) for each in fields.budgets)
    brake = fields.brake
    return MovesConfig(
        fields.pause,
        _rule(fields, None).applied(defaults),
        tuple(_rule(each, each.selector) for each in fields.rules),
        budgets,
        BrakeSettings(
            brake.enabled,
            brake.unhealthy_percent,
            brake.min_clusters,
            parse_duration_s(brake.window),
            parse_duration_s(brake.settle),
        ),
    )


def _rule(fields: MovesConfigFile | RuleFields, selector: SelectorFields | None) -> MoveRule:
    rebalance = fields.rebalance or RebalanceFields()
    return MoveRule(
        _selector(selector),
        _override(fields.failback),
        _override(fields.drain),
        RebalanceOverride(
            _mode(rebalance),
            _seconds(rebalance.after),
            _percentage(rebalance.tolerance),
            _percentage(rebalance.min_gain),
        ),
        fields.strategy,
        _seconds(fields.soak),
        _seconds(fields.deadline),
    )


def _budget(fields: BudgetFields) -> Budget:
    windows = (Window(each.schedule, parse_duration_s(each.duration), each.time_zone) for each in fields.windows)
    return Budget(
        fields.name,
        _selector(fields.selector),
        fields.max_moves,
        fields.max_moves_per_policy,
        fields.max_moves_from_cluster,
        fields.max_moves_to_cluster,
        fields.replicas_percent,
        fields.limits_failover,
        Windows(windows),
    )


def _selector(fields: SelectorFields | None) -> MoveSelector:
    if fields is None:
        return MoveSelector()
    return MoveSelector.of(fields.namespaces, fields.policies, fields.kinds, fields.labels)


def _override(fields: SourceFields | None) -> SourceOverride:
    fields = fields or SourceFields()
    return SourceOverride(_mode(fields), _seconds(fields.after), _percentage(fields.headroom))


def _mode(fields: SourceFields | RebalanceFields) -> Mode | None:
    return fields.mode if not isinstance(fields.mode, bool) else "On" if fields.mode else "Off"


def _percentage(text: str | None) -> int | None:
    return parse_percent(text) if text is not None else None


def _seconds(text: str | None) -> int | None:
    return parse_duration_s(text) if text is not None else None
