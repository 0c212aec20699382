"""The file with the configuration of moves (``--moves-config``): its fields, and their validation.

``moves-config.schema.json`` in this folder is the JSON schema of the file. ``docs/moves-config.md`` describes it.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args, get_origin

import msgspec

from berthmaster.deciding.budgets import DEFAULT_BUDGET, Budget
from berthmaster.deciding.config import MoveRule, MovesConfig
from berthmaster.deciding.config_values import PositiveSeconds, duration_meta
from berthmaster.deciding.move_settings import MoveOverrides, MoveSettings, SourceSettings
from berthmaster.deciding.pause import Pause
from berthmaster.deciding.storm_brake import BrakeSettings
from berthmaster.manifests.limits import ManifestLimits
from berthmaster.manifests.yaml_reader import read_yaml
from berthmaster.model.decode import builtins, convert
from berthmaster.model.errors import FieldError, InputError, shown
from berthmaster.model.meta import Value
from berthmaster.model.selector import LabelSelector
from berthmaster.model.unknown_fields import unknown_fields
from berthmaster.model.validation import label_selector_errors

API_VERSION: Final = "berthmaster.io/v1alpha1"
KIND: Final = "MovesConfiguration"
MAX_ENTRIES: Final = 256
_LIMITS: Final = ManifestLimits(file_bytes=2**20, depth=16, documents=1)
_ERRORS_SHOWN: Final = 20
_HOLD_DOWN: Final = PositiveSeconds(600)
_MAX_HOLD_DOWN: Final = PositiveSeconds(86400)
SCHEMA_FILE: Final = Path(__file__).with_name("moves-config.schema.json")
"""The JSON schema of the file, for editors and for checks before an installation."""


class HoldDownFields(Value, frozen=True):
    """How long a binding stays after a failed move: ``initial``, then twice as long each time, at most ``max``."""

    initial: Annotated[PositiveSeconds, duration_meta("10m")] = msgspec.field(default_factory=lambda: _HOLD_DOWN)
    max: Annotated[PositiveSeconds, duration_meta("24h")] = msgspec.field(default_factory=lambda: _MAX_HOLD_DOWN)


class MovesConfigFile(MoveOverrides, frozen=True, kw_only=True):
    """The configuration of moves."""

    api_version: Literal["berthmaster.io/v1alpha1"]
    kind: Literal["MovesConfiguration"]
    pause: Pause = "None"
    hold_down: HoldDownFields = msgspec.field(default_factory=HoldDownFields)
    rules: tuple[MoveRule, ...] = ()
    budgets: tuple[Budget, ...] = (DEFAULT_BUDGET,)
    brake: BrakeSettings = msgspec.field(default_factory=BrakeSettings)

    def config(self) -> MovesConfig:
        base = MoveSettings(
            # The taint that drains a cluster is a request of its own, so a configuration turns drain on.
            drain=SourceSettings("On", 0, 0),
            hold_down_s=int(self.hold_down.initial),
            max_hold_down_s=int(self.hold_down.max),
        )
        return MovesConfig(self.pause, self.applied(base), self.rules, self.budgets, self.brake)


def json_schema() -> dict[str, Any]:
    """Return the content of ``SCHEMA_FILE``. The fields above are its source."""
    schema = msgspec.json.schema(MovesConfigFile)
    for definition in schema["$defs"].values():
        definition["additionalProperties"] = False
        definition["description"] = definition.get("description", "").partition("\n\n")[0]
    content: dict[str, Any] = builtins({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
    return content


def read_moves_config(path: Path) -> MovesConfig:
    """Read a file. Raises ``OSError`` if it cannot be read; otherwise see ``parse_moves_config``."""
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
    errors = [*unknown_fields(MovesConfigFile, raw), *_type_errors(MovesConfigFile, raw, ""), *_errors(raw)]
    if errors:
        shown_errors = [str(each) for each in errors[:_ERRORS_SHOWN]]
        more = [f"and {len(errors) - _ERRORS_SHOWN} more errors"] if len(errors) > _ERRORS_SHOWN else []
        raise InputError(f"{source}: {'; '.join([*shown_errors, *more])}")
    return convert(MovesConfigFile, raw).config()


def _type_errors(kind: Any, raw: Any, path: str) -> Iterator[FieldError]:  # noqa: ANN401 - a type, and any JSON value
    """Yield an error for each missing value and each value that its type refuses. A decoder stops at the first one."""
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
        if struct is LabelSelector:
            with suppress(FieldError):
                yield from (each.below(path) for each in label_selector_errors(convert(LabelSelector, raw)))
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


def _errors(raw: dict[str, Any]) -> Iterator[FieldError]:
    """Yield an error for a list that is too long, and for each name of a budget that is not accepted."""
    for field in ("rules", "budgets"):
        if isinstance(raw.get(field), list) and len(raw[field]) > MAX_ENTRIES:
            yield FieldError(field, f"has {len(raw[field])} entries; accepted are at most {MAX_ENTRIES}")
    names: set[str] = set()
    budgets = raw["budgets"] if isinstance(raw.get("budgets"), list) else []
    for index, budget in enumerate(budgets):
        name = budget.get("name") if isinstance(budget, dict) else None
        path = f"budgets[{index}].name"
        if name == "":
            yield FieldError(path, "is empty; name the budget, because messages and metrics show the name")
        if isinstance(name, str):
            if name in names:
                yield FieldError(path, f"{shown(name)} is the name of an earlier budget; use another one")
            names.add(name)
