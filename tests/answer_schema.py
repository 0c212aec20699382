"""The JSON schemas of what commands print with ``-o json``, from the structs that they print."""

import importlib
from collections.abc import Mapping
from typing import Any, Final, get_args, get_origin

import msgspec

from berthmaster.model.quantity import Quantity
from berthmaster_cli.answers import API_VERSION, AnswerKind
from berthmaster_cli.main import COMMANDS, command_module

JSON = dict[str, Any]
_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_REF: Final = "#/$defs/{name}"
_MORE: Final = ("berthmaster_cli.tables", "berthmaster_cli.kubeadmiral.answers")
"""The modules with answers that have no command of their own."""


def answers() -> list[AnswerKind]:
    """Return the answers of all commands, by kind."""
    modules = [importlib.import_module(each) for each in (*sorted(map(command_module, COMMANDS)), *_MORE)]
    found = {each.kind: each for module in modules for each in vars(module).values() if isinstance(each, AnswerKind)}
    return [found[kind] for kind in sorted(found)]


def _custom(kind: type) -> JSON:
    return {"type": ["string", "number"]} if kind is Quantity else {"type": "string"}


def schema_of_answers() -> JSON:
    """Return the schema of all answers. Each is an object with its own ``kind``."""
    known = answers()
    forms, parts = msgspec.json.schema_components([each.form for each in known], schema_hook=_custom, ref_template=_REF)
    whole = [_with_header(answer, form, parts) for answer, form in zip(known, forms, strict=True)]
    return {"$schema": _DRAFT, "title": "Answers of berthmaster with -o json", "oneOf": whole, "$defs": parts}


def _with_header(answer: AnswerKind, form: JSON, parts: Mapping[str, JSON]) -> JSON:
    """Return the schema of an answer: the header, and the fields of its struct or its items."""
    if get_origin(answer.form) is list:
        row = get_args(answer.form)[0]
        fields, required = {"items": form}, ["items"]
        text = f"Rows: {row.__name__}."
    else:
        part = parts[form["$ref"].rpartition("/")[2]]
        fields, required, text = part["properties"], part.get("required", []), part.get("description", "")
    header = {"apiVersion": {"const": API_VERSION}, "kind": {"const": answer.kind}}
    if taken := header.keys() & fields.keys():
        raise ValueError(f"{answer.kind}: {', '.join(taken)} is a field of the struct, and of every answer")
    return {
        "title": answer.kind,
        "description": text,
        "type": "object",
        "properties": {**header, **fields},
        "required": [*header, *required],
    }


def closed(schema: Any) -> Any:
    """Return a schema that refuses fields which no struct has. Published schemas accept them: fields are added."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: closed(value) for key, value in schema.items()}
    is_struct = isinstance(schema.get("properties"), dict) and schema.get("type") == "object"
    return {**inner, "additionalProperties": False} if is_struct else inner
