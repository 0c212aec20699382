"""The table of values in the chart's README: defaults and meanings from values.yaml, types from the schema."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import yaml

BEGIN: Final = "<!-- values: made from values.yaml by `make chart ARGS=--update-golden` -->"
END: Final = "<!-- end of values -->"


class Row(NamedTuple):
    """One value.

    Attributes:
        path: its keys, joined by dots.
        default: as JSON.
        accepted: in words.
        meaning: its comment.
    """

    path: str
    default: str
    accepted: str
    meaning: str


def table(text: str, schema: Mapping[str, Any]) -> list[Row]:
    """Every key of values.yaml with a comment right above it, in its order."""
    return [
        Row(path, json.dumps(value, ensure_ascii=False), accepted(_known(schema, path), schema), meaning)
        for path, value, meaning in _commented(text)
    ]


def readme(text: str, values: str, schema: Mapping[str, Any]) -> str:
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    lines = ["| value | default | accepted | |", "|---|---|---|---|"]
    lines += [
        f"| `{row.path}` | `{_cell(row.default)}` | {_cell(row.accepted)} | {_cell(row.meaning)} |"
        for row in table(values, schema)
    ]
    return f"{before}{BEGIN}\n\n" + "\n".join(lines) + f"\n\n{END}{after}"


def accepted(known: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    if "$ref" in known:
        name = known["$ref"].rpartition("/")[2]
        return {"strings": "texts by name", "optionalName": "name or empty", "portOrZero": "port or 0",
                "numberOrEmpty": "number or empty", "percentOrEmpty": "0 to 100 or empty",
                "intOrPercent": "number or percentage",
                "labelSelector": "label selector", "arguments": "list of texts"}.get(name, name)  # fmt: skip
    if "enum" in known:
        return ", ".join(f"`{each}`" if each else "empty" for each in known["enum"])
    kind = str(known["type"])
    if kind in {"integer", "number"} and "minimum" in known and "maximum" in known:
        return f"{known['minimum']} to {known['maximum']}"
    if kind == "array":
        return f"list of {accepted(known['items'], schema)}"
    return {"string": "text", "object": "mapping", "boolean": "true, false"}.get(kind, kind)


def _commented(text: str) -> Iterator[tuple[str, Any, str]]:
    """(path, default, comment) of every key that a comment stands above."""
    document = yaml.safe_load(text)
    keys: list[tuple[int, str]] = []
    comment: list[str] = []
    for line in text.splitlines():
        bare = line.strip()
        if bare.startswith("#"):
            comment.append(bare.removeprefix("#").strip())
            continue
        if bare and not bare.startswith("-"):
            indent = len(line) - len(line.lstrip())
            keys = [each for each in keys if each[0] < indent]
            keys.append((indent, bare.partition(":")[0]))
            if comment:
                path = [key for _, key in keys]
                yield ".".join(path), _at(document, path), " ".join(comment)
        comment = []


def _at(document: Any, path: list[str]) -> Any:
    for key in path:
        document = document[key]
    return document


def _known(schema: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    for key in path.split("."):
        schema = schema["properties"][key]
    return schema


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
