"""Interpreter scripts: what they compute, and that they cannot leave the sandbox or exceed its limits."""

import pytest
from builders import deployment, quantities
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import cases

from berthmaster.interpreters.lua import KUBE, lua_interpreter
from berthmaster.interpreters.sandbox import Sandbox
from berthmaster.interpreters.worker import ScriptProcess
from berthmaster.model.customization import ResourceInterpreterCustomization, replica_scripts
from berthmaster.model.decode import convert
from berthmaster.model.interpretation import UnknownReplicas, interpreted
from berthmaster.model.replicas import ReplicaPath, ReplicaRequirements, Replicas

WIDGET = {
    "apiVersion": "example.io/v1",
    "kind": "Widget",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {
        "size": 3,
        "amount": "1500m",
        "none": None,
        "pods": deployment(requests={"cpu": "250m"})["spec"]["template"],
    },
}
SIMPLE = "function GetReplicas(obj) return obj.spec.size end"


def customization(script, name="widgets", kind="Widget"):
    return convert(
        ResourceInterpreterCustomization,
        {
            "metadata": {"name": name},
            "spec": {
                "target": {"apiVersion": "example.io/v1", "kind": kind},
                "customizations": {"replicaResource": {"luaScript": script}, "retention": {"luaScript": "ignored"}},
            },
        },
    )


def interpreter(*customizations):
    """An interpreter that runs scripts in this process."""
    return lua_interpreter(replica_scripts(customizations), Sandbox(KUBE).call)


def run(body, prelude=""):
    script = f'local kube = require("kube")\n{prelude}\nfunction GetReplicas(obj) {body} end'
    return interpreter(customization(script)).replicas(WIDGET)


@cases(
    ("body", "expected"),
    {
        "a number alone": ("return obj.spec.size", Replicas(3)),
        "no requirements": ("return obj.spec.size * 2, nil", Replicas(6)),
        "empty requirements": ("return 1, {}", Replicas(1, ReplicaRequirements())),
        "the requirements of a pod template": (
            "return 2, kube.accuratePodRequirements(obj.spec.pods)",
            Replicas(2, ReplicaRequirements(quantities({"cpu": "250m"}))),
        ),
        "a sum of quantities": (
            "return 1, {resourceRequest = {cpu = kube.resourceAdd(obj.spec.amount, '500m', nil)}}",
            Replicas(1, ReplicaRequirements(quantities({"cpu": "2"}))),
        ),
        "a quantity as a number": ("return kube.getResourceQuantity(obj.spec.amount) * 2", Replicas(3)),
        "dependencies of a pod": (
            "return #kube.getPodDependencies({spec = {serviceAccountName = 'x'}}, nil)",
            Replicas(1),
        ),
        "a pattern": ("return #('a1b2'):gsub('%d', '')", Replicas(2)),
        "a caught error": ("return pcall(function() error('x') end) and 1 or 2", Replicas(2)),
        "null is nil": ("if obj.spec.none == nil then return 4 end", Replicas(4)),
    },
)
def test_scripts(body, expected):
    assert run(body) == expected


@cases(
    ("body", "message"),
    {
        "nothing": ("return nil", "GetReplicas returns None; accepted is a number of replicas"),
        "a negative number": ("return -1", "GetReplicas returns -1"),
        "a fraction": ("return 1.5", "GetReplicas returns 1.5"),
        "no quantity": ("return 1, {resourceRequest = {cpu = 'much'}}", "resourceRequest[cpu]"),
        "a function of another library": ("return 1, print", "GetReplicas"),
        "a function": ("return 1, function() end", "returns a function; accepted is data"),
        "an error that is no text": ("error({})", "failed with a table"),
        "an error of a library function": ("return kube.resourceAdd('much')", "much"),
        "no pod template": ("return kube.accuratePodRequirements(nil)", "is missing"),
        "a cycle": ("local t = {} t.t = t return 1, t", "too large"),
        "invalid syntax": ("return 1, {a = {b", "script"),
    },
)
def test_a_script_that_fails_leaves_replicas_unknown(body, message):
    found = run(body)
    if isinstance(found, Replicas):
        assert found == Replicas(1)  # `print` is nil in the sandbox
        assert "print" in body
        return
    assert found.reason.startswith("the interpreter script of Widget of example.io/v1 failed: ")
    assert message in found.reason


@pytest.mark.parametrize(
    "name",
    [
        "os", "io", "debug", "package", "python", "load", "loadstring", "loadfile", "dofile", "setfenv", "getfenv",
        "getmetatable", "setmetatable", "rawget", "rawset", "collectgarbage", "newproxy", "coroutine", "module",
        "string.dump", "table.foreach", "math.random", "xpcall", "_G.os", "_G._G.debug",
    ],
)  # fmt: skip
def test_what_a_script_does_not_see(name):
    assert run(f"return {name} == nil and 1 or 2") == Replicas(1)


@cases(
    ("body", "message"),
    {
        "an endless loop": ("while true do end", "too many steps"),
        "caught errors": ("while true do pcall(function() while true do end end) end", "too many steps"),
        "a slow pattern": ("local s = ('a'):rep(10000) return s:find(('.-'):rep(9) .. 'b') or 1", "too many steps"),
        "recursion": ("local function f() return 1 + f() end return f()", "overflow"),
    },
)
def test_limits(body, message):
    found = run(body)
    assert isinstance(found, UnknownReplicas)
    assert message in found.reason


def test_the_interpreter_works_after_a_limit():
    greedy = "local t = {} while true do t[#t + 1] = ('x'):rep(100000) .. #t end"
    caught = f"local t = {{}} while true do pcall(function() {greedy} end) t[#t + 1] = ('y'):rep(9999) .. #t end"
    with ScriptProcess() as process:
        scripts = [customization(f"function GetReplicas(obj) {each} end", kind=kind) for kind, each in
                   {"Greedy": greedy, "Caught": caught}.items()]  # fmt: skip
        lua = lua_interpreter(replica_scripts([*scripts, customization(SIMPLE)]), process).replicas
        for kind in ("Greedy", "Caught"):
            found = lua({**WIDGET, "kind": kind})
            assert isinstance(found, UnknownReplicas)
            assert "memory" in found.reason or "steps" in found.reason
            assert lua(WIDGET) == Replicas(3)


def test_runs_do_not_share_globals():
    counting = "count = (count or 0) + 1 string.rep = nil function GetReplicas(obj) return count end"
    lua = interpreter(customization(counting)).replicas
    assert [lua(WIDGET), lua(WIDGET)] == [Replicas(1), Replicas(1)]


def test_bytecode_is_refused():
    assert "is no text" in interpreter(customization("\x1bLua")).replicas(WIDGET).reason


def test_the_first_customization_by_name_counts():
    scripts = replica_scripts([customization("b", "b"), customization("", "a"), customization("c", "c")])
    assert scripts == {("example.io/v1", "Widget"): "b"}


def test_the_order_of_interpreters():
    lua = interpreter(customization(SIMPLE))
    assert interpreted(WIDGET, [ReplicaPath("example.io/v1", "Widget", "spec.pods.size")], lua) == Replicas(1)
    assert interpreted(WIDGET, (), lua) == Replicas(3)
    assert isinstance(interpreted(WIDGET), UnknownReplicas)
    assert interpreted(WIDGET, complete=True) == Replicas()
    assert lua.replicas({**WIDGET, "kind": "Other"}) is None


def _recurses(*_arguments: object) -> object:
    raise RecursionError("too deep")


FUNCTIONS = {
    **KUBE,
    "missing": lambda *_: {}["x"],
    "recurses": _recurses,
    "large": lambda *_: 2**70,
    "object": lambda *_: object(),
    "objects": lambda *_: {"a": [object()]},
    "surrogate": lambda *_: "\ud800",
}
ARGUMENTS = st.sampled_from(
    [
        "nil", "7", "-1", "0/0", "1/0", "true", "''", "'\\255'", "'1e99999999'", "function() end", "deep", "endless",
        "{}", "{1, 2}", "{spec = 3}", "{['\\255'] = 1}", "{[{}] = 1}",
        "{spec = {volumes = 7, containers = {7, {a = 1}}}}",
    ]
)  # fmt: skip
ENDLESS = "local deep, endless = {}, {} for i = 1, 60 do deep = {deep} end endless.endless = endless"


@given(st.sampled_from(sorted(FUNCTIONS)), st.lists(ARGUMENTS, max_size=3))
@settings(deadline=None)
def test_no_object_of_python_reaches_a_script(name, arguments):
    """A script could call it, look into it, or keep it for the next script."""
    called = f"pcall(kube.{name}, {', '.join(arguments)})" if arguments else f"pcall(kube.{name})"
    script = f"""
      local kube = require("kube")
      {ENDLESS}
      local function kinds(value, found)
        found[#found + 1] = type(value)
        if type(value) == "table" then for key, entry in pairs(value) do kinds(key, found) kinds(entry, found) end end
        return found
      end
      function Look() local ok, found = {called} return kinds(found, {{}}), ok end
    """
    kinds, ok = Sandbox(FUNCTIONS).call(script, "Look", {})
    assert "userdata" not in kinds
    assert ok or kinds == ["string"]
