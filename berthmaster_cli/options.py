"""Options that several commands share, and the file that ``--config`` names."""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from berthmaster.manifests.document import ManifestLimits
from berthmaster.manifests.yaml_reader import read_yaml
from berthmaster.model.errors import InputError, shown
from berthmaster.model.limits import LIMIT_NAMES, MAX_LIMIT, OPTION, PlacementLimits
from berthmaster.runtime import logs

if TYPE_CHECKING:
    from berthmaster.kube.client import APIClient

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

FILE: Final = click.Path(dir_okay=False, path_type=Path)
_MAX_BYTES: Final = 2**20
_LIMITS: Final = ManifestLimits(file_bytes=_MAX_BYTES, depth=8, documents=1)


def option_group(*options: Decorator) -> Decorator:
    """Return a decorator that adds several options, in this order."""
    return lambda command: reduce(lambda decorated, option: option(decorated), reversed(options), command)


lease_options: Final = option_group(
    click.option(
        "--lease-namespace", default="karmada-system", show_default=True, metavar="NAME",
        help="The namespace of the lease of the controllers.",
    ),
    click.option(
        "--lease-name", default="berthmaster-controllers", show_default=True, metavar="NAME",
        help="The name of the lease of the controllers.",
    ),
)  # fmt: skip


class Address(click.ParamType[tuple[str, int]]):
    """``HOST:PORT``, with an IPv6 host in brackets."""

    name = "HOST:PORT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:  # noqa: ANN401
        if isinstance(value, tuple):
            return value
        host, colon, port = str(value).rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        if not colon or not port.isdecimal() or len(port) > 5 or int(port) > 65535 or (":" in host and not bracketed):
            self.fail(f"{value!r} is not HOST:PORT, for example 0.0.0.0:8443 or [::]:8443", param, ctx)
        return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - the usual meaning of an empty host


class PlacementLimitsType(click.ParamType[PlacementLimits]):
    """``NAME=N``, separated by commas."""

    name = "LIST"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> PlacementLimits:  # noqa: ANN401
        if isinstance(value, PlacementLimits):
            return value
        try:
            return PlacementLimits.parse(str(value))
        except InputError as error:
            self.fail(str(error), param, ctx)


def _limits_help() -> str:
    defaults = PlacementLimits()._asdict()
    return ", ".join(f"{name} ({defaults[field]:,})" for name, field in LIMIT_NAMES.items())


placement_limits_option: Final = click.option(
    OPTION, type=PlacementLimitsType(), default="", metavar="LIST",
    help="Limits on the size of a placement, as a comma-separated list of NAME=N. Larger ones are refused. Use the "
    f"same list for all components. N is at most {MAX_LIMIT:,}. Names and defaults: {_limits_help()}.",
)  # fmt: skip
log_level_option: Final = click.option(
    "--log-level", type=click.Choice(logs.LEVELS), default="info", show_default=True, help="The lowest level to log.",
)  # fmt: skip


_ORDER: Final = "$KUBECONFIG, then ~/.kube/config, then the service account of this pod"


def kubeconfig_options(server: str) -> Decorator:
    """Return a decorator that adds ``--kubeconfig`` and ``--context`` for a server, which the text describes."""
    return option_group(
        click.option("--kubeconfig", type=FILE, help=f"Kubeconfig file of {server}. Default: {_ORDER}."),
        click.option("--context", metavar="NAME", help="The context of the kubeconfig. Default: its current context."),
    )


def cluster_options(host: str, target: str) -> Decorator:
    """Return a decorator that adds the kubeconfig options of the host and the target; the texts describe both."""
    return option_group(
        kubeconfig_options(host),
        click.option("--target-kubeconfig", type=FILE, help=f"Kubeconfig file of {target}. Default: the host."),
        click.option("--target-context", metavar="NAME", help="The context of the target's kubeconfig."),
    )


def certificate_pair(given: Mapping[str, Any], certificate: str, key: str) -> tuple[Path, Path] | None:
    """Return a certificate and its key, from two options by their names; None without them.

    Raises:
        click.UsageError: only one of them is set.
    """
    found = given[certificate.replace("-", "_")], given[key.replace("-", "_")]
    if (found[0] is None) != (found[1] is None):
        raise click.UsageError(f"--{certificate} and --{key} need each other: set both or neither")
    return None if found[0] is None else found


def single_cluster(given: Mapping[str, Any]) -> bool:
    """Whether the values of ``cluster_options`` name no target, so that the host is the target."""
    return given["target_kubeconfig"] is None and given["target_context"] is None


def cluster_clients(given: Mapping[str, Any]) -> "tuple[APIClient, APIClient]":
    """Return clients of the host and the target, from the values of ``cluster_options``. They can be the same client.

    Raises:
        InputError: there is no access to one of them.
    """
    from berthmaster.kube.http_client import load_client  # noqa: PLC0415 - `--help` must not import the client

    host = load_client(given["kubeconfig"], given["context"])
    if single_cluster(given):
        return host, host
    return host, load_client(given["target_kubeconfig"] or given["kubeconfig"], given["target_context"])


def config_option(command: Any) -> Any:  # noqa: ANN401 - a decorator of click's
    """Add ``--config``: a YAML file whose keys are the names of options, without leading dashes.

    Flags win over environment variables, and these over the file. An unknown key is an error: a setting that silently
    has no effect is worse than a missing one.
    """
    return click.option(
        "--config", type=FILE, is_eager=True, expose_value=False, callback=_load_config, metavar="FILE",
        help="YAML file with any of these options. Flags and environment variables override it.",
    )(command)  # fmt: skip


def _load_config(ctx: click.Context, _param: click.Parameter, path: Path | None) -> None:
    if path is not None:
        ctx.default_map = {**(ctx.default_map or {}), **_values(_document(path), ctx.command, path)}


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
        raise InputError(f"{path}: has {len(documents)} documents; accepted is one")
    document = documents[0] if documents else {}
    if not isinstance(document, dict):
        raise InputError(f"{path}: {shown(document)} is not a mapping of options to values")
    return document


def _values(document: Mapping[str, Any], command: click.Command, path: Path) -> dict[str, Any]:
    options = {_key(each): each for each in command.params if isinstance(each, click.Option) and each.name}
    values = {}
    for key, value in document.items():
        option = options.get(str(key))
        if option is None or option.name is None or key in {"config", "help"}:
            close = get_close_matches(str(key), options, n=1)
            hint = f"did you mean {close[0]}?" if close else f"accepted are {', '.join(sorted(options))}"
            raise InputError(f"{path}: {key}: unknown option; {hint}")
        values[option.name] = _texts(value, f"{path}: {key}") if option.multiple else _text(value, f"{path}: {key}")
    return values


def _key(option: click.Option) -> str:
    return max(option.opts, key=len).lstrip("-")


def _texts(value: object, place: str) -> list[str]:
    """Return the items of a list, or of a mapping as ``key=value``."""
    if isinstance(value, dict):
        return [f"{key}={_text(entry, f'{place}.{key}')}" for key, entry in value.items()]
    if not isinstance(value, list):
        raise InputError(f"{place}: {shown(value)} is not a list")
    return [_text(entry, f"{place}[{index}]") for index, entry in enumerate(value)]


def _text(value: object, place: str) -> str:
    """Return a scalar as a flag would give it. Click converts and checks it."""
    if isinstance(value, bool):
        # YAML 1.1 reads the level `off` as a boolean.
        return "true" if value else "off"
    if not isinstance(value, str | int | float):
        raise InputError(f"{place}: {shown(value)} is not a single value")
    return str(value)
