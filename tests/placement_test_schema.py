"""The JSON schemas of docs/schemas: of placement tests, and of what commands print. Writes them as a script."""

from inspect import cleandoc
from pathlib import Path
from typing import Any, Final

import msgspec
from answer_schema import schema_of_answers

from berthmaster.model.quantity import Quantity
from berthmaster.simulation.changes import WhatIf
from berthmaster_cli.placement_tests.files import API_VERSION, APPLY, DOWN, Lost, PlacementTest
from berthmaster_cli.placement_tests.reports import PlacementTestReport

PAGES: Final = Path(__file__).parents[1] / "docs" / "schemas"
_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_REF: Final = "#/$defs/{name}"
JSON = dict[str, Any]


def _custom(kind: type) -> JSON:
    return {"type": ["string", "number"]} if kind is Quantity else {"type": "string"}


def schema_of_tests() -> JSON:
    """Return the schema of a PlacementTest. An entry of ``given`` has one change, as the value of its type."""
    changes = {str(each.__struct_config__.tag): each for each in WhatIf.__args__} | {DOWN: Lost}
    (test, *forms), known = msgspec.json.schema_components(
        [PlacementTest, *changes.values()], schema_hook=_custom, ref_template=_REF
    )
    paths = known["PlacementTest"]["properties"]["fleet"]
    closed = {"PlacementTest", "Expectation", "ClusterRule", "AmountRange"}
    known = {name: {**each, "additionalProperties": False} if name in closed else each for name, each in known.items()}
    entries = dict(zip(changes, forms, strict=True))
    for form in entries.values():
        _untag(known, form)
    entries[APPLY] = {key: value for key, value in paths.items() if key != "default"}
    whole = known[test["$ref"].rpartition("/")[2]]
    given = {
        **whole["properties"]["given"],
        "items": {
            "oneOf": [
                {"type": "object", "required": [kind], "properties": {kind: form}, "additionalProperties": False}
                for kind, form in entries.items()
            ]
        },
    }
    switches = {each: {"enum": ["auto", "on", "off", True, False]} for each in ("failover", "preemption")}
    fixed = {"apiVersion": {"const": API_VERSION}, "kind": {"const": "PlacementTest"}}
    known["PlacementTest"] = {
        **whole,
        "required": ["apiVersion", "kind", "metadata", "expect"],
        "properties": {**whole["properties"], **fixed, "given": given, **switches},
    }
    return {"$schema": _DRAFT, "title": "PlacementTest", **test, "$defs": known}


def _untag(known: dict[str, JSON], form: JSON) -> None:
    """Remove the tag of a change: in a file, its key is the type."""
    name = form["$ref"].rpartition("/")[2]
    change = known[name]
    known[name] = {
        **change,
        "required": [each for each in change.get("required", ()) if each != "type"],
        "properties": {key: value for key, value in change["properties"].items() if key != "type"},
    }


def schema_of_reports() -> JSON:
    """Return the schema of what ``berthmaster test -o json`` prints."""
    return {"$schema": _DRAFT, **msgspec.json.schema(PlacementTestReport, schema_hook=_custom, ref_template=_REF)}


def _dedented(value: Any) -> Any:
    """Return a schema whose descriptions have no indentation, which depends on the version of Python."""
    if isinstance(value, dict):
        found = {key: _dedented(each) for key, each in value.items()}
        text = found.get("description")
        return {**found, "description": cleandoc(text)} if isinstance(text, str) else found
    return [_dedented(each) for each in value] if isinstance(value, list) else value


def schemas() -> dict[Path, str]:
    """Return the files of all schemas."""
    found = {"placement-test": schema_of_tests(), "placement-test-report": schema_of_reports()}
    found["answers"] = schema_of_answers()
    return {
        PAGES / f"{name}.json": msgspec.json.format(msgspec.json.encode(_dedented(each)), indent=2).decode() + "\n"
        for name, each in found.items()
    }


def main() -> None:
    """Write the schemas."""
    for path, text in schemas().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
