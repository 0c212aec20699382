"""Interpreter scripts that try to use more time or memory than they may, by name. Each defines ``GetReplicas``."""

from typing import Final

_EACH: Final = "function GetReplicas(obj) {} end"


def _nested(depth: int, inner: str) -> str:
    return "pcall(function() " * depth + inner + " end)" * depth


_BODIES: Final[dict[str, str]] = {
    "an endless loop": "while true do end",
    "an endless repeat": "repeat until false",
    "a long for loop": "for i = 1, 1e15 do end",
    "recursion": "local function f() return 1 + f() end f()",
    "tail recursion": "local function f() return f() end f()",
    "mutual recursion": "local f, g function f() return g() end function g() return f() end f()",
    "a loop in pcall": "while true do pcall(function() while true do end end) end",
    "a loop in two pcalls": "pcall(function() while true do pcall(function() while true do end end) end end)",
    "pcall in 10 pcalls": _nested(10, "while true do end") + " while true do end",
    "pcall in 100 pcalls": _nested(100, "while true do end") + " while true do end",
    "pcall up to the C stack": (
        "local function f(n) pcall(function() f(n + 1) end) while true do end end pcall(f, 1) while true do end"
    ),
    "pcall of pcall": (
        "local f = pcall for i = 1, 300 do local g = f f = function(...) return g(pcall, g, ...) end end f()"
    ),
    "pcall(pcall, pcall, ...)": "pcall(pcall, pcall, pcall, pcall, function() while true do end end) while true do end",
    "errors in errors": "local function f() pcall(f) error(f) end pcall(f) while true do end",
    "an error object": "error({})",
    "an endless error message": "error(('x'):rep(1000000))",
    "rep of nothing": "return #string.rep('', 2147483647)",
    "rep of nothing, often": "for i = 1, 1e9 do string.rep('', 2147483647) end",
    "rep of much": "return #string.rep('x', 2147483647)",
    "rep in a loop": "for i = 1, 1e9 do string.rep('x', 1000000) end",
    "rep of rep": "local s = 'x' while true do s = s:rep(1000) end",
    "rep with a negative number": "while true do string.rep('x', -2147483648) end",
    "insert far below": "table.insert({}, -2147483648, 1)",
    "insert far below, often": "local t = {1} while true do table.insert(t, -2147483648, 1) end",
    "insert far above": "table.insert({}, 2147483647, 1)",
    "insert at a fraction": "table.insert({1, 2}, 0.5, 1)",
    "insert without a table": "table.insert(nil, -2147483648, 1)",
    "a table that grows": "local t = {} while true do t[#t + 1] = t end",
    "a table that grows by insert": "local t = {} while true do table.insert(t, 1) end",
    "a table that grows at the front": "local t = {} while true do table.insert(t, 1, 1) end",
    "remove in a loop": "local t = {} for i = 1, 1e5 do t[i] = i end while true do table.remove(t, 1) t[#t+1] = 1 end",
    "remove at a border far away": "local t = {[2^30] = 1, [2^31 - 1] = 1} while true do table.remove(t, 1) end",
    "concat of much": "local t = {} for i = 1, 1e5 do t[i] = ('x'):rep(100) end while true do table.concat(t) end",
    "concat from far below": "return table.concat({}, 'x', -2147483648, 2147483647)",
    "concat with a long separator": (
        "local t = {} for i = 1, 1e5 do t[i] = '' end return table.concat(t, ('x'):rep(1e6))"
    ),
    "maxn in a loop": "local t = {} for i = 1, 1e5 do t[i] = 1 end while true do table.maxn(t) end",
    "sort in a loop": "local t = {} for i = 1, 2e5 do t[i] = i % 7 end while true do table.sort(t) end",
    "sort with a wrong order": "local t = {} for i = 1, 1e4 do t[i] = i end table.sort(t, function() return true end)",
    "sort with a loop": "table.sort({3, 2, 1}, function() while true do end end)",
    "sort in sort": "local function f() table.sort({2, 1}, function(a, b) f() return a < b end) end f()",
    "unpack of a wide range": "return unpack({}, -2147483648, 2147483647)",
    "unpack from far below": "return unpack({}, -2147483648, 1)",
    "unpack to far above": "return unpack({}, 1, 1e8)",
    "unpack with fractions": "return unpack({}, 0.5, 2147483647.5)",
    "unpack in pcall": "while true do pcall(unpack, {}, -2147483648, 2147483647) end",
    "unpack of many": "return select('#', unpack({}, 1, 7000))",
    "select from the end": "while true do select(-1, 1, 2, 3) end",
    "find with many repeats": "return (('a'):rep(40)):find(('a*'):rep(20) .. 'b')",
    "find with optional characters": "return (('a'):rep(30)):find(('a?'):rep(30) .. ('a'):rep(30) .. 'b')",
    "find with a lazy repeat": "return (('a'):rep(5000)):find('.-.-.-b')",
    "find of balanced brackets": "return (('('):rep(200000)):find('%b()')",
    "find of balanced brackets, often": "return (('('):rep(2000)):find('%b()%b()%b()')",
    "gsub of balanced brackets": "return (('('):rep(200000)):gsub('%b()', '')",
    "a long literal pattern": "return (('a'):rep(100000)):find(('a'):rep(50000) .. 'b')",
    "a long plain text": "return (('a'):rep(200000)):find(('a'):rep(100000) .. 'b', 1, true)",
    "a long set": "return (('a'):rep(200000)):find('[' .. ('b'):rep(100000) .. ']')",
    "a long set in gsub": "return (('a'):rep(200000)):gsub('[^' .. ('b'):rep(100000) .. ']x', '')",
    "a frontier": "return (('a'):rep(200000)):gsub('%f[' .. ('b'):rep(100000) .. ']', '')",
    "back references": "return (('a'):rep(3000)):find('(.-)%1%1b')",
    "match in a loop": "local s = ('a'):rep(1000) while true do s:match('.-b') end",
    "gmatch over everything": "for _ in (('a'):rep(1e6)):gmatch('') do for _ in (('a'):rep(1e6)):gmatch('') do end end",
    "gsub that grows": "local s = 'x' while true do s = s:gsub('x', 'xxxxxxxxxx') end",
    "gsub with a loop": "return ('aaa'):gsub('a', function() while true do end end)",
    "gsub in gsub": "local function f() return ('a'):gsub('a', f) end f()",
    "gsub with a long replacement": "return (('a'):rep(1e5)):gsub('a', ('b'):rep(1e5))",
    "a pattern that is malformed": "return ('a'):find('[' .. ('%'):rep(100000))",
    "format of much": "return ('%s'):rep(1000):format(unpack({}, 1, 1000))",
    "format in a loop": "local s = ('x'):rep(1e6) while true do string.format('%q', s) end",
    "reverse in a loop": "local s = ('x'):rep(1e6) while true do s:reverse() end",
    "byte of everything": "local s = ('x'):rep(1e6) while true do pcall(s.byte, s, 1, -1) end",
    "a string that grows": "local s = 'x' while true do s = s .. s end",
    "many strings": "local t = {} for i = 1, 1e9 do t[i] = tostring(i) end",
    "a sum of many quantities": "local kube = require('kube') while true do kube.resourceAdd(unpack({}, 1, 5000)) end",
    "a large pod template": (
        "local kube, c = require('kube'), {} "
        "for i = 1, 5000 do c[i] = {name = 'x', resources = {requests = {cpu = '1'}}} end "
        "while true do kube.accuratePodRequirements({spec = {containers = c}}) end"
    ),
    "a long quantity": "return require('kube').getResourceQuantity(('9'):rep(1000000))",
    "a result that contains itself": "local t = {} t[1] = t return t",
    "a large result": "local t = {} for i = 1, 2e5 do t[i] = i end return 1, t",
    "next over deleted keys": (
        "local t = {} for i = 1, 1e5 do t[i] = 1 end for i = 1, 1e5 do t[i] = nil end while true do next(t) end"
    ),
}
HOSTILE: Final[dict[str, str]] = {
    **{name: _EACH.format(body) for name, body in _BODIES.items()},
    "a loop at the top": "while true do end",
    "a deep expression": "function GetReplicas() return " + "(" * 30000 + "1" + ")" * 30000 + " end",
    "many constants": "function GetReplicas() return {" + "1," * 30000 + "} end",
    "bytecode": "\x1bLua",
}
