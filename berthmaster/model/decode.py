"""Decoding of JSON, or of parsed YAML, to typed values, and encoding.

Decoding is lenient where API servers are: it ignores unknown fields (``unknown_fields`` reports them), and null means
absent. A value of the wrong type is a ``FieldError`` with its path, because a decision could be wrong.

An invalid document costs little more than a valid one. Only a document of at most ``REDECODED_BYTES`` is decoded a
second time, as dicts and lists, to show the wrong value. The error of a larger document has the decoder's path and no
value, and null fields are removed from its text.

Only one thread at a time may create a decoder. While msgspec reads the annotations of a type, it lets other threads
decode with the incomplete result, and the process ends with SIGSEGV (0.22.0: ``StructInfo_Convert`` stores a type
before its fields). Once a decoder exists, ``msgspec.convert`` to its type is safe as well.
"""

import re
import threading
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import lru_cache
from typing import Any, Final, Literal, TypeVar, get_args

import msgspec

from berthmaster.model.errors import FieldError, InputError, shown
from berthmaster.model.foreign_texts import DecodingProblem, decoding_problem
from berthmaster.model.hints import closest
from berthmaster.model.json_text import MAX_NULL_FIELDS, without_null_fields
from berthmaster.model.meta import ParsedText
from berthmaster.model.quantity import Quantity
from berthmaster.model.struct_fields import fields_of, structs_in

T = TypeVar("T")

NOT_JSON: Final = (msgspec.DecodeError, UnicodeError, RecursionError)
"""What a decoder of msgspec raises for bytes that are no JSON, or no JSON of its type.

Text that is not UTF-8 can also be found later, by the decoder of a part: a decoder looks only at the text that it
needs. ``decode_json`` makes one error of all of these.
"""
REDECODED_BYTES: Final = 2**20
"""The largest document that is decoded again to find the value that an error is about."""
_SEGMENT: Final = re.compile(r"\.([^.\[]+)|\[(\d+)\]|\[\.\.\.\]")
_JSON_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "str": (str,), "int": (int,), "float": (float,), "bool": (bool,), "null": (type(None),),
    "array": (list, tuple), "object": (dict,),
}  # fmt: skip
_NULL: Final = "null"
_WORDS: Final = {
    "str": "a text", "int": "a number", "float": "a number", "bool": "true or false", _NULL: "empty",
    "array": "a list", "object": "a mapping",
}  # fmt: skip
"""The types of JSON in the words of YAML."""
_MISSPELLED: Final = 0.8
"""The similarity of a field that is there to one that is missing, from which the first is meant to be the second."""
_UNREAD: Final = object()
"""The place of a value that is not known, because the document was not read as dicts and lists."""
_ANYTHING: Final[Any] = Any
_CREATING_DECODER: Final = threading.Lock()
_DECODERS: Final[dict[type, msgspec.json.Decoder[Any]]] = {}


def decode_json(kind: type[T], document: bytes | str) -> T:
    """Decode a JSON document. Raises ``FieldError`` if the document is not JSON, or a value has the wrong type."""
    try:
        try:
            return _decoder(kind).decode(document)
        except msgspec.ValidationError as error:
            # A document may also be a msgspec.Raw, which has no length.
            size = len(document) if isinstance(document, str) else memoryview(document).nbytes
            if size > REDECODED_BYTES:
                return _decode_large(kind, document, error)
            raw = msgspec.json.decode(document)  # noqa: TID251 - the one place
    except (msgspec.DecodeError, UnicodeError) as error:
        raise FieldError("", f"not valid JSON: {error}") from None
    except RecursionError:
        raise TooDeepError from None
    return convert(kind, raw)


def read_json(document: bytes | str) -> Any:  # noqa: ANN401 - any JSON value
    """Decode a JSON document to dicts and lists. Raises ``FieldError`` as ``decode_json`` does."""
    found: Any = decode_json(_ANYTHING, document)
    return found


def _decode_large(kind: type[T], document: bytes | str, error: msgspec.ValidationError) -> T:
    """Decode a document without its null fields. Never create dicts and lists of the whole document."""
    text = document.encode() if isinstance(document, str) else bytes(document)
    if b"null" in text:
        pruned = without_null_fields(text)
        if pruned is None:
            raise FieldError("", f"has more than {MAX_NULL_FIELDS:,} null fields; remove them") from None
        try:
            return _decoder(kind).decode(pruned)
        except msgspec.ValidationError as remaining:
            error = remaining
    raise _field_error(kind, _UNREAD, str(error)) from None


def convert(kind: type[T], raw: Any) -> T:  # noqa: ANN401 - any JSON value
    """Convert decoded JSON or YAML to a typed value; see ``decode_json``."""
    _decoder(kind)  # a decoder must exist before ``msgspec.convert``; see the module docstring
    try:
        return msgspec.convert(raw, kind, dec_hook=_decode_custom)
    except msgspec.ValidationError:
        pass
    try:
        pruned = without_nulls(raw)
    except RecursionError:
        raise TooDeepError from None
    try:
        return msgspec.convert(pruned, kind, dec_hook=_decode_custom)
    except msgspec.ValidationError as error:
        raise _field_error(kind, pruned, str(error)) from None


def mapping_of(value: object) -> Mapping[str, Any]:
    """Return a JSON object; an empty one for any other value."""
    return value if isinstance(value, Mapping) else {}


def encode_json(value: object) -> bytes:
    return _ENCODER.encode(value)


def builtins(value: object) -> Any:  # noqa: ANN401 - any JSON value
    return msgspec.json.decode(_ENCODER.encode(value))  # noqa: TID251 - JSON of our own


class TooDeepError(FieldError):
    """A document is nested too deeply to be decoded."""

    def __init__(self) -> None:
        super().__init__("", "nested too deeply")


def _decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    decoder = _DECODERS.get(kind)
    if decoder is None:
        with _CREATING_DECODER:
            decoder = _DECODERS[kind] = msgspec.json.Decoder(kind, dec_hook=_decode_custom)
    return decoder


def _decode_custom(kind: type, raw: object) -> object:
    if kind is Quantity and isinstance(raw, str | int | float) and not isinstance(raw, bool):
        try:
            return _quantity(raw) if isinstance(raw, str) else Quantity.parse(raw)
        except InputError as error:
            raise ValueError(str(error)) from None
    if issubclass(kind, ParsedText):
        if not isinstance(raw, str):
            json_type = next(name for name, types in _JSON_TYPES.items() if type(raw) in types)
            raise TypeError(f"{shown(raw)} is {_WORDS[json_type]}, where a text is accepted")
        try:
            return kind.parse(raw)
        except InputError as error:
            raise ValueError(str(error)) from None
    raise ValueError(f"{shown(raw)} is not a {kind.__name__.lower()}")


@lru_cache(maxsize=4096)
def _quantity(text: str) -> Quantity:
    """Parse a quantity. Quantities never change, and the documents of a fleet share a few values."""
    return Quantity.parse(text)


def _encode_custom(value: object) -> object:
    if isinstance(value, Quantity):
        return value.text or value.canonical()
    if isinstance(value, ParsedText):
        return value.text()
    raise NotImplementedError(f"no JSON form for {type(value).__name__}")


_ENCODER: Final = msgspec.json.Encoder(enc_hook=_encode_custom)


def without_nulls(raw: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return a JSON value without null fields: Go reads null as absent."""
    if isinstance(raw, dict):
        return {key: without_nulls(value) for key, value in raw.items() if value is not None}
    return [without_nulls(value) for value in raw] if isinstance(raw, list) else raw


def _field_error(kind: Any, raw: Any, message: str) -> FieldError:  # noqa: ANN401 - a type, and any JSON value
    """Convert a decoder's message to an error with the Kubernetes path, the value there and what is accepted."""
    problem = decoding_problem(message)
    got = _JSON_TYPES.get(problem.got)
    path, value = _resolve(raw, problem.location, got)
    text = "the value" if value is _UNREAD else shown(value)
    if got:
        return FieldError(path, f"{text} is {_WORDS[problem.got]}, where {_accepted(problem)} is accepted")
    if problem.invalid_choice:
        return FieldError(path, f"{text} is not accepted; accepted are {_accepted_values(kind, problem.location)}")
    if problem.out_of_range:
        return FieldError(path, f"{text} is out of range: {problem.text}")
    if problem.missing:
        missing = f"{path}.{problem.missing}" if path else problem.missing
        written = closest(problem.missing, value, _MISSPELLED) if isinstance(value, dict) else None
        hint = f"; did you mean {problem.missing} instead of {written}?" if written else ""
        return FieldError(missing, f"is missing or null{hint}")
    return FieldError(path, problem.text)


def _accepted(problem: DecodingProblem) -> str:
    """Return the accepted types in the words of YAML."""
    types = [each for each in problem.expected.split(" | ") if each != _NULL]
    if problem.got == "float":
        return " or ".join("a whole number" if each == "int" else _WORDS.get(each, each) for each in types)
    return " or ".join(dict.fromkeys(_WORDS.get(each, each) for each in types))


def _resolve(raw: Any, location: str, got: tuple[type, ...] | None) -> tuple[str, Any]:  # noqa: ANN401
    """Return the decoder's location as a path, and the value there; ``_UNREAD`` if there is none.

    The decoder writes any key of a map as ``[...]``. It is resolved to the first entry that can cause the error, and
    stays as it is in a document that was not read.
    """
    path, value = "", raw
    for segment in _SEGMENT.finditer(location):
        name, index = segment[1], segment[2]
        if name is not None:
            path += f".{name}"
            value = value.get(name) if isinstance(value, dict) else _UNREAD
        elif index is not None:
            path += f"[{index}]"
            value = value[int(index)] if isinstance(value, list) and int(index) < len(value) else _UNREAD
        elif isinstance(value, dict) and value:
            key = next((key for key, entry in value.items() if _may_be_the_cause(entry, got)), next(iter(value)))
            path += f"[{key}]"
            value = value[key]
        else:
            path += "[...]"
            value = _UNREAD
    return path.removeprefix("."), value


def _may_be_the_cause(entry: object, got: tuple[type, ...] | None) -> bool:
    if got is not None:
        return isinstance(entry, got) and not (isinstance(entry, bool) and bool not in got)
    try:
        _decode_custom(Quantity, entry)
    except ValueError:
        return True
    return False


def _accepted_values(kind: Any, location: str) -> str:  # noqa: ANN401 - a type
    for segment in _SEGMENT.finditer(location):
        if segment[1] is None:
            kind = next((each for each in get_args(kind) if each is not Ellipsis), kind)
        else:
            kind = _choices(structs_in(kind), segment[1])
    return ", ".join(value for value in _literals(kind) if value)


def _literals(kind: Any) -> Iterator[str]:  # noqa: ANN401 - a type, or a part of one
    if isinstance(kind, type) and issubclass(kind, Enum):
        yield from (str(each.value) for each in kind)
    for part in get_args(kind):
        if isinstance(part, str):
            yield part
        else:
            yield from _literals(part)


def _choices(structs: list[type[msgspec.Struct]], name: str) -> Any:  # noqa: ANN401 - a type, or None
    """Return the type of a field of the structs; for the tag field of a union, the literal of all tags."""
    tags = tuple(each.__struct_config__.tag for each in structs if each.__struct_config__.tag_field == name)
    if tags:
        return Literal[tags]
    return next((fields[name] for each in structs if name in (fields := fields_of(each))), None)
