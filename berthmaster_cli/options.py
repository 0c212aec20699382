"""Options that several commands share, and the file that ``--config`` names."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from berthmaster.manifests.files import read_files
from berthmaster.manifests.limits import ManifestLimits
from berthmaster.manifests.yaml_reader import read_yaml
from berthmaster.model.errors import InputError, shown
from berthmaster.model.hints import closest
from berthmaster.runtime import logs
from berthmaster_cli import completion
from berthmaster_cli.flags import FILE, REQUEST_TIMEOUT, Flags, Parsed, option

if TYPE_CHECKING:
    from berthmaster.kube.client import APIClient
    from berthmaster.kube.kubeconfig import ClusterAccess
    from berthmaster.kube.manner import RequestManner
    from berthmaster.native_api.client import Client

REQUEST_TIMEOUT_HELP: Final = "The time that the API server may let a request wait, in seconds."
_ORDER: Final = "$KUBECONFIG, then ~/.kube/config, then the service account of this pod"
_EXISTING_FILE: Final = click.Path(dir_okay=False, exists=True, path_type=Path)
_REPORTS_REQUESTS: Final = 6
"""The level from which kubectl prints requests."""
_MAX_DIGITS: Final = 4
_LIMITS: Final = ManifestLimits(file_bytes=2**20, depth=8, documents=1)


def _level(text: str) -> int:
    """Return a level as people write it for kubectl: 6, or =6 after the short name of the option."""
    number = text.removeprefix("=")
    if not number.isdecimal() or len(number) > _MAX_DIGITS:
        raise InputError(f"{text!r} is no level; accepted is a number, such as 6 for requests")
    return int(number)


class LeaseFlags(Flags):
    """Which Lease the controllers hold."""

    lease_namespace: str = option("The namespace of the lease of the controllers.", "karmada-system", metavar="NAME")
    lease_name: str = option("The name of the lease of the controllers.", "berthmaster-controllers", metavar="NAME")

    @property
    def lease(self) -> tuple[str, str]:
        return self.lease_namespace, self.lease_name


class KustomizeFlags(Flags):
    """Kustomizations that kubectl renders."""

    kustomizations: tuple[str, ...] = option(
        "A folder with a kustomization, which kubectl or kustomize renders. Otherwise like -f. Repeatable.",
        type=click.Path(file_okay=False, exists=True), names=("-k", "--kustomize"), metavar="FOLDER",
    )  # fmt: skip


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not port.isdecimal() or len(port) > 5 or int(port) > 65535 or (":" in host and not bracketed):
        raise InputError(f"{text!r} is not HOST:PORT, for example 0.0.0.0:8443 or [::]:8443")
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - the usual meaning of an empty host


ADDRESS: Final = Parsed("HOST:PORT", _address)
"""``HOST:PORT``, with an IPv6 host in brackets."""


class LogLevelFlags(Flags):
    """What a process logs."""

    log_level: str = option("The lowest level to log.", "info", click.Choice(logs.LEVELS))


class KubeconfigFlags(Flags):
    """Access to the API server that the text ``server`` describes."""

    kubeconfig: Path | None = option(f"Kubeconfig file of {{server}}. Default: {_ORDER}.")
    context: str | None = option(
        "The context of the kubeconfig. Default: its current context.",
        metavar="NAME",
        shell_complete=completion.contexts,
    )


class RequestFlags(Flags):
    """How requests to an API server are sent, with kubectl's names."""

    impersonated: str = option(
        "Send requests as this user, for example system:serviceaccount:NAMESPACE:NAME.",
        "", names=("--as",), metavar="USER",
    )  # fmt: skip
    impersonated_groups: tuple[str, ...] = option(
        "With --as: send requests as a member of this group. Repeatable.", names=("--as-group",), metavar="GROUP"
    )
    request_timeout_s: float = option(
        f"{REQUEST_TIMEOUT_HELP} Default: that of each request.",
        0.0, click.FloatRange(0, 3600), names=(REQUEST_TIMEOUT,), show_default=False,
    )  # fmt: skip
    verbosity: int = option(
        "Print each request with its result and its time on standard error from level 6 on, as kubectl does.",
        0, Parsed("LEVEL", _level), names=("-v", "--v"), metavar="LEVEL", show_default=False,
    )  # fmt: skip

    @property
    def manner(self) -> "RequestManner":
        """How requests are sent. Raises ``UsageError`` for a group without a user."""
        from berthmaster.kube.manner import RequestManner  # noqa: PLC0415 - files need no client
        from berthmaster_cli.output import complain  # noqa: PLC0415 - this module has options only

        if self.impersonated_groups and not self.impersonated:
            raise click.UsageError("--as-group needs --as: a group is impersonated together with a user")
        report = complain if self.verbosity >= _REPORTS_REQUESTS else None
        return RequestManner(self.impersonated, self.impersonated_groups, self.request_timeout_s, report)


class AccessFlags(KubeconfigFlags, RequestFlags):
    """Access to an API server, and how requests to it are sent.

    Each command that asks an API server has these options. A service has ``KubeconfigFlags`` only: it sends its
    requests as itself.
    """

    def access(self) -> "ClusterAccess":
        """Return the access that the options name. Raises ``InputError`` if there is none."""
        return self.access_to(self.kubeconfig, self.context)

    def access_to(self, kubeconfig: Path | None, context: str | None) -> "ClusterAccess":
        """Return the access of a kubeconfig file and a context. Raises ``InputError`` if there is none."""
        from berthmaster.kube.kubeconfig import find_access  # noqa: PLC0415 - files need no client

        return find_access(kubeconfig, context)._replace(manner=self.manner)

    def refuse_manner_of_files(self, remedy: str) -> None:
        """Raise ``UsageError`` if the options send requests as another user, and only files are read."""
        if self.impersonated or self.impersonated_groups:
            raise click.UsageError(f"--as and --as-group ask a control plane, and only files are read; {remedy}")


class PlaneFlags(AccessFlags):
    """Access to a control plane that a command reads, and how it is read."""

    read_timeout_s: float = option(
        "The time limit for reading the control plane, in seconds.", 120.0, click.FloatRange(1, 3600)
    )


class ServerFlags(Flags):
    """An extender to ask."""

    server: str | None = option("Also ask this `berthmaster extender`.", metavar="URL")
    token_file: Path | None = option("With --server: a file with the bearer token.", type=_EXISTING_FILE)
    ca_file: Path | None = option("With --server: the CA certificates to trust, in PEM.", type=_EXISTING_FILE)
    client_cert_file: Path | None = option("With --server: the client certificate, in PEM.", type=_EXISTING_FILE)
    client_key_file: Path | None = option("With --server: the key of that certificate, in PEM.", type=_EXISTING_FILE)

    def remote(self) -> "Client | None":
        """Return a client of the extender; None without ``--server``."""
        pair = certificate_pair(self.client_cert_file, self.client_key_file, "client-")
        if self.server is None:
            return None
        from berthmaster.native_api.client import Client  # noqa: PLC0415 - imported only if it is used

        return Client(self.server, token_file=self.token_file, ca_file=self.ca_file, certificate=pair)


class ClusterFlags(AccessFlags):
    """Access to the host and to the target, which the texts ``server`` and ``target`` describe."""

    target_kubeconfig: Path | None = option("Kubeconfig file of {target}. Default: the host.")
    target_context: str | None = option("The context of the target's kubeconfig.", metavar="NAME")

    @property
    def single(self) -> bool:
        """Whether no target is named, so that the host is the target."""
        return self.target_kubeconfig is None and self.target_context is None


def certificate_pair(certificate: Path | None, key: Path | None, prefix: str = "") -> tuple[Path, Path] | None:
    """Return a certificate and its key; None without them. ``prefix``: the first part of the names of both options."""
    if (certificate is None) != (key is None):
        raise click.UsageError(f"--{prefix}cert-file and --{prefix}key-file need each other: set both or neither")
    return None if certificate is None or key is None else (certificate, key)


def cluster_clients(flags: ClusterFlags) -> "tuple[APIClient, APIClient]":
    """Return clients of the host and the target. They can be the same client."""
    from berthmaster.kube.http_client import connect  # noqa: PLC0415 - `--help` must not import the client

    host = connect(flags.access())
    if flags.single:
        return host, host
    return host, connect(flags.access_to(flags.target_kubeconfig or flags.kubeconfig, flags.target_context))


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
        ctx.default_map = {**(ctx.default_map or {}), **_values(yaml_document(path), ctx.command, path)}


def yaml_document(path: Path) -> Mapping[str, Any]:
    """Return the mapping that a YAML file of limited size holds; an empty one for an empty file."""
    files = read_files([path], stdin=sys.stdin.buffer, limit=_LIMITS.file_bytes)
    documents = [raw for _, data in files for _, raw in read_yaml(data, str(path), _LIMITS) if raw is not None]
    if len(documents) > 1:
        raise InputError(f"{path}: has {len(documents)} documents; accepted is one")
    document = documents[0] if documents else {}
    if not isinstance(document, dict):
        raise InputError(f"{path}: {shown(document)} is not a mapping")
    return document


def _values(document: Mapping[str, Any], command: click.Command, path: Path) -> dict[str, Any]:
    known = [each for each in command.params if isinstance(each, click.Option) and each.name]
    options = {max(each.opts, key=len).lstrip("-"): each for each in known}
    values = {}
    for key, value in document.items():
        option = options.get(str(key))
        if option is None or option.name is None or key in {"config", "help"}:
            close = closest(str(key), options)
            hint = f"did you mean {close}?" if close else f"accepted are {', '.join(sorted(options))}"
            raise InputError(f"{path}: {key}: unknown option; {hint}")
        values[option.name] = _texts(value, f"{path}: {key}") if option.multiple else _text(value, f"{path}: {key}")
    return values


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
