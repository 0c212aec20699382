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

_BOOTSTRAP: Final = """
local sethook, clock, raw_pcall, raw_error, collect = debug.sethook, os.clock, pcall, error, collectgarbage
local raw_unpack, raw_rep, raw_insert, raw_sort, raw_gsub = unpack, string.rep, table.insert, table.sort, string.gsub
local max_depth, max_range, max_text = 20, 5000, 1048576
local load_text, set_environment, text_metatable = loadstring, setfenv, getmetatable("")
local limit_steps, limit_seconds, every = ...
local left, ends, exhausted = 0, 0, false

local function spend(steps)
  left = left - steps
  if left < 0 or clock() > ends then
    exhausted = true
    raw_error("needs too many steps", 0)
  end
end

local depth = 0

-- Call a function of the library that calls back. An error leaves the depth to the pcall that catches it.
local function deeper(call, ...)
  if depth >= max_depth then raw_error("is nested too deeply", 0) end
  depth = depth + 1
  local function back(...)
    depth = depth - 1
    return ...
  end
  return back(call(...))
end

local function safe_pcall(f, ...)
  local before = depth
  local function checked(...)
    depth = before
    if exhausted then raw_error("needs too many steps", 0) end
    return ...
  end
  return checked(deeper(raw_pcall, f, ...))
end

local function whole(name, number)
  number = tonumber(number)
  if number == nil or number % 1 ~= 0 then raw_error(name .. " needs a whole number", 0) end
  return number
end

local function safe_unpack(list, first, last)
  first, last = whole("unpack", first or 1), whole("unpack", last or #list)
  if last - first >= max_range then raw_error("unpack of more than " .. max_range .. " values", 0) end
  return raw_unpack(list, first, last)
end

local function safe_rep(text, times)
  times = whole("rep", times)
  if times < 1 then return "" end
  if times > max_text or #text * times > max_text then raw_error("rep makes more than 1 MiB", 0) end
  spend(times)
  return raw_rep(text, times)
end

local function safe_insert(list, ...)
  if select("#", ...) ~= 2 then return raw_insert(list, ...) end
  local place, value = ...
  place = whole("insert", place)
  if place < 1 or place > #list + 1 then raw_error("insert at a place outside of the list", 0) end
  spend(#list + 1 - place)
  return raw_insert(list, place, value)
end

local function safe_sort(list, ...)
  spend(#list)
  return deeper(raw_sort, list, ...)
end

local function copy(from, names)
  local to = {}
  for name in names:gmatch("%S+") do to[name] = from[name] end
  return to
end

-- The steps of a pattern at worst. A number as text or pattern becomes its digits.
local function charged(match)
  return function(text, pattern, ...)
    if type(text) == "number" then text = tostring(text) end
    if type(pattern) == "number" then pattern = tostring(pattern) end
    if type(text) == "string" and type(pattern) == "string" then
      local _, repeats = raw_gsub(pattern, "[*+?-]", "")
      local _, jumps = raw_gsub(pattern, "%%[b%d]", "")
      spend((#text + 1) ^ (repeats + jumps + 1) * (#pattern + 1) / 8)
    end
    return deeper(match, text, pattern, ...)
  end
end

local function strings()
  local safe = copy(string, "byte char format len lower reverse sub upper")
  for _, name in ipairs({"find", "gmatch", "gsub", "match"}) do safe[name] = charged(string[name]) end
  safe.rep = safe_rep
  return safe
end
text_metatable.__index = strings()

local function environment(kube)
  local visible = copy(_G, "_VERSION assert error ipairs next pairs select tonumber tostring type")
  visible._G, visible.pcall, visible.string, visible.unpack = visible, safe_pcall, strings(), safe_unpack
  visible.table = copy(table, "concat maxn remove")
  visible.table.insert, visible.table.sort = safe_insert, safe_sort
  visible.math = copy(math, "abs ceil exp floor fmod huge log max min modf pi pow sqrt")
  visible.require = function(name)
    if name ~= "kube" then raw_error("module " .. tostring(name) .. " is not available", 0) end
    return kube
  end
  return visible
end

-- Python functions return whether they succeeded, and the result or the message.
local function wrapped(call)
  local function result(ok, value)
    if not ok then raw_error(value, 0) end
    return value
  end
  return function(...)
    spend(1000)
    return result(call(...))
  end
end

local module = {}
local function offer(name, call) module[name] = wrapped(call) end

local function run(script, name, object)
  left, ends, exhausted, depth = limit_steps, clock() + limit_seconds, false, 0
  sethook(function() spend(every) end, "", every)
  local ok, first, second = raw_pcall(function()
    local chunk, problem = load_text(script, "=script")
    if chunk == nil then raw_error(problem, 0) end
    local kube = {}
    for key, value in pairs(module) do kube[key] = value end
    local visible = environment(kube)
    set_environment(chunk, visible)()
    local wanted = visible[name]
    if type(wanted) ~= "function" then raw_error("has no function " .. name, 0) end
    return wanted(object)
  end)
  sethook()
  collect()
  if not ok and type(first) ~= "string" then first = "failed with a " .. type(first) end
  return ok, first, second, exhausted or (not ok and first == "not enough memory")
end

return offer, run
"""


class Sandbox:
    """Runs scripts. Each run sees fresh globals."""

    def __init__(self, functions: Mapping[str, Callable[..., Any]]) -> None:
        """Prepare the sandbox.

        Args:
            functions: the functions of the module ``kube`` by name. Their arguments and results are plain values; an
                ``InputError`` becomes an error of the script.
        """
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
        """Run a script, then call one of its functions.

        Returns:
            The first two results as plain values.

        Raises:
            ScriptError: the script is invalid or fails.
            ExhaustedError: it exceeds a limit.
        """
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
        return value

    def _guarded(self, function: Callable[..., Any]) -> Callable[..., tuple[bool, Any]]:
        """Return a function for Lua that raises nothing: no Python exception may reach a script."""

        def call(*arguments: object) -> tuple[bool, Any]:
            try:
                return True, self._to_lua(function(*map(to_plain, arguments)))
            except (InputError, TypeError, ValueError, OverflowError) as error:
                return False, " ".join(str(error).split())[:200]

        return call


def to_plain(value: Any) -> Any:  # noqa: ANN401 - a value of Lua
    """Convert a value of Lua. A table with the keys 1 to n is a list; an empty table is None.

    Raises:
        ScriptError: the value is no data, or it is too large or nested too deeply.
    """
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
