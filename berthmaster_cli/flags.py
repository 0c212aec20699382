"""Options of commands as fields of frozen classes: a command gets one typed value."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import wraps
from inspect import get_annotations
from pathlib import Path
from typing import Any, Final, TypeVar, dataclass_transform, get_args, get_origin

import click

from berthmaster.model.errors import InputError
from berthmaster_cli.durations import DurationRange

REQUEST_TIMEOUT: Final = "--request-timeout"
"""How long an API server may let a request wait, as in kubectl. A limit of services has only the name with its unit."""
FILE: Final = click.Path(dir_okay=False, path_type=Path)
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
Changes = Mapping[str, Mapping[str, Any]]
_DECLARED: Final = "declared"
_NO_CHANGES: Final[Changes] = {}
T = TypeVar("T", bound="Flags")
V = TypeVar("V")


class Parsed(click.ParamType[V]):
    """A value that a function parses from text. The function raises ``InputError`` or ``ValueError``."""

    def __init__(self, name: str, parse: Callable[[str], V]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> V:  # noqa: ANN401
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]  # a default that is parsed already
        try:
            return self._parse(value)
        except (InputError, ValueError) as error:
            self.fail(str(error), param, ctx)


@dataclass(frozen=True, slots=True)
class _Declared:
    """How click declares a field. ``add`` is None for a field with a class of options."""

    add: Callable[..., Any] | None
    names: tuple[str, ...]
    attributes: Mapping[str, Any]


def option(
    help_text: str, default: Any = None, kind: Any = None, *, names: tuple[str, ...] = (), **more: Any  # noqa: ANN401 - click's values
) -> Any:  # noqa: ANN401  # fmt: skip
    """Return a field that is an option, with its help, in which a command replaces words in braces, and its names."""
    return _field(click.option, names, {"help": help_text, "default": default, "type": kind, **more})


def argument(**attributes: Any) -> Any:  # noqa: ANN401 - click's values
    """Return a field that is an argument, with the attributes of ``click.argument``."""
    return _field(click.argument, (), attributes)


def group() -> Any:  # noqa: ANN401 - any class of options
    """Return a field with a class of options. The name of the field precedes the names of these options."""
    return _field(None, (), {})


def _field(add: Callable[..., Any] | None, names: tuple[str, ...], attributes: Mapping[str, Any]) -> Any:  # noqa: ANN401
    return field(metadata={_DECLARED: _Declared(add, names, attributes)})


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(option, argument, group))
@dataclass(frozen=True, kw_only=True)
class Flags:
    """A class of options. Each class below it is a frozen dataclass."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True)(cls)


def options(kind: type[T], changes: Changes = _NO_CHANGES, **texts: str) -> Decorator:
    """Return a decorator that adds the options of a class. The last positional argument of a command is its value."""
    if unknown := changes.keys() - {each.name for each in fields(kind)}:
        raise TypeError(f"{kind.__name__} has no {', '.join(unknown)}")
    decorators = list(_decorators(kind, changes, texts, ""))

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def command(*arguments: Any, **values: Any) -> Any:  # noqa: ANN401 - click's
            return function(*arguments, _taken(kind, values, ""), **values)

        decorated: Callable[..., Any] = command
        for add in reversed(decorators):
            decorated = add(decorated)
        return decorated

    return decorate


def _taken(kind: type[T], values: dict[str, Any], prefix: str) -> T:
    """Remove the values of a class from those of a command, and return them as a value of the class."""
    taken: dict[str, Any] = {}
    for each in fields(kind):
        is_group = each.metadata[_DECLARED].add is None
        taken[each.name] = _taken(each.type, values, f"{each.name}_") if is_group else values.pop(prefix + each.name)  # type: ignore[arg-type]  # no text
    return kind(**taken)


def parsed(kind: type[T], command: click.Command, words: Sequence[str]) -> T:
    """Return the options of a command as its parser makes them from words, with its defaults."""
    try:
        context = command.make_context(command.name, list(words))
    except click.ClickException as error:
        raise InputError(error.format_message()) from None
    return _taken(kind, dict(context.params), "")


def _decorators(kind: "type[Flags]", changes: Changes, texts: Mapping[str, str], prefix: str) -> Iterator[Decorator]:
    by_name = {each.name: each for each in fields(kind)}
    order = [name for base in kind.__mro__ for name in get_annotations(base) if name in by_name]
    for name in dict.fromkeys(order):
        annotation: Any = by_name[name].type
        made: _Declared = by_name[name].metadata[_DECLARED]
        if made.add is None:
            yield from _decorators(annotation, changes, texts, f"{name}-")
        elif made.add is click.argument:
            yield click.argument(name, **made.attributes)
        else:
            attributes = {**made.attributes, **changes.get(name, {})}
            for word, text in texts.items():
                attributes["help"] = attributes["help"].replace(f"{{{word}}}", text)
            names = made.names or (f"--{prefix}{name}".replace("_", "-"),)
            completed = _complete(attributes, annotation)
            if name.endswith("_s") and isinstance(completed["type"], click.FloatRange | click.IntRange):
                names = _duration_names(names)
                completed |= {"type": DurationRange(completed["type"]), "metavar": "DURATION"}
            yield click.option(*names, f"{prefix}{name}".replace("-", "_"), **completed)


def _duration_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of an option that holds a time: with its unit, as in ``--timeout-s``, and without."""
    found = dict.fromkeys(new for each in names for new in (each.removesuffix("-s"), each))
    return tuple(each for each in found if each in names or each != REQUEST_TIMEOUT)


def _complete(attributes: dict[str, Any], annotation: Any) -> dict[str, Any]:  # noqa: ANN401 - any annotation
    default, parts = attributes["default"], get_args(annotation)
    if default is None and "show_default" not in attributes:
        del attributes["default"]
        if annotation is bool:
            attributes["is_flag"] = True
    elif default != "":
        attributes.setdefault("show_default", True)
    if get_origin(annotation) is tuple and Ellipsis in parts:
        attributes["multiple"] = True
    if attributes["type"] is None and (annotation is Path or Path in parts):
        attributes["type"] = FILE
    return attributes
