"""A sandbox for Lua 5.1, the language of Karmada's interpreters.

A script may come with a dump from a stranger. It sees the libraries that Karmada offers, without ``os``: base functions
that cannot leave the sandbox, ``math``, ``string``, ``table``, and the module ``kube``. It sees no Python object. Three
limits hold: the memory of the runtime, the number of steps, and the processor time. Lua cannot interrupt its library.
Functions that take long or crash with odd arguments are therefore wrapped: a pattern is charged with the steps that it
needs at worst, and the ranges of ``rep``, ``insert`` and ``unpack`` are bounded. The depth of calls through the library
is bounded as well: at its own limit Lua does not call the hook that counts steps.

These limits are the first line. ``worker`` runs the sandbox in a process of its own, which the kernel ends.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

from lupa.lua51 import LuaError, LuaMemoryError, LuaRuntime, LuaSyntaxError, lua_type

from berthmaster.interpreters.lua import ExhaustedError, ScriptError
from berthmaster.model.errors import InputError, shown

MEMORY_BYTES: Final = 16 * 2**20
STEPS: Final = 2_000_000
CPU_SECONDS: Final = 0.8
_MAX_SCRIPT_BYTES: Final = 64 * 2**10
_MAX_VALUES: Final = 100_000
_MAX_DEPTH: Final = 50
_BYTECODE: Final = "\x1b"

_BOOTSTRAP: Final = Path(__file__).with_suffix(".lua").read_text("utf-8")
"""It is read at the import: the process of the scripts opens no file later."""


class Sandbox:
    """Runs scripts. Each run sees fresh globals."""

    def __init__(self, functions: Mapping[str, Callable[..., Any]]) -> None:
        """Offer the functions of the module ``kube``. Their ``InputError`` becomes an error of the script."""
        self._functions = functions
        self._start()

    def _start(self) -> None:
        self._lua = LuaRuntime(
            unpack_returned_tuples=True,
            register_eval=False,
            register_builtins=False,
            attribute_filter=_no_attribute,
            max_memory=MEMORY_BYTES,
        )
        offer, self._run = self._lua.execute(_BOOTSTRAP, STEPS, CPU_SECONDS, 100)
        for name, function in self._functions.items():
            offer(name, self._guarded(function))

    def call(self, script: str, name: str, argument: Mapping[str, Any]) -> tuple[Any, Any]:
        """Run a script and one of its functions. Return two plain values. Raises ``ScriptError``."""
        if len(script.encode("utf-8", "replace")) > _MAX_SCRIPT_BYTES or script.startswith(_BYTECODE):
            raise ScriptError(f"is no text of up to {_MAX_SCRIPT_BYTES} bytes")
        try:
            ok, first, second, exhausted = self._run(script, name, self._to_lua(argument))
            if not ok:
                self._start()  # its memory may be full, and Lua 5.1 collects no garbage when it is
                raise (ExhaustedError if exhausted else ScriptError)(" ".join(str(first).split())[:200])
            return _result(first), _result(second)
        except LuaMemoryError:
            self._start()
            raise ExhaustedError(f"needs more than {MEMORY_BYTES >> 20} MiB") from None
        except (LuaError, LuaSyntaxError, UnicodeError) as error:
            self._start()
            raise ScriptError(" ".join(str(error).split())[:200]) from None

    def _to_lua(self, value: object) -> Any:  # noqa: ANN401 - a value of Lua
        """Convert a plain value; null becomes nil."""
        if isinstance(value, Mapping):
            entries = {str(key): self._to_lua(entry) for key, entry in value.items() if entry is not None}
            return self._lua.table_from(entries)
        if isinstance(value, list | tuple):
            return self._lua.table_from([self._to_lua(entry) for entry in value])
        if value is None or isinstance(value, str | int | float):
            return value
        raise TypeError(f"a {type(value).__name__} is no data")

    def _guarded(self, function: Callable[..., Any]) -> Callable[..., tuple[bool, Any]]:
        """Return a function for Lua that raises nothing for invalid input.

        The bootstrap makes a text of any other exception: no object of Python may reach a script.
        """

        def call(*arguments: object) -> tuple[bool, Any]:
            try:
                return True, self._to_lua(function(*map(to_plain, arguments)))
            except (InputError, TypeError, ValueError, OverflowError) as error:
                return False, " ".join(str(error).split())[:200]

        return call


def to_plain(value: Any) -> Any:  # noqa: ANN401 - a value of Lua
    """Convert a value of Lua: a table with keys 1 to n is a list, an empty one None. Raises ``ScriptError``."""
    return _Converter().convert(value, 0)


def _result(value: Any) -> Any:  # noqa: ANN401 - a value of Lua
    """Convert a result. An empty table differs from nil: it is an object without fields."""
    plain = to_plain(value)
    return {} if plain is None and value is not None else plain


class _Converter:
    def __init__(self) -> None:
        self._values = 0

    def convert(self, value: Any, depth: int) -> Any:  # noqa: ANN401 - a value of Lua
        self._values += 1
        if depth > _MAX_DEPTH or self._values > _MAX_VALUES:
            raise ScriptError("returns too large a value")
        kind = lua_type(value)
        if kind is None:
            return value
        if kind != "table":
            raise ScriptError(f"returns a {kind}; accepted is data")
        entries = {key: self.convert(entry, depth + 1) for key, entry in value.items()}
        entries = {key: entry for key, entry in entries.items() if entry is not None}
        if not entries:
            return None
        if all(isinstance(key, int) for key in entries):
            return [entries[key] for key in sorted(entries)]
        return {str(key): entry for key, entry in entries.items()}


def _no_attribute(_object: object, name: object, _is_setting: bool) -> NoReturn:  # noqa: FBT001 - lupa's signature
    """Refuse every attribute of a Python object. Scripts get none; this is a second line."""
    raise AttributeError(f"{shown(name)} is not available")
