"""The files of placement tests: what they may contain, and each problem of one with its file, line and field."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from berthmaster.manifests.foreign import PLACEMENT_TEST, TEST_GROUP
from berthmaster.model.decode import convert
from berthmaster.model.errors import FieldError, name_list
from berthmaster.model.hints import closest
from berthmaster.model.kinds import group_of
from berthmaster.model.meta import ObjectMeta
from berthmaster.model.unknown_fields import unknown_fields
from berthmaster.simulation.changes import WhatIf, WireChange
from berthmaster.simulation.expectations import TOTALS, WORKLOAD_STATES, AmountRange, ClusterRule, Expectation
from berthmaster.simulation.failures import FailureDomain
from berthmaster.simulation.plan_answer import Switch
from berthmaster_cli.lint.sources import LintFinding, Skipped, SourceObject, scan
from webhook.admission.field_problem import ABSENT, FieldProblem

API_VERSION: Final = f"{TEST_GROUP}/v1alpha1"
LIVE: Final = "live"
APPLY: Final = "apply"
DOWN: Final = "down"
MAX_TESTS: Final = 1000
"""The most tests of one run."""
MAX_ENTRIES: Final = 5000
"""The most entries of ``given`` and of ``expect``."""
INVALID_TEST: Final = "invalid-test"
_TAG: Final = "type"
_SWITCHES: Final = ("failover", "preemption")
_PLACES: Final = tuple(each.value for each in FailureDomain)
_Paths = str | Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=100)]
_JSON = Mapping[str, Any]


class Lost(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A cluster is lost, or all clusters of a region, a zone or a provider. One field is set."""

    cluster: str = ""
    region: str = ""
    zone: str = ""
    provider: str = ""

    @property
    def domain(self) -> tuple[FailureDomain, str]:
        """What is lost, and its name."""
        return next((each, name) for each in FailureDomain if (name := getattr(self, each.value)))


class AppliedFiles(NamedTuple):
    """Files and folders whose objects are applied."""

    paths: tuple[str, ...]


Given = Lost | AppliedFiles | WireChange
"""A change of a test."""


class PlacementTest(msgspec.Struct, frozen=True):
    """A test as a file has it.

    Attributes:
        fleet: files and folders, relative to the file of the test, or ``live``; empty if the command names the fleet.
        given: the changes, in the JSON of ``WhatIf``, or each as the value of its type; ``apply`` has manifests.
        expect: what must hold after the changes.
        failover, preemption: as the options of the command; None for these options.
    """

    metadata: ObjectMeta
    expect: Annotated[tuple[Expectation, ...], msgspec.Meta(max_length=MAX_ENTRIES)]
    fleet: _Paths = ""
    given: Annotated[tuple[dict[str, Any], ...], msgspec.Meta(max_length=MAX_ENTRIES)] = ()
    failover: Switch | None = None
    preemption: Switch | None = None
    api_version: str = msgspec.field(default=API_VERSION, name="apiVersion")
    kind: str = PLACEMENT_TEST


@dataclass(frozen=True, slots=True)
class WrittenTest:
    """A test, the object that it was read from, and its changes, each with its path."""

    found: SourceObject
    test: PlacementTest
    given: Sequence[tuple[str, Given]]

    @property
    def name(self) -> str:
        return self.found.name

    @property
    def fleet(self) -> tuple[str, ...]:
        return paths_of(self.test.fleet)

    def problem(self, path: str, value: object, fault: str, remedy: str) -> LintFinding:
        return problem_of(self.found, FieldProblem(path, value, fault, remedy))


class WrittenTests(NamedTuple):
    """The tests of files and folders, the problems of these files, and what was passed over."""

    tests: list[WrittenTest]
    problems: list[LintFinding]
    passed_over: list[Skipped]


def paths_of(paths: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return one path or several as several."""
    return ((paths,) if paths else ()) if isinstance(paths, str) else paths


def read_tests(paths: Sequence[str], *, needs_fleet: bool) -> WrittenTests:
    """Read all tests of files and folders. Other objects in them are passed over, for example those of a fleet.

    ``needs_fleet``: whether each test must name its fleet.
    """
    files = WrittenTests([], [], [])
    for found in scan(paths):
        match found:
            case Skipped():
                files.passed_over.append(found)
            case LintFinding():
                files.problems.append(found)
            case SourceObject() if _is_test(found.raw):
                _add(files, found, needs_fleet=needs_fleet)
                if len(files.tests) > MAX_TESTS:
                    problem = FieldProblem("", ABSENT, f"more than {MAX_TESTS} tests", "run fewer files at once")
                    files.problems.append(problem_of(found, problem))
                    return files
            case SourceObject():
                pass
    return files


def problem_of(found: SourceObject, problem: FieldProblem) -> LintFinding:
    """Return a problem of a test with its file and line."""
    return LintFinding(
        level="error",
        rule=INVALID_TEST,
        source=found.source,
        document=found.number,
        line=found.line(problem.path),
        object=found.name,
        path=found.path(problem.path),
        message=problem.detail,
    )


def _is_test(raw: _JSON) -> bool:
    return group_of(str(raw["apiVersion"])) == TEST_GROUP or raw["kind"] == PLACEMENT_TEST


def _add(files: WrittenTests, found: SourceObject, *, needs_fleet: bool) -> None:
    raw = dict(found.raw)
    for each in _SWITCHES:  # YAML 1.1 reads on and off as booleans
        if isinstance(raw.get(each), bool):
            raw[each] = Switch.ON.value if raw[each] else Switch.OFF.value
    problems = list(_head_problems(raw)) or list(_unknown_problems(raw))
    if problems:
        files.problems.extend(problem_of(found, each) for each in problems)
        return
    try:
        test = convert(PlacementTest, raw)
        given = tuple(_given(raw.get("given") or ()))
    except FieldError as error:
        files.problems.append(problem_of(found, _as_problem(error, raw)))
        return
    problems = list(_own_problems(test, given, needs_fleet=needs_fleet))
    files.problems.extend(problem_of(found, each) for each in problems)
    if not problems:
        files.tests.append(WrittenTest(found, test, given))


def _head_problems(raw: _JSON) -> Iterator[FieldProblem]:
    for field, accepted in (("apiVersion", API_VERSION), ("kind", PLACEMENT_TEST)):
        if raw[field] != accepted:
            yield FieldProblem(field, raw[field], "is not accepted", f"write {accepted}")
    name = (raw.get("metadata") or {}).get("name")
    if not isinstance(name, str) or not name:
        yield FieldProblem(
            "metadata.name", ABSENT if name is None else name, "is no name", "say what the test is about"
        )


def _unknown_problems(raw: _JSON) -> Iterator[FieldProblem]:
    for error in unknown_fields(PlacementTest, raw):
        remedy = f"accepted are {name_list(error.known, len(error.known))}" if error.known else "remove them"
        close = closest(error.path.rpartition(".")[2], error.known)
        yield FieldProblem(
            error.path, value_at(raw, error.path), "unknown field", f"did you mean {close}?" if close else remedy
        )


def value_at(raw: Any, path: str) -> object:  # noqa: ANN401 - a JSON value
    """Return the value at a path such as ``expect[0].clusters.in``; ``ABSENT`` if there is none."""
    value = raw
    for part in path.replace("[", ".").replace("]", "").split(".") if path else ():
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return ABSENT
    return value


def _as_problem(error: FieldError, raw: _JSON) -> FieldProblem:
    """Return an error as a problem. A sentence of the decoder has the value already, and what is accepted."""
    if error.remedy:
        return FieldProblem(error.path, value_at(raw, error.path), error.fault, error.remedy)
    fault, _, remedy = error.problem.partition("; ")
    missing = value_at(raw, error.path) in (ABSENT, None)
    return FieldProblem(error.path, ABSENT, fault, remedy or ("add it" if missing else "correct the value"))


def _given(entries: Sequence[Any]) -> Iterator[tuple[str, Given]]:
    for index, entry in enumerate(entries):
        path = f"given[{index}]"
        kind, fields, path = _typed(entry, path)
        try:
            yield path, _change(kind, fields)
        except FieldError as error:
            raise error.below(path) if error.path != _TAG else FieldError(path, error.fault, error.remedy) from None


def _typed(entry: _JSON, path: str) -> tuple[str, Any, str]:
    """Return the type of a change, its fields, and their path. ``{down: ...}`` is short for ``{type: down, ...}``."""
    if _TAG in entry:
        return str(entry[_TAG]), {key: value for key, value in entry.items() if key != _TAG}, path
    if len(entry) != 1:
        raise FieldError(path, f"has {len(entry)} changes", f"write one of {', '.join(known_changes())} in each entry")
    kind, fields = next(iter(entry.items()))
    return kind, {} if fields is None else fields, f"{path}.{kind}"


def known_changes() -> list[str]:
    """Return the types of changes: those of the API, and ``apply``."""
    return [*(str(each.__struct_config__.tag) for each in WhatIf.__args__), APPLY]


def _change(kind: str, fields: Any) -> Given:  # noqa: ANN401 - a JSON value
    if kind not in known_changes():
        close = closest(kind, known_changes())
        remedy = f"did you mean {close}?" if close else f"accepted are {', '.join(known_changes())}"
        raise FieldError("", f"there is no change {kind}", remedy)
    if kind == APPLY:
        paths = fields.get("paths") if isinstance(fields, Mapping) else fields
        return AppliedFiles(paths_of(convert(_AppliedPaths, {"paths": paths}).paths))
    if not isinstance(fields, Mapping):
        raise FieldError("", "is no mapping", "write the fields of the change")
    struct: type[msgspec.Struct] = Lost if kind == DOWN else _struct(kind)
    for unknown in unknown_fields(struct, fields):
        if "." in unknown.path and not unknown.misspelled:
            continue  # of a newer Karmada, as in any manifest of a cluster
        close = closest(unknown.path.rpartition(".")[2], unknown.known)
        accepted = f"accepted are {', '.join(unknown.known)}" if unknown.known else "the change has no fields"
        raise FieldError(unknown.path, "unknown field", f"did you mean {close}?" if close else accepted)
    if kind != DOWN:
        change: WireChange = convert(WhatIf, {_TAG: kind, **fields})  # type: ignore[arg-type]  # a union
        for error in change.problems():
            raise error
        return change
    lost = convert(Lost, fields)
    named = [each for each in _PLACES if getattr(lost, each)]
    if len(named) != 1:
        raise FieldError("", f"names {', '.join(named) or 'nothing'}", f"name one of {', '.join(_PLACES)}")
    return lost


class _AppliedPaths(msgspec.Struct, frozen=True):
    paths: _Paths


def _struct(kind: str) -> type[msgspec.Struct]:
    found: type[msgspec.Struct] = next(each for each in WhatIf.__args__ if each.__struct_config__.tag == kind)
    return found


def _own_problems(
    test: PlacementTest, given: Sequence[tuple[str, Given]], *, needs_fleet: bool
) -> Iterator[FieldProblem]:
    if needs_fleet and not paths_of(test.fleet):
        yield FieldProblem("fleet", ABSENT, "is missing", f"name a folder or a dump, write {LIVE}, or use -f")
    if LIVE in paths_of(test.fleet) and len(paths_of(test.fleet)) > 1:
        yield FieldProblem("fleet", list(paths_of(test.fleet)), f"{LIVE} stands beside files", "name one of both")
    for path, each in given:
        if isinstance(each, AppliedFiles) and (not all(each.paths) or not each.paths):
            yield FieldProblem(path, ABSENT, "names no file", "name a file or a folder with manifests")
    if not test.expect:
        yield FieldProblem("expect", ABSENT, "is empty", "add what must hold, for example {moves: {atMost: 20}}")
    for index, expectation in enumerate(test.expect):
        yield from _expectation_problems(expectation, f"expect[{index}]")


def _expectation_problems(expectation: Expectation, path: str) -> Iterator[FieldProblem]:
    if expectation.workload is not None and expectation.policy is not None:
        yield FieldProblem(f"{path}.policy", expectation.policy, "stands beside workload", "write two entries")
    if not expectation.states:
        remedy = "add group, clusters, replicas, nowhere, short, moves or overcommitted"
        yield FieldProblem(path, ABSENT, "says nothing that must hold", remedy)
    for each in WORKLOAD_STATES if expectation.workload is None else ():
        if each in expectation.states:
            yield FieldProblem(f"{path}.{each}", ABSENT, "is about one workload", "name it with workload")
    for each in TOTALS if expectation.workload is not None or expectation.policy is not None else ():
        if each in expectation.states:
            yield FieldProblem(f"{path}.{each}", ABSENT, "is about the whole plan", "write an entry of its own for it")
    for name, value in expectation.states.items():
        if isinstance(value, msgspec.Struct) and all(getattr(value, each) is None for each in value.__struct_fields__):
            fields = ", ".join(value.__struct_encode_fields__)
            yield FieldProblem(f"{path}.{name}", {}, "accepts everything", f"add one of {fields}")
        yield from _contradictions(value, f"{path}.{name}")


def _contradictions(rule: object, path: str) -> Iterator[FieldProblem]:
    """Yield what a rule accepts and does not accept at once."""
    match rule:
        case AmountRange(equal=int(equal), at_least=least, at_most=most) if (least, most) != (None, None):
            beside = " and ".join(each for each, bound in (("atLeast", least), ("atMost", most)) if bound is not None)
            yield FieldProblem(f"{path}.equal", equal, f"stands beside {beside}", "write equal or a range")
        case AmountRange(at_least=int(least), at_most=int(most)) if least > most:
            yield FieldProblem(f"{path}.atLeast", least, f"is more than atMost, {most}", "correct one of both")
        case ClusterRule(equal=tuple(equal)) if (rule.within, rule.without) != (None, None):
            beside = "in" if rule.within is not None else "notIn"
            yield FieldProblem(f"{path}.equal", list(equal), f"stands beside {beside}", "write one of both")
        case ClusterRule(within=tuple(within), without=tuple(without)):
            for index, name in enumerate(without):
                if name in within:
                    yield FieldProblem(f"{path}.notIn[{index}]", name, "stands in both", "name it in one of them")
        case _:
            pass
