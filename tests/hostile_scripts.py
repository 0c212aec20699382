"""Interpreter scripts that try to use more time or memory than they may, by name. Each defines ``GetReplicas``."""

from typing import Final

from tables import data

_EACH: Final = "function GetReplicas(obj) {} end"
_ENDLESS: Final = "while true do end"
_BODIES: Final[dict[str, str]] = data("hostile_scripts")


def _nested(depth: int) -> str:
    return "pcall(function() " * depth + _ENDLESS + " end)" * depth


HOSTILE: Final[dict[str, str]] = {
    **{name: _EACH.format(body) for name, body in _BODIES.items()},
    **{f"pcall in {depth} pcalls": _EACH.format(f"{_nested(depth)} {_ENDLESS}") for depth in (10, 100)},
    "a loop at the top": _ENDLESS,
    "a deep expression": "function GetReplicas() return " + "(" * 30000 + "1" + ")" * 30000 + " end",
    "many constants": "function GetReplicas() return {" + "1," * 30000 + "} end",
    "bytecode": "\x1bLua",
}
