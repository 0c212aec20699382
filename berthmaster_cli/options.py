"""Options that commands share, and the file that ``--config`` names."""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import click

from berthmaster.manifests.document import ManifestLimits
from berthmaster.manifests.yaml_reader import read_yaml
from berthmaster.model.errors import InputError, shown
from berthmaster.runtime import logs

_MAX_BYTES: Final = 2**20
_LIMITS: Final = ManifestLimits(file_bytes=_MAX_BYTES, depth=8, documents=1)


class Address(click.ParamType[tuple[str, int]]):
    """``HOST:PORT``, an IPv6 host in brackets."""

    name = "HOST:PORT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:  # noqa: ANN401
        """Take it apart."""
        if isinstance(value, tuple):
            return value
        host, colon, port = str(value).rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        if not colon or not port.isdecimal() or len(port) > 5 or int(port) > 65535 or (":" in host and not bracketed):
            self.fail(f"{value!r} is not HOST:PORT, as in 0.0.0.0:8443 or [::]:8443", param, ctx)
        return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - what an empty host means everywhere


def config_option(command: Any) -> Any:  # noqa: ANN401 - a decorator of click's
    """``--config``."""
    return click.option(
        "--config", type=click.Path(dir_okay=False, path_type=Path), is_eager=True, expose_value=False,
        callback=_load, metavar="FILE", help="YAML with any of these options; flags and the environment win over it.",
    )(command)  # fmt: skip


def _load(ctx: click.Context, _param: click.Parameter, path: Path | None) -> None:
    if path is None:
        return
    ctx.default_map = {**(ctx.default_map or {}), **_options(_document(path), ctx.command, path)}


def _document(path: Path) -> Mapping[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    if len(data) > _MAX_BYTES:
        raise InputError(f"{path}: larger than {_MAX_BYTES} bytes")
    documents = [raw for _, raw in read_yaml(data, str(path), _LIMITS) if raw is not None]
    if len(documents) > 1:
        raise InputError(f"{path}: one document is read, and there are several")
    document = documents[0] if documents else {}
    if not isinstance(document, dict):
        raise InputError(f"{path}: {shown(document)} is not a mapping of options to values")
    return document


def _options(document: Mapping[str, Any], command: click.Command, path: Path) -> dict[str, Any]:
    options = {_key(each): each for each in command.params if isinstance(each, click.Option) and each.name}
    values = {}
    for key, value in document.items():
        option = options.get(str(key))
        if option is None or option.name is None or key in {"config", "help"}:
            close = get_close_matches(str(key), options, n=1)
            hint = f"did you mean {close[0]}?" if close else f"accepted are {', '.join(sorted(options))}"
            raise InputError(f"{path}: {key}: there is no such option; {hint}")
        values[option.name] = _texts(value, f"{path}: {key}") if option.multiple else _text(value, f"{path}: {key}")
    return values


def _key(option: click.Option) -> str:
    return max(option.opts, key=len).lstrip("-")


def _texts(value: object, place: str) -> list[str]:
    """A list; a mapping stands for a list of ``key=value``."""
    if isinstance(value, dict):
        return [f"{key}={_text(entry, f'{place}.{key}')}" for key, entry in value.items()]
    if not isinstance(value, list):
        raise InputError(f"{place}: {shown(value)} is not a list")
    return [_text(entry, f"{place}[{index}]") for index, entry in enumerate(value)]


def _text(value: object, place: str) -> str:
    """A scalar as a flag would give it; click converts and checks it."""
    if isinstance(value, bool):
        # YAML 1.1 reads the level `off` as a boolean.
        return "true" if value else "off"
    if not isinstance(value, str | int | float):
        raise InputError(f"{place}: {shown(value)} is not a single value")
    return str(value)


def log_level_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--log-level`` to a command."""
    option = click.option(
        "--log-level",
        type=click.Choice(logs.LEVELS),
        default="info",
        show_default=True,
        help="The lowest level that is logged.",
    )
    return option(command)
