"""What an API server demands of an object: the schema of its CustomResourceDefinition, and valid metadata.

``crd_schemas.json`` has the constraints and the defaults of the CustomResourceDefinitions of Karmada and KubeAdmiral.
``packaging/crd_schemas.py`` writes it. The evaluation is that of apiextensions-apiserver with strict field validation,
as kubectl requests it: nulls are dropped, defaults are set, unknown fields are refused, then every value is checked.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from berthmaster.model.decode import decode_json
from berthmaster.model.failover_behavior import FORMER_PURGE_MODES
from berthmaster.model.hints import closest
from berthmaster.model.kinds import is_namespaced
from berthmaster.model.meta import INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, Timestamp
from berthmaster.model.selector import is_dns_subdomain, is_label_key, is_label_value
from webhook.admission.field_problem import ABSENT, FieldProblem

TABLE: Final = Path(__file__).with_name("crd_schemas.json")
SCHEMA: Final = "schema"
FORMER_VALUES: Final[Mapping[str, Mapping[str, str]]] = {"spec.failover.application.purgeMode": FORMER_PURGE_MODES}
"""The values that the definitions of supported earlier versions have, by field, with the values of today."""
UNKNOWN_FIELD: Final = "unknown-field"
_METADATA: Final = "ObjectMeta"
LABEL_KEY_REMEDY: Final = "use letters, digits and -_. inside, with an optional DNS prefix and a slash"
_MAX_ANNOTATION_BYTES: Final = 256 * 2**10
_MAX_NAMESPACE: Final = 63
_INTEGERS: Final = {"int32": (INT32_MIN, INT32_MAX)}
_JSON_TYPES: Final = ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"), (list, "array"))
_WORDS: Final = {
    "boolean": "true or false", "integer": "a number", "number": "a number", "string": "a text", "array": "a list",
    "object": "a mapping", "null": "empty",
}  # fmt: skip
"""The types of JSON in the words of YAML, as the commands that read manifests use them."""
_EXAMPLES: Final = {"date-time": "2030-01-31T12:00:00Z", "duration": "1h30m"}
GO_DURATION: Final = re.compile(
    r"[+-]?(?:0|(?:(?:\d{1,18}(?:\.\d{0,18})?|\.\d{1,18})(?:ns|us|µs|μs|ms|s|m|h))+)", re.ASCII
)
_WORDED_DURATION: Final = re.compile(r"\d{1,18}\s*([a-zµ]+)", re.ASCII)
_UNITS: Final = frozenset({"ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"})
_UNIT_PREFIXES: Final = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")


class Schema(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The constraints on one value, by the keywords of OpenAPI. An unknown keyword is an error, not ignored."""

    type: str = ""
    format: str = ""
    nullable: bool = False
    enum: tuple[Any, ...] = ()
    pattern: str = ""
    minimum: float | None = None
    maximum: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    min_properties: int | None = None
    max_properties: int | None = None
    required: tuple[str, ...] = ()
    properties: "dict[str, Schema]" = {}
    items: "Schema | None" = None
    additional_properties: "Schema | None" = None
    default: Any = msgspec.UNSET
    preserves: bool = msgspec.field(name="x-kubernetes-preserve-unknown-fields", default=False)


def decoded(table: bytes) -> dict[str, Schema]:
    """Decode a table of schemas. A text in it is the name of an equal schema.

    Raises:
        msgspec.ValidationError: a schema has a keyword that is not evaluated.
    """
    stored = decode_json(dict[str, Schema | str], table)
    return {name: each for name, named in stored.items() if isinstance(each := stored.get(str(named), named), Schema)}


@cache
def _schemas() -> dict[str, Schema]:
    return decoded(TABLE.read_bytes())


def schema_of(api_version: str, kind: str) -> Schema | None:
    """Return what the definition of a kind demands; None for a kind that the table does not have."""
    return _schemas().get(f"{api_version} {kind}")


def completed(schema: Schema, value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return a copy of a value without nulls and with the defaults of its schema, as the API server checks it."""
    if isinstance(value, list):
        return [completed(schema.items, each) for each in value] if schema.items is not None else value
    if not isinstance(value, dict):
        return value
    made = {}
    for name, each in value.items():
        inner = schema.properties.get(name, schema.additional_properties)
        if inner is None:
            made[name] = each
        elif each is not None or inner.nullable:
            made[name] = completed(inner, each)
    for name, inner in schema.properties.items():
        if name not in made and inner.default is not msgspec.UNSET:
            made[name] = completed(inner, inner.default)
    return made


def object_problems(schema: Schema, raw: Mapping[str, Any]) -> Iterator[FieldProblem]:
    """Yield why the API server would not create an object. ``raw`` is ``completed``."""
    yield from problems(schema, {name: each for name, each in raw.items() if name != "metadata"}, "")
    metadata = _schemas()[_METADATA]
    written = completed(metadata, {} if raw.get("metadata") is None else raw["metadata"])
    malformed = list(problems(metadata, written, "metadata"))
    yield from malformed
    if all(each.rule == UNKNOWN_FIELD for each in malformed):
        yield from _metadata_problems(written, namespaced=is_namespaced(str(raw["apiVersion"]), str(raw["kind"])))


def problems(schema: Schema, value: Any, path: str) -> Iterator[FieldProblem]:  # noqa: ANN401 - any JSON value
    """Yield what a value violates, and the unknown fields in it."""
    accepted = _accepted(schema, value)
    if accepted:
        in_range = schema.type != "integer" or not _is_whole(value)
        fault = f"is {_WORDS[_type_of(value)]}, where {accepted} is accepted" if in_range else "is out of range"
        yield _problem(path, value, fault, "correct it" if in_range else f"the API server accepts {accepted}")
        return
    yield from _value_problems(schema, value, path)
    if isinstance(value, list):
        yield from _size_problems(path, len(value), schema.min_items, schema.max_items, ("item", "items"))
        if (items := schema.items) is not None:
            for index, each in enumerate(value):
                yield from problems(items, each, f"{path}[{index}]")
    elif isinstance(value, dict):
        yield from _size_problems(path, len(value), schema.min_properties, schema.max_properties, ("field", "fields"))
        yield from _field_problems(schema, value, path)


def _field_problems(schema: Schema, value: Mapping[str, Any], path: str) -> Iterator[FieldProblem]:
    for name in schema.required:
        if name not in value:
            yield _problem(_below(path, name), ABSENT, "is missing or null", "the API server requires it: add it")
    for name, each in value.items():
        if (known := schema.properties.get(name)) is not None:
            yield from problems(known, each, _below(path, name))
        elif schema.additional_properties is not None:
            yield from problems(schema.additional_properties, each, f"{path}[{name}]")
        elif (schema.properties or schema.type == "object") and not schema.preserves:
            yield _unknown(_below(path, name), name, schema)


def _unknown(path: str, name: str, schema: Schema) -> FieldProblem:
    close = closest(name, schema.properties)
    hint = f"; did you mean {close}?" if close else ""
    fault = f"unknown field{hint}"
    remedy = "kubectl refuses it, and other clients lose it: correct or remove it"
    return FieldProblem(path, ABSENT, fault, remedy, UNKNOWN_FIELD)


def _value_problems(schema: Schema, value: Any, path: str) -> Iterator[FieldProblem]:  # noqa: ANN401
    if schema.enum and value not in schema.enum and value not in FORMER_VALUES.get(path, ()):
        close = closest(str(value), map(str, schema.enum))
        hint = f"did you mean {close}? " if close else ""
        listed = ", ".join(map(str, schema.enum))
        yield _problem(path, value, "is not an accepted value", f"{hint}accepted: {listed}")
    if isinstance(value, int | float):
        if schema.minimum is not None and value < schema.minimum:
            yield _problem(path, value, f"is below the minimum {schema.minimum:g}", f"use {schema.minimum:g} or more")
        if schema.maximum is not None and value > schema.maximum:
            yield _problem(path, value, f"is above the maximum {schema.maximum:g}", f"use {schema.maximum:g} or less")
    if isinstance(value, str):
        size = ("character", "characters")
        yield from _size_problems(path, len(value), schema.min_length, schema.max_length, size, value)
        if schema.pattern and re.search(schema.pattern, value) is None:
            yield _problem(path, value, f"does not match the pattern {schema.pattern}", "correct it")
        if schema.format in _FORMATS and not _FORMATS[schema.format](value):
            yield _problem(path, value, f"is not a {schema.format}", f"use a form such as {_EXAMPLES[schema.format]}")


def _size_problems(
    path: str, size: int, least: int | None, most: int | None, noun: tuple[str, str], value: object = ABSENT
) -> Iterator[FieldProblem]:
    if least is not None and size < least:
        fault = f"has {size} {noun[size != 1]}, and the minimum is {least}"
        yield _problem(path, value, fault, f"set {least} or more")
    if most is not None and size > most:
        yield _problem(path, value, f"has {size} {noun[size != 1]}, and the maximum is {most}", "shorten it")


def _accepted(schema: Schema, value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return what is accepted instead of a value of the wrong type; empty for a value of the right type."""
    actual = _type_of(value)
    match schema.type:
        case "":
            return ""
        case "integer":
            least, most = _INTEGERS.get(schema.format, (INT64_MIN, INT64_MAX))
            if not _is_whole(value):
                return "a whole number" if actual == "number" else "a number"
            return "" if least <= value <= most else f"integers from {least} to {most}"
        case "number":
            return "" if actual in {"integer", "number"} else "a number"
        case _ if actual == "array" and schema.format in _FORMATS:
            return ""  # an API server checks no list in the place of a text with a format
        case _:
            return "" if actual == schema.type else _WORDS[schema.type]


def _is_whole(value: Any) -> bool:  # noqa: ANN401 - any JSON value
    """Whether a value is an integer of JSON, which may have a fraction of zero."""
    return _type_of(value) == "integer" or (isinstance(value, float) and value.is_integer())


def _type_of(value: Any) -> str:  # noqa: ANN401 - any JSON value
    if value is None:
        return "null"
    return next((name for kind, name in _JSON_TYPES if isinstance(value, kind)), "object")


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _problem(path: str, value: object, fault: str, remedy: str) -> FieldProblem:
    shown = ABSENT if isinstance(value, dict | list) else value
    return FieldProblem(path, shown, fault, remedy, SCHEMA)


def _is_time(text: str) -> bool:
    try:
        return "T" in text.upper()[:11] and bool(msgspec.convert(text, Timestamp))
    except msgspec.ValidationError:
        return False


def _is_duration(text: str) -> bool:
    """Whether a text is a duration of Go, or has a number with a unit in words, such as ``2 weeks``."""
    if GO_DURATION.fullmatch(text) is not None:
        return True
    units = _WORDED_DURATION.findall(text.lower())
    return any(unit in _UNITS or unit.startswith(_UNIT_PREFIXES) for unit in units)


_FORMATS: Final[Mapping[str, Callable[[str], bool]]] = {"date-time": _is_time, "duration": _is_duration}


def _metadata_problems(metadata: Mapping[str, Any], *, namespaced: bool) -> Iterator[FieldProblem]:
    """Yield what is wrong with metadata of the right types (apimachinery ``ValidateObjectMeta``)."""
    name, prefix = metadata.get("name", ""), metadata.get("generateName", "")
    if not name and not prefix:
        yield _problem("metadata.name", ABSENT, "is missing", "add it, or generateName")
    rule = "use lower-case letters, digits, - and ., with a letter or digit at both ends, at most 253 characters"
    if name and not is_dns_subdomain(name):
        yield _problem("metadata.name", name, "is not a valid name", rule)
    # A prefix may end in a hyphen, because characters follow.
    if prefix and not is_dns_subdomain(f"{prefix[:-2]}a" if len(prefix) > 1 and prefix.endswith("-") else prefix):
        yield _problem("metadata.generateName", prefix, "is not a valid prefix of a name", rule)
    namespace = metadata.get("namespace", "")
    if namespaced and namespace and not _is_dns_label(namespace):
        remedy = "use lower-case letters, digits and -, at most 63 characters"
        yield _problem("metadata.namespace", namespace, "is not a valid name of a namespace", remedy)
    yield from _text_problems(metadata)
    for index, owner in enumerate(metadata.get("ownerReferences", ())):
        path = f"metadata.ownerReferences[{index}]"
        for key in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(key):
                yield _problem(f"{path}.{key}", ABSENT, "is missing or empty", "add it, or remove the owner")
        if (owner.get("apiVersion"), owner.get("kind")) == ("v1", "Event"):
            yield _problem(path, ABSENT, "an Event cannot own an object", "remove the owner")
    if sum(owner.get("controller") is True for owner in metadata.get("ownerReferences", ())) > 1:
        yield _problem("metadata.ownerReferences", ABSENT, "two owners are controllers", "keep one controller")


def _text_problems(metadata: Mapping[str, Any]) -> Iterator[FieldProblem]:
    for key, value in metadata.get("labels", {}).items():
        if not is_label_key(key):
            yield _problem(f"metadata.labels[{key}]", key, "is not a label key", LABEL_KEY_REMEDY)
        if not is_label_value(value):
            remedy = "use at most 63 letters, digits and -_., with a letter or digit at both ends"
            yield _problem(f"metadata.labels[{key}]", value, "is not a label value", remedy)
    annotations = metadata.get("annotations", {})
    for key in annotations:
        if not is_label_key(key.lower()):
            yield _problem(f"metadata.annotations[{key}]", key, "is not an annotation key", LABEL_KEY_REMEDY)
    size = sum(len(text.encode()) for pair in annotations.items() for text in pair)
    if size > _MAX_ANNOTATION_BYTES:
        fault = f"have {size:,} bytes, and the maximum is {_MAX_ANNOTATION_BYTES:,}"
        yield _problem("metadata.annotations", ABSENT, fault, "shorten them")
    for index, finalizer in enumerate(metadata.get("finalizers", ())):
        if not is_label_key(finalizer):
            yield _problem(f"metadata.finalizers[{index}]", finalizer, "is not a valid name", LABEL_KEY_REMEDY)


def _is_dns_label(text: str) -> bool:
    return len(text) <= _MAX_NAMESPACE and "." not in text and is_dns_subdomain(text)
