-- What a script sees, and the limits of its steps and of its processor time. The chunk gets these limits, and returns
-- `offer`, which adds a function to the module `kube`, and `run`, which calls a function of a script.
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

-- Python functions return whether they succeeded, and the result or the message. What fails around them, such as the
-- conversion of an argument, raises an object of Python. A script gets its text, and never the object.
local function wrapped(call)
  local function result(returned, ok, value)
    if exhausted then raw_error("needs too many steps", 0) end
    if not returned then ok, value = false, tostring(ok):sub(1, 200) end
    if type(value) == "userdata" then ok, value = false, "the function returned no data" end
    if not ok then raw_error(value, 0) end
    return value
  end
  return function(...)
    spend(1000)
    return result(raw_pcall(call, ...))
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
